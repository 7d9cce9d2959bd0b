#include "tests/trainer/backend/cuda/roofline/node_work.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "tests/trainer/backend/cuda/roofline/node_bytes.h"
#include "trainer/backend/cuda/fusion.h"

namespace lockstep::trainer::testing {

namespace {

namespace ops = core::ops;

#define LOCKSTEP_KIND(name)               \
  const char* kind_of(const ops::name&) { \
    return #name;                         \
  }
LOCKSTEP_OPS(LOCKSTEP_KIND)
#undef LOCKSTEP_KIND

// What a norm reads and writes besides its input, in bytes.
struct AroundNorm {
  double y, dy;
  double other, other_gradient;  // of the sum
  double passed;                 // the gradient that the sum's other term got, if it got no other one; else 0
  double value;                  // what decides in the backward pass what an activation lets through
};

// Collects the work of one node. Scratch is written once and read once, for which the ops' functions count it twice.
class NodeWorks {
 public:
  NodeWorks(const core::Graph& graph, const core::Node& node, backend::Precision precision, std::vector<bool> adds)
      : graph_(graph), node_(node), bytes_(graph, node, precision, std::move(adds)) {
    std::visit([this](const auto& op) { add(op); }, node.op);
    add_copies();
    keep_passes_of(node.output);
  }

  // Of a run that begins with a batch norm.
  NodeWorks(const core::Graph& graph, const backend::Run& run, backend::Precision precision,
            const std::vector<std::vector<bool>>& adds)
      : graph_(graph), node_(graph.nodes[run.first]), bytes_(graph, node_, precision, adds[run.first]) {
    const size_t last = run.first + run.count - 1;
    const NodeBytes end(graph, graph.nodes[last], precision, adds[last]);
    AroundNorm around{.y = end.y(), .dy = end.dy(), .other = 0, .other_gradient = 0, .passed = 0, .value = 0};
    const backend::NormBlock block = backend::norm_block_of(graph, run);
    if (block.adds) {
      const NodeBytes terms(graph, graph.nodes[run.first + 1], precision, adds[run.first + 1]);
      const size_t i = graph.nodes[run.first + 1].inputs[0] == node_.output ? 1 : 0;
      around.other = terms.x(i);
      around.other_gradient = terms.dx(i);
      if (!adds[run.first + 1][i]) around.passed = terms.dx(i);
      if (block.activation != backend::Activation::kNone) around.value = end.y();
    }
    add_norm(around);
    keep_passes_of(graph.nodes[last].output);
  }

  std::vector<Work> take() { return std::move(works_); }

 private:
  // Without a gradient there is no backward pass.
  void keep_passes_of(core::TensorId output) {
    if (graph_.tensor(output).has_gradient) return;
    std::erase_if(works_, [](const Work& work) { return work.pass != Pass::kForward; });
  }
  void put(Pass pass, double bytes, double flops = 0, bool library = false) {
    if (bytes == 0) return;
    const std::string kind = std::visit([](const auto& op) { return kind_of(op); }, node_.op);
    works_.push_back({node_.name, kind, pass, flops, bytes, library && bytes_.rounds()});
  }
  void forward(double bytes, double flops = 0, bool library = false) { put(Pass::kForward, bytes, flops, library); }
  void weights(double bytes, double flops = 0, bool library = false) {
    put(Pass::kWeightGradient, bytes, flops, library);
  }
  // `bytes`: besides what is written.
  void input(double bytes, double flops = 0, bool library = false, size_t i = 0) {
    if (bytes_.wants(i)) put(Pass::kInputGradient, bytes + bytes_.dx(i), flops, library);
  }

  const core::Shape& in() const { return graph_.tensor(node_.inputs[0]).shape; }
  const core::Shape& out() const { return graph_.tensor(node_.output).shape; }

  // Pixels that no window holds are not read: a convolution of 1 x 1 with a stride of 2 skips three of four.
  double read_pixels(std::int64_t kernel) const {
    double share = 1;
    for (const size_t side : {1, 2}) {
      share *= std::min(1.0, static_cast<double>(out()[side] * kernel) / static_cast<double>(in()[side]));
    }
    return share * bytes_.x();
  }

  void bias_gradient(size_t parameters) {
    if (parameters < 2) return;
    weights(bytes_.dy() + bytes_.dweight(1) + 2 * bytes_.backward_scratch());
  }

