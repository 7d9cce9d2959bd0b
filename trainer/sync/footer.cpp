#include "trainer/sync/footer.h"

#include <algorithm>

#include "trainer/core/mutation.h"

namespace lockstep::trainer::sync {

using core::Agreement;

Footer::Footer(const core::Attachment& work) : work_(work) {
  const core::ExponentTable& table = work.state.table;
  loss_ = kOverflow + table.count;
  statistics_ = loss_ + 1;
  words_.resize(statistics_ + work.statistics.size());
  exponents_.resize(table.count);
  largest_sums_.resize(table.count);
}

void Footer::begin(int attempt, bool keeps_statistics) {
  if (attempt == 0) std::copy(work_.state.exponents.begin(), work_.state.exponents.end(), exponents_.begin());
  auto end = keeps_statistics ? words_.begin() + static_cast<std::ptrdiff_t>(statistics_) : words_.end();
  std::fill(words_.begin(), end, 0);
}

void Footer::note(size_t owner, const core::RoundingFlags& flags) {
  words_[kNotFinite] += flags.not_finite;
  words_[kOverflow + owner] += flags.overflow;
}

void Footer::add(double loss, std::span<const double> statistics, bool first) {
  const core::ExponentTable& table = work_.state.table;
  auto round = [&](size_t owner, const double* values, size_t count, size_t word) {
    core::RoundingFlags flags;
    const bool adds = !first || core::mutation() == core::Mutation::kStageTwice;  // to what begin() has cleared, or not
    core::round_into(values, count, exponents_[owner], adds, &words_[word], flags);
    note(owner, flags);
  };
  round(table.loss, &loss, 1, loss_);
  size_t owner = table.statistics;
  for (const core::Segment& segment : work_.layout.statistics) {
    round(owner++, statistics.data() + segment.offset, segment.count, statistics_ + segment.offset);
  }
}

Result<comm::Ticket> Footer::submit(comm::Communicator& communicator, const core::Control& wish) {
  words_[kStop] = wish.stop ? 1 : 0;
  words_[kCheckpoint] = wish.checkpoint ? 1 : 0;
  words_[kLeave] = wish.leave ? 1 : 0;
  words_[kYield] = wish.yield ? 1 : 0;
  return communicator.submit(
      comm::AllReduce{words_.data(), words_.size(), comm::DataType::kInt64, comm::Reduction::kSum});
}

Agreement Footer::agreement() {
  if (words_[kNotFinite] != 0) return {.outcome = Agreement::Outcome::kNotFinite};
  if (lower_exponents()) return {.outcome = Agreement::Outcome::kRepeat};
  const size_t owner = work_.state.table.loss;
  double sum = 0;
  largest_sums_[owner] = core::unround(&words_[loss_], 1, exponents_[owner], &sum);
  take_statistics();
  const auto leaving = static_cast<int>(words_[kLeave]);
  return {.loss = sum / static_cast<double>(work_.micro_batches * work_.graph.batch),
          .control = {.stop = words_[kStop] != 0,
                      .checkpoint = words_[kCheckpoint] != 0,
                      .leave = leaving > 0,
                      .yield = words_[kYield] > 0},
          .leaving = leaving};
}

// Of the sums that did not fit. False: all fitted.
bool Footer::lower_exponents() {
  bool lowered = false;
  for (size_t owner = 0; owner < exponents_.size(); ++owner) {
    if (words_[kOverflow + owner] == 0) continue;
    exponents_[owner] = std::max(exponents_[owner] - core::kRetreat, -10 * core::kMaxExponent);
    lowered = true;
  }
  return lowered;
}

void Footer::take_statistics() {
  size_t owner = work_.state.table.statistics;
  for (const core::Segment& segment : work_.layout.statistics) {
    double* means = work_.statistics.data() + segment.offset;
    largest_sums_[owner] =
        core::unround(&words_[statistics_ + segment.offset], segment.count, exponents_[owner], means);
    for (size_t i = 0; i < segment.count; ++i) means[i] /= static_cast<double>(work_.micro_batches);
    ++owner;
  }
}

void Footer::commit(bool gradients) {
  const core::ExponentTable& table = work_.state.table;
  for (size_t owner = gradients ? 0 : table.loss; owner < table.count; ++owner) {
    exponents_[owner] = core::next_exponent(exponents_[owner], largest_sums_[owner]);
  }
  std::copy(exponents_.begin(), exponents_.end(), work_.state.exponents.begin());
}

}  // namespace lockstep::trainer::sync
