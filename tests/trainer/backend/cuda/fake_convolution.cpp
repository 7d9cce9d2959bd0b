#include "tests/trainer/backend/cuda/fake_convolution.h"

#include <atomic>
#include <vector>

#include "tests/trainer/backend/cuda/fake_numbers.h"

namespace lockstep::trainer::cuda::fake {
namespace {

// Calls body(place in the tensor's memory) for each element, in the order N, H, W, C.
template <typename Body>
void for_each(const ConvolutionTensor& t, const Body& body) {
  const auto [n, c, h, w] = t.dimensions;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t row = 0; row < h; ++row) {
      for (std::int64_t column = 0; column < w; ++column) {
        for (std::int64_t channel = 0; channel < c; ++channel) body(t.at(i, channel, row, column));
      }
    }
  }
}

// In the order N, H, W, C, without gaps.
std::vector<double> packed(const ConvolutionTensor& t, const void* memory, Flaw flaw) {
  const Numbers numbers(memory, t.bfloat16, static_cast<size_t>(t.extent()));
  const float* const values = numbers.data();
  std::vector<double> all;
  for_each(t, [&](std::int64_t at) {
    float value = values[at];
    if (flaw == Flaw::kRoundsInputs) value = to_tf32(value);
    if (flaw == Flaw::kNarrowsInputs) value = from_bfloat16(to_bfloat16(value));
    all.push_back(static_cast<double>(value));
  });
  return all;
}

std::int64_t outputs_of(std::int64_t pixels, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                        std::int64_t padding) {
  const std::int64_t room = pixels + padding - (dilation * (kernel - 1) + 1);
  return room < 0 ? 0 : room / stride + 1;
}

}  // namespace

std::int64_t ConvolutionTensor::extent() const {
  std::int64_t last = 0;
  for (size_t i = 0; i < dimensions.size(); ++i) last += (dimensions[i] - 1) * strides[i];
  return last + 1;
}

bool Convolution::fits() const {
  const std::int64_t in_group = w.dimensions[1], outputs = w.dimensions[0];
  if (x.dimensions[1] % in_group != 0) return false;
  const std::int64_t groups = x.dimensions[1] / in_group;
  if (outputs % groups != 0 || y.dimensions[1] != outputs || y.dimensions[0] != x.dimensions[0]) return false;
  for (size_t i = 0; i < 2; ++i) {
    if (y.dimensions[2 + i] !=
        outputs_of(x.dimensions[2 + i], w.dimensions[2 + i], strides[i], dilations[i], before[i] + after[i])) {
      return false;
    }
  }
  return true;
}

void Convolution::compute(void* x_values, void* w_values, void* y_values) const {
  const auto [samples, channels, height, width] = x.dimensions;
  const auto [outputs, in_group, rows, columns] = w.dimensions;
  const std::int64_t out_height = y.dimensions[2], out_width = y.dimensions[3];
  const std::int64_t out_group = outputs / (channels / in_group);
  const ConvolutionTensor& to = pass == Pass::kForward ? y : pass == Pass::kDataGradient ? x : w;
  const auto operand = [&](const ConvolutionTensor& t, const void* values) {
    return &t == &to ? std::vector<double>(
                           static_cast<size_t>(t.dimensions[0] * t.dimensions[1] * t.dimensions[2] * t.dimensions[3]))
                     : packed(t, values, flaw);
  };
  std::vector<double> xs = operand(x, x_values), ws = operand(w, w_values), ys = operand(y, y_values);
  for (std::int64_t n = 0; n < samples; ++n) {
    for (std::int64_t p = 0; p < out_height; ++p) {
      for (std::int64_t q = 0; q < out_width; ++q) {
        double* const y_pixel = &ys[static_cast<size_t>(((n * out_height + p) * out_width + q) * outputs)];
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t i = p * strides[0] - before[0] + r * dilations[0];
          if (i < 0 || i >= height) continue;
          for (std::int64_t s = 0; s < columns; ++s) {
            const std::int64_t j = q * strides[1] - before[1] + s * dilations[1];
            if (j < 0 || j >= width) continue;
            double* const x_pixel = &xs[static_cast<size_t>(((n * height + i) * width + j) * channels)];
            const std::int64_t tap = flips ? (rows - 1 - r) * columns + columns - 1 - s : r * columns + s;
            for (std::int64_t k = 0; k < outputs; ++k) {
              double* const in = x_pixel + k / out_group * in_group;
              double* const weights = &ws[static_cast<size_t>((k * rows * columns + tap) * in_group)];
              double& out = y_pixel[k];
              switch (pass) {
                case Pass::kForward:
                  for (std::int64_t c = 0; c < in_group; ++c) out += in[c] * weights[c];
                  break;
                case Pass::kDataGradient:
                  for (std::int64_t c = 0; c < in_group; ++c) in[c] += out * weights[c];
                  break;
                case Pass::kFilterGradient:
                  for (std::int64_t c = 0; c < in_group; ++c) weights[c] += out * in[c];
                  break;
              }
            }
          }
        }
      }
    }
  }
  static std::atomic<std::uint32_t> runs{0};
  const double noise = flaw == Flaw::kNondeterministic ? 1e-5 * ++runs : flaw == Flaw::kRoundsSums ? 0x1.0p-6 : 0;
  void* const result = pass == Pass::kForward ? y_values : pass == Pass::kDataGradient ? x_values : w_values;
  const double* next = (pass == Pass::kForward ? ys : pass == Pass::kDataGradient ? xs : ws).data();
  const Numbers old_values(result, to.bfloat16, static_cast<size_t>(to.extent()));
  for_each(to, [&](std::int64_t at) {
    const double old = beta == 0 ? 0.0 : static_cast<double>(beta) * static_cast<double>(old_values.data()[at]);
    put(result, to.bfloat16, static_cast<size_t>(at), static_cast<double>(alpha) * *next++ * (1 + noise) + old);
  });
}

}  // namespace lockstep::trainer::cuda::fake
