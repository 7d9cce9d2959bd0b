// A network on the cpu backend, ready to train on random samples, for benchmarks.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/program.h"
#include "trainer/core/state.h"

namespace lockstep::bench {

// "resnet18-cifar", "resnet50", "mobilenet-v2", "vgg-a", "mlp" and "char-transformer".
const std::vector<std::string>& network_names();
// The micro-batch that each is compared at.
std::int64_t usual_batch(const std::string& name);

class Network {
 public:
  // `name`: one of network_names(). kExhausted: there is not enough memory.
  static Result<std::unique_ptr<Network>> make(const std::string& name, std::int64_t batch, int threads,
                                               trainer::core::Recompute recompute);

  Status forward(size_t step) { return program_->forward(step, context_, abort_); }
  Status backward(size_t step) { return program_->backward(step, context_, abort_); }
  // Momentum SGD over all parameters; clears the gradients.
  void update();
  // All of it.
  Status train();

  const trainer::core::Graph& graph() const { return graph_; }
  size_t steps() const { return program_->steps(); }
  // The kinds of the nodes that a step computes: "Conv2d", or "BatchNorm+Relu".
  std::string kind_of(size_t step) const;

 private:
  Network() = default;
  void draw_inputs();

  trainer::core::Graph graph_;
  trainer::core::Layout layout_;
  trainer::core::Optimizer optimizer_;
  std::unique_ptr<trainer::core::Backend> backend_;
  std::unique_ptr<trainer::core::State> state_;
  std::unique_ptr<trainer::core::Memory> gradients_;
  std::vector<double> staged_;
  std::unique_ptr<trainer::core::Program> program_;
  trainer::core::RunContext context_{.overwrites = true};  // a step has one micro-batch
  std::atomic<bool> abort_{false};
};

}  // namespace lockstep::bench
