#include "trainer/optim/adamw.h"

#include <fmt/format.h>

#include <cmath>

#include "trainer/core/digest.h"
#include "trainer/core/parallel.h"

namespace lockstep::trainer::optim {

namespace {

template <typename Real>
struct Constants {
  Real beta1, beta2, rate, correction2, epsilon, keep, scale;
};

template <typename Real>
void update_segment(const core::Update& update, size_t number, const Constants<Real>& k, core::DigestSum& digests) {
  const core::Segment& segment = update.layout->segments[number];
  auto* p = static_cast<Real*>(update.parameters) + segment.offset;
  const auto* gradients = static_cast<const Real*>(update.gradients) + segment.offset;
  auto* m = static_cast<Real*>(update.slots[0]) + segment.offset;
  auto* v = static_cast<Real*>(update.slots[1]) + segment.offset;
  core::for_blocks(segment.count, update.threads, [&](size_t block, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      Real g = gradients[i] * k.scale;
      m[i] = k.beta1 * m[i] + (1 - k.beta1) * g;
      v[i] = k.beta2 * v[i] + (1 - k.beta2) * (g * g);
      p[i] = p[i] * k.keep - k.rate * m[i] / (std::sqrt(v[i] * k.correction2) + k.epsilon);
    }
    std::uint64_t sum = 0;
    for (size_t part = 0; const Real* written : {p, m, v}) {
      sum += core::digest_of_block(core::array_of(number, part++, 2), block, written + begin,
                                   (end - begin) * sizeof(Real));
    }
    digests.add(sum);
  });
}

// base^exponent by squaring: the same bits everywhere, which pow() of a library does not promise.
double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

}  // namespace

const std::vector<std::string>& AdamW::slots() const {
  static const std::vector<std::string> names = {"adam_m", "adam_v"};
  return names;
}

std::uint64_t AdamW::apply(const core::Update& update) const {
  double rate = learning_rate(update.step);
  double correction1 = 1 / (1 - power(options_.beta1, update.step + 1));
  double correction2 = 1 / (1 - power(options_.beta2, update.step + 1));
  core::DigestSum digests;
  for (size_t i = 0; i < update.layout->segments.size(); ++i) {
    double keep = update.layout->segments[i].decay ? 1 - rate * options_.weight_decay : 1.0;
    Constants<double> k{options_.beta1,   options_.beta2, rate * correction1,   correction2,
                        options_.epsilon, keep,           update.gradient_scale};
    if (update.real == core::ElementType::kFloat64) {
      update_segment(update, i, k, digests);
    } else {
      auto f = [](double x) { return static_cast<float>(x); };
      update_segment(
          update, i,
          Constants<float>{f(k.beta1), f(k.beta2), f(k.rate), f(k.correction2), f(k.epsilon), f(k.keep), f(k.scale)},
          digests);
    }
  }
  return digests.value();
}

std::string AdamW::describe() const {
  return fmt::format("adamw beta1={} beta2={} epsilon={} weight-decay={}", options_.beta1, options_.beta2,
                     options_.epsilon, options_.weight_decay);
}

}  // namespace lockstep::trainer::optim
