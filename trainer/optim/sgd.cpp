#include "trainer/optim/sgd.h"

#include <fmt/format.h>

#include "trainer/core/parallel.h"

namespace lockstep::trainer::optim {

namespace {

template <typename Real>
void update_segment(const core::Update& update, const core::Segment& segment, Real rate, Real momentum, Real decay) {
  auto* p = static_cast<Real*>(update.parameters) + segment.offset;
  const auto* g = static_cast<const Real*>(update.gradients) + segment.offset;
  auto* v = static_cast<Real*>(update.slots[0]) + segment.offset;
  auto scale = static_cast<Real>(update.gradient_scale);
  core::for_blocks(segment.count, update.threads, [&](size_t, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      v[i] = momentum * v[i] + (g[i] * scale + decay * p[i]);
      p[i] -= rate * v[i];
    }
  });
}

}  // namespace

const std::vector<std::string>& Sgd::slots() const {
  static const std::vector<std::string> names = {"momentum"};
  return names;
}

void Sgd::apply(const core::Update& update) const {
  double rate = learning_rate(update.step);
  for (const core::Segment& segment : update.layout->segments) {
    double decay = segment.decay ? options_.weight_decay : 0.0;
    if (update.real == core::ElementType::kFloat32) {
      update_segment(update, segment, static_cast<float>(rate), static_cast<float>(options_.momentum),
                     static_cast<float>(decay));
    } else {
      update_segment(update, segment, rate, options_.momentum, decay);
    }
  }
}

std::string Sgd::describe() const {
  return fmt::format("sgd momentum={} weight-decay={}", options_.momentum, options_.weight_decay);
}

}  // namespace lockstep::trainer::optim
