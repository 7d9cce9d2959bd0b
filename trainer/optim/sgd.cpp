#include "trainer/optim/sgd.h"

#include <fmt/format.h>

#include "trainer/core/digest.h"
#include "trainer/core/parallel.h"

namespace lockstep::trainer::optim {

namespace {

template <typename Real>
void update_segment(const core::Update& update, size_t number, Real rate, Real momentum, Real decay,
                    core::DigestSum& digests) {
  const core::Segment& segment = update.layout->segments[number];
  auto* p = static_cast<Real*>(update.parameters) + segment.offset;
  const auto* g = static_cast<const Real*>(update.gradients) + segment.offset;
  auto* v = static_cast<Real*>(update.slots[0]) + segment.offset;
  auto scale = static_cast<Real>(update.gradient_scale);
  core::for_blocks(segment.count, update.threads, [&](size_t block, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      v[i] = momentum * v[i] + (g[i] * scale + decay * p[i]);
      p[i] -= rate * v[i];
    }
    const size_t bytes = (end - begin) * sizeof(Real);
    digests.add(core::digest_of_block(core::array_of(number, 0, 1), block, p + begin, bytes) +
                core::digest_of_block(core::array_of(number, 1, 1), block, v + begin, bytes));
  });
}

}  // namespace

const std::vector<std::string>& Sgd::slots() const {
  static const std::vector<std::string> names = {"momentum"};
  return names;
}

std::uint64_t Sgd::apply(const core::Update& update) const {
  double rate = learning_rate(update.step);
  core::DigestSum digests;
  for (size_t i = 0; i < update.layout->segments.size(); ++i) {
    double decay = update.layout->segments[i].decay ? options_.weight_decay : 0.0;
    if (update.real == core::ElementType::kFloat32) {
      update_segment(update, i, static_cast<float>(rate), static_cast<float>(options_.momentum),
                     static_cast<float>(decay), digests);
    } else {
      update_segment(update, i, rate, options_.momentum, decay, digests);
    }
  }
  return digests.value();
}

std::string Sgd::describe() const {
  return fmt::format("sgd momentum={} weight-decay={}", options_.momentum, options_.weight_decay);
}

}  // namespace lockstep::trainer::optim
