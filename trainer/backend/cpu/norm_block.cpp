#include "trainer/backend/cpu/norm_block.h"

#include <cmath>
#include <utility>

namespace lockstep::trainer::backend::cpu {

namespace {

class NormBlockKernel final : public Base {
 public:
  NormBlockKernel(const NormBlock& block, Site site)
      : Base(std::move(site)), block_(block), part_(share_of(d_.rows, 1)) {}

  Status forward(const RunContext& context) override {
    const Channels channels = channels_in(bindings().forward_scratch);
    if (context.mode == RunContext::Mode::kTrain) {
      measure(channels.sums);
    } else {
      for (size_t c = 0; c < d_.in; ++c) {
        keep(c, bindings().statistics[0][c], bindings().statistics[1][c]);
      }
    }
    normalise(channels);
    return {};
  }

  Status recompute(const RunContext&) override {
    normalise(channels_in(bindings().forward_scratch));
    return {};
  }

  Status backward(const RunContext&) override {
    const Channels channels = channels_in(bindings().backward_scratch);
    find_scale(channels.scale);
    const NormChannels norm = {kept(0), channels.scale, parameter(1)};
    float* const other = block_.adds ? dx(1) : nullptr;
    const bool adds = other != nullptr && accumulate(1);
    // Without a sum before it, the value at the activation is the norm itself, which is cheaper computed than read.
    const float* const value = block_.adds && block_.activation != Activation::kNone ? y() : nullptr;
    sum_up(channels.sums, [&](size_t begin, size_t count, double* sums) {
      const size_t at = begin * d_.in;
      kernels_.images.norm_backward_sums(x() + at, value == nullptr ? nullptr : value + at, dy() + at, count, d_.in,
                                         norm, block_.activation, adds, other == nullptr ? nullptr : other + at, sums);
    });
    const auto share = 1.0 / static_cast<double>(d_.rows);
    for (size_t c = 0; c < d_.in; ++c) {
      const double sum = channels.sums[c], along = channels.sums[d_.in + c] * static_cast<double>(kept(1)[c]);
      dparameter(0)[c] += static_cast<float>(along);
      dparameter(1)[c] += static_cast<float>(sum);
      channels.centre[c] = static_cast<float>(sum * share);
      channels.slope[c] = static_cast<float>(along * share) * kept(1)[c];
    }
    if (dx() == nullptr) return {};
    const NormSlopes slopes = {channels.scale, channels.centre, channels.slope};
    // What was written for `other` is what the activation let through.
    const bool passed = other != nullptr && !adds;
    backwards([&](size_t begin, size_t count) {
      const size_t at = begin * d_.in;
      kernels_.images.norm_backward(x() + at, value == nullptr || passed ? nullptr : value + at,
                                    (passed ? other : dy()) + at, count, d_.in, norm, slopes,
                                    passed ? Activation::kNone : block_.activation, accumulate(0), dx() + at);
    });
    return {};
  }

 private:
  // By channel, in scratch. `sums` are two for each channel; after them come those of the other threads.
  struct Channels {
    double* sums;
    float *scale, *centre, *slope;
  };
  Channels channels_in(void* scratch) const {
    auto* sums = static_cast<double*>(scratch);
    auto* rest = reinterpret_cast<float*>(sums + 2 * d_.in * threads_);
    return {sums, rest, rest + d_.in, rest + 2 * d_.in};
  }

  // By the mean and the deviation that are kept.
  void normalise(const Channels& channels) const {
    find_scale(channels.scale);
    const NormChannels norm = {kept(0), channels.scale, parameter(1)};
    backwards([&](size_t begin, size_t count) {
      const size_t at = begin * d_.in;
      kernels_.images.norm(x() + at, block_.adds ? x(1) + at : nullptr, count, d_.in, norm, block_.activation,
                           y() + at);
    });
  }

  // Calls sum(first row, rows, sums) on every thread for its rows, and adds up the sums in the order of the threads.
  template <typename Sum>
  void sum_up(double* sums, const Sum& sum) const {
    std::fill_n(sums, 2 * d_.in * threads_, 0.0);
    share(d_.rows, 1, [&](size_t begin, size_t end) { sum(begin, end - begin, sums + 2 * d_.in * (begin / part_)); });
    for (size_t i = 1; i < threads_; ++i) {
      for (size_t c = 0; c < 2 * d_.in; ++c) sums[c] += sums[2 * d_.in * i + c];
    }
  }

  // Calls body(first row, rows) on every thread for its rows, from the last to the first. What the pass before this one
  // read last is still in the caches.
  template <typename Body>
  void backwards(const Body& body) const {
    const size_t rows = std::max<size_t>(1, kBlock / d_.in);
    share(d_.rows, 1, [&](size_t begin, size_t end) {
      while (begin < end) {
        const size_t count = std::min(rows, end - begin);
        end -= count;
        body(end, count);
      }
    });
  }

  // Mean and deviation of the micro-batch, and the statistics for the running ones. The first pixel is the origin.
  void measure(double* sums) const {
    sum_up(sums, [&](size_t begin, size_t count, double* of_thread) {
      kernels_.images.norm_sums(x() + begin * d_.in, count, d_.in, x(), of_thread);
    });
    const auto n = static_cast<double>(d_.rows);
    for (size_t c = 0; c < d_.in; ++c) {
      const double from_origin = sums[c] / n;
      const double variance = sums[d_.in + c] / n - from_origin * from_origin;
      const double rounded = variance < 0 ? 0 : variance;  // a NaN passes
      const double mean = static_cast<double>(x()[c]) + from_origin;
      keep(c, mean, rounded);
      bindings().staged_statistics[0][c] = mean;
      bindings().staged_statistics[1][c] = rounded * n / (n - 1);
    }
  }
  void keep(size_t c, double mean, double variance) const {
    kept(0)[c] = static_cast<float>(mean);
    kept(1)[c] = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(epsilon())));
  }
  // The results of forward and backward are bitwise identical.
  void find_scale(float* scale) const {
    for (size_t c = 0; c < d_.in; ++c) scale[c] = parameter(0)[c] * kept(1)[c];
  }
  float epsilon() const { return static_cast<float>(block_.norm.epsilon); }

  static constexpr size_t kBlock = 16384;  // elements

  const NormBlock block_;
  const size_t part_;  // rows of a thread
};

}  // namespace

// Keeps the mean and the inverse deviation of each channel.
Needs needs_of(const NormBlock& block, const Dimensions& d, const Team& team) {
  const size_t of_floats = sizeof(double) / sizeof(float);
  const size_t sums = 2 * d.in * team.threads * of_floats;
  return {.reads_inputs = true,
          .reads_output = block.adds && block.activation != Activation::kNone,
          .keeps = {d.in, d.in},
          .forward_scratch = sums + d.in,
          .backward_scratch = sums + 3 * d.in,
          .cheap = true};
}

std::unique_ptr<Kernel> make_kernel(const NormBlock& block, Site site) {
  return std::make_unique<NormBlockKernel>(block, std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
