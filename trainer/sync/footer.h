// The last all-reduce of a step, all int64 sums: counts of flags, then rounded numbers (the loss and the batch
// statistics). So all ranks know the same of each other after the same step. The footer also stages the fixed-point
// exponents of the step: of its own numbers and, for a synchronizer that sums gradients as integers, of gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "operator/base/result.h"
#include "trainer/comm/communicator.h"
#include "trainer/core/fixed_point.h"
#include "trainer/core/synchronizer.h"

namespace lockstep::trainer::sync {

class Footer {
 public:
  // The attachment's references outlive the footer.
  explicit Footer(const core::Attachment& work);

  // Clears the sums. Attempt 0 starts with the committed exponents, later ones with those that repeat() has lowered.
  // `keeps_statistics`: a bug for tests (core/mutation.h).
  void begin(int attempt, bool keeps_statistics);

  // Adds the loss and the statistics of a micro-batch.
  void add(double loss, std::span<const double> statistics, bool first);

  // The staged exponent of an owner (core::ExponentTable), and what rounding by it met.
  int exponent(size_t owner) const { return exponents_[owner]; }
  void note(size_t owner, const core::RoundingFlags& flags);
  // The largest sum under that exponent, from which commit() derives the next.
  void largest(size_t owner, std::uint64_t sum) { largest_sums_[owner] = sum; }

  // Submits the footer of this rank. Its memory must stay until the ticket was waited for.
  Result<comm::Ticket> submit(comm::Communicator& communicator, const core::Control& wish);

  // After the wait. With kCommit the statistics of the attachment are means over the global batch; with kRepeat the
  // exponents that did not fit are lower.
  core::Agreement agreement();

  // Commits the exponents for the next step: of gradients only if `gradients`.
  void commit(bool gradients);

 private:
  bool lower_exponents();
  void take_statistics();

  static constexpr size_t kNotFinite = 0, kStop = 1, kCheckpoint = 2, kLeave = 3, kYield = 4;
  static constexpr size_t kOverflow = 5;  // one for each exponent

  const core::Attachment work_;
  std::vector<std::int64_t> words_;
  size_t loss_ = 0, statistics_ = 0;  // places in words_
  std::vector<std::int32_t> exponents_;
  std::vector<std::uint64_t> largest_sums_;
};

}  // namespace lockstep::trainer::sync
