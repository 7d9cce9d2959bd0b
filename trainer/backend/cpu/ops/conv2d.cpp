#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "trainer/backend/cpu/depthwise.h"
#include "trainer/backend/cpu/primitive.h"

namespace lockstep::trainer::backend::cpu {

namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Use = Operand::Use;

// The tensors of one layer as the graph has them.
struct Tensors {
  Desc x, weight, bias, y;  // `bias` is empty if there is none
};

Desc real(const dnnl::memory::dims& dims, Tag tag) {
  return {dims, dnnl::memory::data_type::f32, tag};
}

Tensors tensors_of(const core::ops::Conv2d& op, const Dimensions& d) {
  const auto size = [](size_t v) { return static_cast<dnnl::memory::dim>(v); };
  const auto out = size(d.out), in = size(d.in);
  return {.x = real({size(d.samples), in, size(d.height), size(d.width)}, Tag::nhwc),
          .weight = op.groups == 1
                        ? real({out, in, op.kernel, op.kernel}, Tag::ohwi)
                        : real({op.groups, out / op.groups, in / op.groups, op.kernel, op.kernel}, Tag::gohwi),
          .bias = op.bias ? real({out}, Tag::a) : Desc(),
          .y = real({size(d.samples), out, size(d.out_height), size(d.out_width)}, Tag::nhwc)};
}

Desc free(const Desc& layout) {
  return real(layout.dims(), Tag::any);
}

// Whether oneDNN compiles the convolution itself; its other implementations are many times slower.
template <typename Description>
bool is_compiled(const Description& description) {
  return std::string_view(description.impl_info_str()).starts_with("jit") ||
         std::string_view(description.impl_info_str()).starts_with("brg");
}

// make(x, y) describes a convolution whose images have these layouts: those of the graph, which need no reorder, or
// those that the library chooses. It chooses if it has nothing compiled for the graph's, or is known to be `slow` with
// them.
template <typename Make>
auto describe(const Tensors& t, const Make& make, bool slow = false) {
  auto described = make(t.x, t.y);
  if (is_compiled(described) && !slow) return described;
  auto chosen = make(free(t.x), free(t.y));
  return is_compiled(chosen) ? chosen : described;
}

// What all three passes are.
class Convolution {
 public:
  Convolution(const core::ops::Conv2d& op, const Dimensions& d)
      : t_(tensors_of(op, d)), strides_{op.stride, op.stride}, padding_{op.padding, op.padding}, forward_(forward()) {}

  Primitive output() const {
    std::vector<Operand> operands = {{DNNL_ARG_SRC, t_.x, forward_.src_desc()},
                                     {DNNL_ARG_WEIGHTS, t_.weight, forward_.weights_desc()},
                                     {DNNL_ARG_DST, t_.y, forward_.dst_desc(), Use::kWrite}};
    if (!t_.bias.is_zero()) operands.push_back({DNNL_ARG_BIAS, t_.bias, forward_.bias_desc()});
    return {forward_, std::move(operands)};
  }
  Primitive input_gradient() const {
    using Pass = dnnl::convolution_backward_data;
    const auto pass = describe(
        t_,
        [&](const Desc& x, const Desc& y) {
          const Pass::desc described(kDirect, x, free(t_.weight), y, strides_, padding_, padding_);
          return Pass::primitive_desc(described, Primitive::user(), engine(), forward_);
        },
        input_gradient_is_slow());
    return {pass,
            {{DNNL_ARG_DIFF_DST, t_.y, pass.diff_dst_desc()},
             {DNNL_ARG_WEIGHTS, t_.weight, pass.weights_desc()},
             {DNNL_ARG_DIFF_SRC, t_.x, pass.diff_src_desc(), Use::kMayAdd}}};
  }
  Primitive parameter_gradients() const {
    using Pass = dnnl::convolution_backward_weights;
    const auto pass = describe(
        t_,
        [&](const Desc& x, const Desc& y) {
          const Pass::desc described(kDirect, x, free(t_.weight), t_.bias, y, strides_, padding_, padding_);
          return Pass::primitive_desc(described, Primitive::user(), engine(), forward_);
        },
        t_.x.dims()[1] < kFewChannels);
    std::vector<Operand> operands = {{DNNL_ARG_SRC, t_.x, pass.src_desc()},
                                     {DNNL_ARG_DIFF_DST, t_.y, pass.diff_dst_desc()},
                                     {DNNL_ARG_DIFF_WEIGHTS, t_.weight, pass.diff_weights_desc(), Use::kMayAdd}};
    if (!t_.bias.is_zero()) {
      operands.push_back({DNNL_ARG_DIFF_BIAS, t_.bias, pass.diff_bias_desc(), Use::kMayAdd});
    }
    return {pass, std::move(operands)};
  }

