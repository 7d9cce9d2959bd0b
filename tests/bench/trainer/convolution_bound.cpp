#include "tests/bench/trainer/convolution_bound.h"

#include <variant>

namespace lockstep::bench {

namespace core = trainer::core;

namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

Desc any(const Dims& dims) {
  return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

Dims images(const core::Shape& shape) {
  return {shape[0], shape[3], shape[1], shape[2]};
}

}  // namespace

ConvolutionBound::ConvolutionBound(const core::Graph& graph) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
  // Two passes: the first finds how large each memory must be, because a vector that grows moves.
  for (int pass = 0; pass < 2; ++pass) {
    forward_.clear(), backward_data_.clear(), backward_weights_.clear();
    for (const core::Node& node : graph.nodes) {
      if (std::holds_alternative<core::ops::Conv2d>(node.op)) append(graph, node);
    }
  }
}

void ConvolutionBound::append(const core::Graph& graph, const core::Node& node) {
  const auto& op = std::get<core::ops::Conv2d>(node.op);
  const core::Shape& in = graph.tensor(node.inputs[0]).shape;
  const core::Shape& out = graph.tensor(node.output).shape;
  const Dims strides = {op.stride, op.stride}, padding = {op.padding, op.padding};
  const Desc x = any(images(in)), y = any(images(out));
  const Desc weight = op.groups == 1 ? any({out[3], in[3], op.kernel, op.kernel})
                                     : any({op.groups, out[3] / op.groups, in[3] / op.groups, op.kernel, op.kernel});
  using Forward = dnnl::convolution_forward;
  const Forward::primitive_desc forward(
      Forward::desc(dnnl::prop_kind::forward_training, kDirect, x, weight, y, strides, padding, padding), engine_);
  forward_.push_back({Forward(forward),
                      {{DNNL_ARG_SRC, memory(DNNL_ARG_SRC, forward.src_desc())},
                       {DNNL_ARG_WEIGHTS, memory(DNNL_ARG_WEIGHTS, forward.weights_desc())},
                       {DNNL_ARG_DST, memory(DNNL_ARG_DST, forward.dst_desc())}}});
  using Weights = dnnl::convolution_backward_weights;
  const Weights::primitive_desc weights(Weights::desc(kDirect, x, weight, y, strides, padding, padding), engine_,
                                        forward);
  backward_weights_.push_back({Weights(weights),
                               {{DNNL_ARG_SRC, memory(DNNL_ARG_SRC, weights.src_desc())},
                                {DNNL_ARG_DIFF_DST, memory(DNNL_ARG_DIFF_DST, weights.diff_dst_desc())},
                                {DNNL_ARG_DIFF_WEIGHTS, memory(DNNL_ARG_WEIGHTS, weights.diff_weights_desc())}}});
  if (!graph.tensor(node.inputs[0]).has_gradient) return;
  using Data = dnnl::convolution_backward_data;
  const Data::primitive_desc data(Data::desc(kDirect, x, weight, y, strides, padding, padding), engine_, forward);
  backward_data_.push_back({Data(data),
                            {{DNNL_ARG_DIFF_DST, memory(DNNL_ARG_DIFF_DST, data.diff_dst_desc())},
                             {DNNL_ARG_WEIGHTS, memory(DNNL_ARG_WEIGHTS, data.weights_desc())},
                             {DNNL_ARG_DIFF_SRC, memory(DNNL_ARG_SRC, data.diff_src_desc())}}});
}

dnnl::memory ConvolutionBound::memory(int argument, const Desc& description) {
  std::vector<float>& room = rooms_[argument];
  const size_t count = description.get_size() / sizeof(float) + 16;
  if (room.size() < count) room.resize(count, 0.01f);
  return {description, engine_, room.data()};
}

void ConvolutionBound::run(const std::vector<Call>& calls) {
  for (const Call& call : calls) call.primitive.execute(stream_, call.arguments);
  stream_.wait();
}

}  // namespace lockstep::bench
