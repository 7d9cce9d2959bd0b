#include "trainer/sync/all_reduce.h"

#include <algorithm>
#include <string>

#include "trainer/core/mutation.h"

namespace lockstep::trainer::sync {

using core::Bucket;
using core::Segment;

namespace {

comm::DataType communicated(core::ElementType real) {
  return real == core::ElementType::kFloat32 ? comm::DataType::kFloat32 : comm::DataType::kFloat64;
}

}  // namespace

Status AllReduce::attach(const core::Attachment& to) {
  if (to.micro_batches < 1 || to.micro_batches > core::kMaxSummands) {
    return fail(ErrorCode::kInvalid, "the global batch must have between 1 and " + std::to_string(core::kMaxSummands) +
                                         " micro-batches; this one has " + std::to_string(to.micro_batches));
  }
  work_.emplace(to);
  footer_.emplace(to);
  if (options_.deterministic) sums_.resize(to.layout.count);
  tickets_.reserve(to.layout.buckets.size() + 1);
  return {};
}

void AllReduce::use(comm::Communicator& communicator) {
  communicator_ = &communicator;
  tickets_.clear();  // the next step overwrites everything else that is staged before it reads it
}

Result<core::Share> AllReduce::begin(int attempt) {
  const bool keeps_statistics = core::mutation() == core::Mutation::kStageTwice && tickets_.empty();  // use() cleared
  footer_->begin(attempt, keeps_statistics);
  tickets_.clear();
  share_ = {.first = communicator_->rank(),
            .stride = communicator_->size(),
            .end = work_->micro_batches,
            .samples = work_->micro_batches * work_->graph.batch};
  return share_;
}

Status AllReduce::ready(size_t bucket, core::Turn turn) {
  const Bucket& at = work_->layout.buckets[bucket];
  if (options_.deterministic) round(at, turn.first);
  return turn.last ? submit(at) : Status();
}

Result<core::Agreement> AllReduce::finish(const core::Control& wish) {
  if (share_.empty()) {  // more ranks than micro-batches: this one adds zeros
    std::fill(sums_.begin(), sums_.end(), 0);
    for (const Bucket& bucket : work_->layout.buckets) LOCKSTEP_CHECK_OK(submit(bucket));
  }
  LOCKSTEP_TRY(auto ticket, footer_->submit(*communicator_, wish));
  tickets_.push_back(ticket);
  LOCKSTEP_CHECK_OK(wait_for_all());
  core::Agreement agreement = footer_->agreement();
  if (options_.deterministic && agreement.outcome == core::Agreement::Outcome::kCommit) unround();
  return agreement;
}

void AllReduce::commit(const std::function<void()>& optimize) {
  optimize();
  footer_->commit(options_.deterministic);
}

void AllReduce::round(const Bucket& bucket, bool first) {
  const core::ElementType real = work_->backend.real();
  for (size_t i = bucket.first_segment; i < bucket.end_segment; ++i) {
    const Segment& segment = work_->layout.segments[i];
    core::RoundingFlags flags;
    core::round_and_clear(work_->gradients.data() + segment.offset * core::size_of(real), real, segment.count,
                          footer_->exponent(i), !first, sums_.data() + segment.offset, work_->backend.threads(), flags);
    footer_->note(i, flags);
  }
}

Status AllReduce::submit(const Bucket& bucket) {
  comm::AllReduce operation{.count = bucket.end - bucket.begin};
  if (options_.deterministic) {
    operation.data = sums_.data() + bucket.begin;
    operation.type = comm::DataType::kInt64;
  } else {
    const core::ElementType real = work_->backend.real();
    operation.data = work_->gradients.data() + bucket.begin * core::size_of(real);
    operation.type = communicated(real);
  }
  LOCKSTEP_TRY(auto ticket, communicator_->submit(operation));
  tickets_.push_back(ticket);
  return {};
}

Status AllReduce::wait_for_all() {
  for (comm::Ticket ticket : tickets_) {
    Status reduced = communicator_->wait(ticket);
    if (!reduced && core::mutation() != core::Mutation::kApplyBroken) return reduced;
  }
  return {};
}

void AllReduce::unround() {
  const core::ElementType real = work_->backend.real();
  for (size_t i = 0; i < work_->layout.segments.size(); ++i) {
    const Segment& segment = work_->layout.segments[i];
    footer_->largest(i, core::unround(sums_.data() + segment.offset, segment.count, footer_->exponent(i),
                                      work_->gradients.data() + segment.offset * core::size_of(real), real,
                                      work_->backend.threads()));
  }
}

}  // namespace lockstep::trainer::sync