 private:
  using Forward = dnnl::convolution_forward;

  // Measured with oneDNN 2.6 on AVX-512. Over N, H, W, C the weights' gradient takes twice as long with the three
  // channels of a photo. So does the input's gradient with many channels and long rows.
  static constexpr dnnl::memory::dim kFewChannels = 8, kManyChannels = 512, kLongRow = 14;
  bool input_gradient_is_slow() const {
    const auto y = t_.y.dims();
    return t_.weight.dims().back() > 1 && y[1] >= kManyChannels && y[3] > kLongRow;
  }

  static constexpr auto kDirect = dnnl::algorithm::convolution_direct;  // Winograd's rounding errors are larger

  Forward::primitive_desc forward() const {
    return describe(t_, [&](const Desc& x, const Desc& y) {
      const Forward::desc described(dnnl::prop_kind::forward_training, kDirect, x, free(t_.weight), t_.bias, y,
                                    strides_, padding_, padding_);
      return Forward::primitive_desc(described, Primitive::user(), engine());
    });
  }

  const Tensors t_;
  const dnnl::memory::dims strides_, padding_;
  const Forward::primitive_desc forward_;
};

class Conv2dKernel final : public Base {
 public:
  Conv2dKernel(const core::ops::Conv2d& op, Site site) : Base(std::move(site)) {
    const Convolution convolution(op, d_);
    std::vector<Place> places = {{x()}, {parameter(0)}, {y()}};
    if (op.bias) places.push_back({parameter(1)});
    output_.emplace(convolution.output()).bind(places, bindings().forward_scratch);
    if (dparameter(0) == nullptr || dy() == nullptr) return;  // no backward pass
    places = {{x()}, {dy()}, {dparameter(0), true}};
    if (op.bias) places.push_back({dparameter(1), true});
    parameter_gradients_.emplace(convolution.parameter_gradients()).bind(places, bindings().backward_scratch);
    if (dx() == nullptr) return;
    places = {{dy()}, {parameter(0)}, {dx(), accumulate()}};
    input_gradient_.emplace(convolution.input_gradient()).bind(places, bindings().backward_scratch);
  }
  Status forward(const RunContext&) override { return output_->run(node()); }
  Status backward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(parameter_gradients_->run(node()));
    return input_gradient_ ? input_gradient_->run(node()) : Status();
  }

 private:
  std::optional<Primitive> output_, parameter_gradients_, input_gradient_;
};

}  // namespace

Needs needs_of(const core::ops::Conv2d& op, const Dimensions& d, size_t threads) {
  if (is_depthwise(op, d)) return needs_of(Depthwise{op}, d, threads);
  const Convolution convolution(op, d);
  return {.reads_inputs = true,
          .forward_scratch = convolution.output().scratch(),
          .backward_scratch =
              std::max(convolution.parameter_gradients().scratch(), convolution.input_gradient().scratch())};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Conv2d& op, Site site) {
  if (is_depthwise(op, dimensions_of(site.at.graph, site.at.node))) return make_kernel(Depthwise{op}, std::move(site));
  return std::make_unique<Conv2dKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
