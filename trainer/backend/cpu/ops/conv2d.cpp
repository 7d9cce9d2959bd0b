#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "trainer/backend/cpu/depthwise.h"
#include "trainer/backend/cpu/primitive.h"
#include "trainer/backend/cpu/tiled_convolution.h"

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
        parameter_gradients_are_slow());
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

  // Measured with oneDNN 2.6 over N, H, W, C. The weights' gradient takes twice as long as in the library's layout with
  // the three channels of a photo.
  static constexpr dnnl::memory::dim kFewChannels = 8;
  // With AVX-512 so does the input's gradient with many channels and long rows.
  static constexpr dnnl::memory::dim kManyChannels = 512, kLongRow = 14;
  // With AVX2 the input's gradient with a stride takes a quarter longer, reorders counted. So does the weights'
  // gradient of single pixels where there are many products for each channel that is reordered.
  static constexpr dnnl::memory::dim kManyProducts = 100;
  dnnl::memory::dim kernel() const { return t_.weight.dims().back(); }
  bool input_gradient_is_slow() const {
    const auto y = t_.y.dims();
    if (!library_has(dnnl_cpu_isa_avx512_core)) return kernel() > 1 && strides_[0] > 1;
    return kernel() > 1 && y[1] >= kManyChannels && y[3] > kLongRow;
  }
  bool parameter_gradients_are_slow() const {
    const auto in = t_.x.dims()[1], out = t_.y.dims()[1];
    return in < kFewChannels ||
           (!library_has(dnnl_cpu_isa_avx512_core) && kernel() == 1 && in * out >= kManyProducts * (in + out));
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

// Its own loops give all passes but, with a stride, the input's gradient.
class TiledKernel final : public Base {
 public:
  TiledKernel(const core::ops::Conv2d& op, Site site) : Base(std::move(site)), tiled_(op, d_, team_), bias_(op.bias) {
    if (dx() == nullptr || tiled_.gives_input_gradient()) return;
    input_gradient_.emplace(Convolution(op, d_).input_gradient())
        .bind({{dy()}, {parameter(0)}, {dx(), accumulate()}}, bindings().backward_scratch);
  }
  Status forward(const RunContext&) override {
    tiled_.output(x(), parameter(0), bias_ ? parameter(1) : nullptr, static_cast<float*>(bindings().forward_scratch),
                  y());
    return {};
  }
  Status backward(const RunContext&) override {
    auto* const scratch = static_cast<float*>(bindings().backward_scratch);
    tiled_.parameter_gradients(x(), dy(), scratch, dparameter(0), bias_ ? dparameter(1) : nullptr);
    if (dx() == nullptr) return {};
    if (input_gradient_) return input_gradient_->run(node());
    tiled_.input_gradient(dy(), parameter(0), accumulate(), scratch, dx());
    return {};
  }

 private:
  const TiledConvolution tiled_;
  const bool bias_;
  std::optional<Primitive> input_gradient_;
};

Needs needs_of_tiled(const core::ops::Conv2d& op, const Dimensions& d, const Team& team) {
  const TiledConvolution tiled(op, d, team);
  const size_t input_gradient =
      tiled.gives_input_gradient() ? tiled.input_gradient_scratch() : Convolution(op, d).input_gradient().scratch();
  return {.reads_inputs = true,
          .forward_scratch = tiled.output_scratch(),
          .backward_scratch = std::max(tiled.parameter_gradients_scratch(), input_gradient)};
}

}  // namespace

Needs needs_of(const core::ops::Conv2d& op, const Dimensions& d, const Team& team) {
  if (is_depthwise(op, d)) return needs_of(Depthwise{op}, d, team);
  if (TiledConvolution::fits(op, d, team)) return needs_of_tiled(op, d, team);
  const Convolution convolution(op, d);
  return {.reads_inputs = true,
          .forward_scratch = convolution.output().scratch(),
          .backward_scratch =
              std::max(convolution.parameter_gradients().scratch(), convolution.input_gradient().scratch())};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Conv2d& op, Site site) {
  const Dimensions d = dimensions_of(site.at.graph, site.at.node);
  if (is_depthwise(op, d)) return make_kernel(Depthwise{op}, std::move(site));
  if (TiledConvolution::fits(op, d, site.team)) return std::make_unique<TiledKernel>(op, std::move(site));
  return std::make_unique<Conv2dKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
