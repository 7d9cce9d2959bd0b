#include "trainer/optim/rules.h"

namespace lockstep::trainer::optim {

namespace {

template <typename Real>
struct SgdScalars {
  Real momentum, rate, decay, scale;
};

template <bool kNesterov, typename Real>
std::uint64_t update_segment(const Piece<Real, 1>& piece, const SgdScalars<Real>& k, int threads) {
  Real* p = piece.parameters;
  const Real* g = piece.gradients;
  Real* v = piece.slots[0];
  return update_blocks(piece, threads, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const Real d = g[i] * k.scale + k.decay * p[i];
      v[i] = k.momentum * v[i] + d;
      p[i] -= k.rate * (kNesterov ? d + k.momentum * v[i] : v[i]);
    }
  });
}

}  // namespace

std::uint64_t apply(const core::Sgd& rule, const Run& run) {
  return for_segments(run, [&]<typename Real>(size_t segment, Real) {
    const core::Group& group = core::group_of(run.optimizer, run.update.layout->segments[segment]);
    const double rate = core::learning_rate(run.optimizer, group, run.update.step);
    const SgdScalars<Real> scalars{.momentum = static_cast<Real>(rule.momentum),
                                   .rate = static_cast<Real>(rate),
                                   .decay = static_cast<Real>(group.weight_decay),
                                   .scale = static_cast<Real>(run.update.gradient_scale)};
    const Piece<Real, 1> piece(run.update, segment);
    return rule.nesterov ? update_segment<true>(piece, scalars, run.threads)
                         : update_segment<false>(piece, scalars, run.threads);
  });
}

}  // namespace lockstep::trainer::optim
