#include "trainer/optim/rules.h"

namespace lockstep::trainer::optim {

namespace {

template <typename Real>
struct LarsScalars {
  Real momentum;
  Real rate;  // the learning rate times the tensor's ratio
  Real decay, scale;
};

template <typename Real>
std::uint64_t update_segment(const Piece<Real, 1>& piece, const LarsScalars<Real>& k, int threads) {
  Real* p = piece.parameters;
  const Real* g = piece.gradients;
  Real* v = piece.slots[0];
  return update_blocks(piece, threads, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      v[i] = k.momentum * v[i] + k.rate * (g[i] * k.scale + k.decay * p[i]);
      p[i] -= v[i];
    }
  });
}

// Of a tensor of a group with a trust ratio, before its update. The norms do not depend on ranks and threads.
template <typename Real>
double trust_ratio(const core::Lars& rule, double decay, const Piece<Real, 1>& piece, const Run& run) {
  const double parameters = run.norms.norm(piece.parameters, piece.count, run.real, run.threads);
  const double gradients =
      run.norms.norm(piece.gradients, piece.count, run.real, run.threads) * run.update.gradient_scale;
  const double divisor = gradients + decay * parameters;
  return parameters > 0 && divisor > 0 ? rule.trust_coefficient * parameters / divisor : 1.0;
}

}  // namespace

std::uint64_t apply(const core::Lars& rule, const Run& run) {
  return for_segments(run, [&]<typename Real>(size_t segment, Real) {
    const core::Group& group = core::group_of(run.optimizer, run.update.layout->segments[segment]);
    const Piece<Real, 1> piece(run.update, segment);
    const double ratio = group.trust_ratio ? trust_ratio(rule, group.weight_decay, piece, run) : 1.0;
    const double rate = core::learning_rate(run.optimizer, group, run.update.step);
    const LarsScalars<Real> scalars{.momentum = static_cast<Real>(rule.momentum),
                                    .rate = static_cast<Real>(rate * ratio),
                                    .decay = static_cast<Real>(group.weight_decay),
                                    .scale = static_cast<Real>(run.update.gradient_scale)};
    return update_segment(piece, scalars, run.threads);
  });
}

}  // namespace lockstep::trainer::optim
