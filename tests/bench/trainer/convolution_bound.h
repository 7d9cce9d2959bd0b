// What the convolutions of a graph cost at least with oneDNN. It runs its primitives alone, over the layouts that the
// library likes best, without a reorder and without any other layer.
#pragma once

#include <dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "tests/bench/trainer/bound.h"

namespace lockstep::bench {

class ConvolutionBound final : public Bound {
 public:
  // Plans for the number of threads that OpenMP has on this thread.
  explicit ConvolutionBound(const trainer::core::Graph& graph);
  const char* what() const override { return "convolutions"; }
  void forward() override { run(forward_); }
  void backward_data() override { run(backward_data_); }
  void backward_weights() override { run(backward_weights_); }

 private:
  struct Call {
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> arguments;
  };
  void append(const trainer::core::Graph& graph, const trainer::core::Node& node);
  // Convolutions run one by one, so they share memory.
  dnnl::memory memory(int argument, const dnnl::memory::desc& description);
  void run(const std::vector<Call>& calls);

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::unordered_map<int, std::vector<float>> rooms_;  // by argument
  std::vector<Call> forward_, backward_data_, backward_weights_;
};

}  // namespace lockstep::bench
