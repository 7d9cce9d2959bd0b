#include "trainer/optim/rules.h"

namespace lockstep::trainer::optim {

namespace {

template <typename Real>
struct SgdScalars {
  Real momentum, rate, decay, scale;
};

template <typename Real>
std::uint64_t update_segment(const Piece<Real, 1>& piece, const SgdScalars<Real>& k, int threads) {
  Real* p = piece.parameters;
  const Real* g = piece.gradients;
  Real* v = piece.slots[0];
  return update_blocks(piece, threads, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      v[i] = k.momentum * v[i] + (g[i] * k.scale + k.decay * p[i]);
      p[i] -= k.rate * v[i];
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
    return update_segment(Piece<Real, 1>(run.update, segment), scalars, run.threads);
  });
}

}  // namespace lockstep::trainer::optim
