#include <cmath>

#include "trainer/core/power.h"
#include "trainer/optim/rules.h"

namespace lockstep::trainer::optim {

namespace {

template <typename Real>
struct AdamWScalars {
  Real beta1, beta2, epsilon;
  Real rate;         // the learning rate over the first moment's bias
  Real correction2;  // 1 over the second moment's bias
  Real keep;         // the share of a parameter that its decay leaves
  Real scale;
};

template <typename Real>
std::uint64_t update_segment(const Piece<Real, 2>& piece, const AdamWScalars<Real>& k, int threads) {
  Real* p = piece.parameters;
  const Real* gradients = piece.gradients;
  Real* m = piece.slots[0];
  Real* v = piece.slots[1];
  return update_blocks(piece, threads, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      Real g = gradients[i] * k.scale;
      m[i] = k.beta1 * m[i] + (1 - k.beta1) * g;
      v[i] = k.beta2 * v[i] + (1 - k.beta2) * (g * g);
      p[i] = p[i] * k.keep - k.rate * m[i] / (std::sqrt(v[i] * k.correction2) + k.epsilon);
    }
  });
}

}  // namespace

std::uint64_t apply(const core::AdamW& rule, const Run& run) {
  const double correction1 = 1 / (1 - core::power(rule.beta1, run.update.step + 1));
  const double correction2 = 1 / (1 - core::power(rule.beta2, run.update.step + 1));
  return for_segments(run, [&]<typename Real>(size_t segment, Real) {
    const core::Group& group = core::group_of(run.optimizer, run.update.layout->segments[segment]);
    const double rate = core::learning_rate(run.optimizer, group, run.update.step);
    const AdamWScalars<Real> scalars{.beta1 = static_cast<Real>(rule.beta1),
                                     .beta2 = static_cast<Real>(rule.beta2),
                                     .epsilon = static_cast<Real>(rule.epsilon),
                                     .rate = static_cast<Real>(rate * correction1),
                                     .correction2 = static_cast<Real>(correction2),
                                     .keep = static_cast<Real>(1 - rate * group.weight_decay),
                                     .scale = static_cast<Real>(run.update.gradient_scale)};
    return update_segment(Piece<Real, 2>(run.update, segment), scalars, run.threads);
  });
}

}  // namespace lockstep::trainer::optim