  void add(const ops::Linear&) {
    const double flops = ops::Linear::flops(in(), out(), graph_.batch);
    forward(bytes_.x() + bytes_.weights() + bytes_.y(), flops, true);
    weights(bytes_.x() + bytes_.dy() + bytes_.dweight(), flops, true);
    bias_gradient(node_.parameters.size());
    input(bytes_.dy() + bytes_.weight(), flops, true);
  }
  void add(const ops::Conv2d& op) {
    const double flops = op.flops(in(), out(), graph_.batch), x = read_pixels(op.kernel);
    if (!bytes_.of_dnn()) return add_depthwise(flops, x);
    forward(x + bytes_.weight() + bytes_.y(), flops, true);
    if (op.bias) forward(bytes_.weight(1) + 2 * bytes_.y());
    weights(x + bytes_.dy() + (bytes_.rounds() ? bytes_.weight() : bytes_.dweight()), flops, true);
    bias_gradient(node_.parameters.size());
    input(bytes_.dy() + bytes_.weight(), flops, true);
  }
  void add_depthwise(double flops, double x) {
    const double transposed = bytes_.weight() + 2 * bytes_.forward_scratch();
    forward(x + transposed + bytes_.weight(1) + bytes_.y(), flops);
    weights(x + bytes_.dy() + bytes_.dweight() + 2 * bytes_.backward_scratch(), flops);
    bias_gradient(node_.parameters.size());
    input(bytes_.dy() + transposed, flops);
  }
  void add(const ops::BatchNorm&) {
    add_norm({.y = bytes_.y(), .dy = bytes_.dy(), .other = 0, .other_gradient = 0, .passed = 0, .value = 0});
  }
  // The statistics read the input, and the result reads it again. In the backward pass the sums read gradient and
  // input, and write the gradient of the sum's other term; the gradient of the input follows from that one where it
  // can.
  void add_norm(const AroundNorm& of) {
    forward(2 * bytes_.x() + of.other + bytes_.weights() + of.y + bytes_.kept() + 2 * bytes_.forward_scratch());
    weights(bytes_.x() + of.dy + of.value + of.other_gradient + bytes_.kept() + bytes_.dweights() +
            2 * bytes_.backward_scratch());
    input(bytes_.x() + (of.passed > 0 ? of.passed : of.dy + of.value) + bytes_.kept() + bytes_.weight());
  }
  void add(const ops::LayerNorm&) {
    forward(bytes_.x() + bytes_.weights() + bytes_.y() + bytes_.kept());
    weights(bytes_.x() + bytes_.dy() + bytes_.kept() + bytes_.dweights() + 2 * bytes_.backward_scratch());
    input(bytes_.x() + bytes_.dy() + bytes_.kept() + bytes_.weight());
  }
  void add(const ops::Add&) {
    forward(bytes_.x(0) + bytes_.x(1) + bytes_.y());
    for (const size_t i : {0, 1}) input(bytes_.dy(), 0, false, i);
  }
  void add_map(double backward_reads) {
    forward(bytes_.x() + bytes_.y());
    input(bytes_.dy() + backward_reads);
  }
  void add(const ops::Relu&) { add_map(bytes_.y()); }
  void add(const ops::Relu6&) { add_map(bytes_.y()); }
  void add(const ops::Gelu&) { add_map(bytes_.x()); }
  void add(const ops::Dropout&) { add_map(0); }
  void add(const ops::Flatten&) { add_map(0); }
  void add(const ops::GlobalAveragePool&) { add_map(0); }
  void add(const ops::MaxPool2d& op) {
    forward(read_pixels(op.kernel) + bytes_.y() + bytes_.kept());
    input(bytes_.dy() + bytes_.kept());
  }
  // Each of the two kernels of the backward pass reads one half of the probabilities, of which the other half is zero.
  // The scratch is as large, and only a half of it is used.
  void add(const ops::CausalAttention&) {
    const double flops = ops::CausalAttention::flops(in(), out(), graph_.batch);
    forward(bytes_.x() + bytes_.y() + bytes_.kept(), flops);
    input(bytes_.x() + 2 * bytes_.dy() + bytes_.kept() + bytes_.backward_scratch(), 2 * flops);
  }
  void add(const ops::SoftmaxCrossEntropy&) {
    forward(bytes_.x() + bytes_.x(1) + bytes_.y() + bytes_.kept() + 2 * bytes_.forward_scratch());
    input(bytes_.x(1) + bytes_.kept());
  }
  void add(const ops::MeanSquaredError&) {
    forward(bytes_.x() + bytes_.x(1) + bytes_.y());
    input(bytes_.x() + bytes_.x(1));
  }
  // A row of the table that several indices name is read once.
  void add(const ops::Embedding&) {
    forward(bytes_.x() + std::min(bytes_.weight(), 4 * bytes_.elements(node_.output)) + bytes_.weight(1) + bytes_.y());
    weights(bytes_.x() + bytes_.dy() + bytes_.dweight());
    weights(bytes_.dy() + bytes_.dweight(1));
  }

  // Float32 is read and bfloat16 written, or the other way round; or bfloat16 is added to float32.
  void add_copies() {
    if (const double count = bytes_.copied_forward(); count > 0) {
      works_.push_back({node_.name, "copies", Pass::kForward, 0, (4 + 2) * count, false});
    }
    if (const double count = bytes_.copied_backward(); count > 0) {
      works_.push_back({node_.name, "copies", Pass::kWeightGradient, 0, (2 + 4 + 4) * count, false});
    }
  }

  const core::Graph& graph_;
  const core::Node& node_;
  const NodeBytes bytes_;
  std::vector<Work> works_;
};

}  // namespace

std::vector<std::vector<bool>> additions_of(const core::Graph& graph) {
  std::vector<std::vector<bool>> adds(graph.nodes.size());
  std::set<core::TensorId> written;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const core::Node& node = graph.nodes[i];
    for (const core::TensorId input : node.inputs) adds[i].push_back(written.contains(input));
    if (graph.tensor(node.output).has_gradient) written.insert(node.inputs.begin(), node.inputs.end());
  }
  return adds;
}

std::vector<std::vector<Work>> works_of_nodes(const core::Graph& graph, backend::Precision precision) {
  const std::vector<std::vector<bool>> adds = additions_of(graph);
  std::vector<std::vector<Work>> works;
  for (const backend::Run& run : backend::cuda::runs_of(graph, precision == backend::Precision::kBfloat16)) {
    works.push_back(run.count > 1 ? NodeWorks(graph, run, precision, adds).take()
                                  : NodeWorks(graph, graph.nodes[run.first], precision, adds[run.first]).take());
    works.resize(run.first + run.count);
  }
  return works;
}

}  // namespace lockstep::trainer::testing
