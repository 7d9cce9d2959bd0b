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
  width_ = core::size_of(options_.deterministic ? core::ElementType::kInt64 : to.backend.real());
  if (options_.deterministic) {
    LOCKSTEP_TRY(sums_, to.backend.allocate(bytes()));
  }
  on_host_ = bytes() == 0 || to.backend.host(traveller()) != nullptr;
  flags_.resize(to.layout.segments.size());
  largest_sums_.resize(to.layout.segments.size());
  leaving_.reserve(to.layout.buckets.size());
  tickets_.reserve(to.layout.buckets.size() + 1);
  return {};
}

void AllReduce::use(comm::Communicator& communicator) {
  communicator_ = &communicator;
  on_gpu_ = work_->backend.gpu() >= 0 ? communicator.device_reducer() : nullptr;
  if (on_gpu_ != nullptr && !on_gpu_->reaches(work_->backend.gpu())) on_gpu_ = nullptr;
  if (staged()) staging_.resize(bytes());
  tickets_.clear();  // the next step overwrites everything else that is staged before it reads it
}

Result<core::Share> AllReduce::begin(int attempt) {
  const bool keeps_statistics = core::mutation() == core::Mutation::kStageTwice && tickets_.empty();  // use() cleared
  footer_->begin(attempt, keeps_statistics);
  std::fill(flags_.begin(), flags_.end(), core::RoundingFlags{});
  leaving_.clear();
  submitted_ = 0;
  tickets_.clear();
  share_ = {.first = communicator_->rank(),
            .stride = communicator_->size(),
            .end = work_->micro_batches,
            .samples = work_->micro_batches * work_->graph.batch};
  return share_;
}

Status AllReduce::ready(size_t bucket, core::Turn turn) {
  if (options_.deterministic) round(work_->layout.buckets[bucket], turn.first);
  if (core::mutation() == core::Mutation::kReuseBucket ? turn.first : turn.last) leave(bucket);
  return submit_reached();
}

Result<core::Agreement> AllReduce::finish(const core::Control& wish) {
  if (share_.empty()) {  // more ranks than micro-batches: this one adds zeros
    if (sums_) work_->backend.clear(sums_->data(), sums_->bytes());
    for (size_t bucket = 0; bucket < work_->layout.buckets.size(); ++bucket) leave(bucket);
  }
  LOCKSTEP_CHECK_OK(submit_all());
  for (size_t i = 0; i < flags_.size(); ++i) footer_->note(i, flags_[i]);
  LOCKSTEP_TRY(auto ticket, footer_->submit(*communicator_, wish));
  tickets_.push_back(ticket);
  LOCKSTEP_CHECK_OK(wait_for_all());
  core::Agreement agreement = footer_->agreement();
  if (agreement.outcome == core::Agreement::Outcome::kCommit) install();
  return agreement;
}

void AllReduce::commit(const std::function<void()>& optimize) {
  optimize();
  if (options_.deterministic) {
    for (size_t i = 0; i < largest_sums_.size(); ++i) footer_->largest(i, largest_sums_[i]);
  }
  footer_->commit(options_.deterministic);
}

void AllReduce::round(const Bucket& bucket, bool first) {
  for (size_t i = bucket.first_segment; i < bucket.end_segment; ++i) {
    const Segment& segment = work_->layout.segments[i];
    work_->backend.round_and_clear(work_->gradients.data() + segment.offset * core::size_of(work_->backend.real()),
                                   segment.count, footer_->exponent(i), !first, sums_->data() + segment.offset * width_,
                                   &flags_[i]);
  }
}

// The bucket is complete after the work so far.
void AllReduce::leave(size_t bucket) {
  const Bucket& at = work_->layout.buckets[bucket];
  if (staged()) {
    work_->backend.read(staging_.data() + at.begin * width_, traveller() + at.begin * width_,
                        (at.end - at.begin) * width_);
  }
  leaving_.push_back({bucket, work_->backend.mark()});
}

Status AllReduce::submit_reached() {
  const bool unread = core::mutation() == core::Mutation::kLeaveUnread;
  while (submitted_ < leaving_.size() &&
         (on_gpu_ != nullptr || unread || work_->backend.reached(leaving_[submitted_].mark))) {
    LOCKSTEP_CHECK_OK(submit_next());
  }
  return {};
}

// After it the backend is done with all buckets, and with what rounding met in them.
Status AllReduce::submit_all() {
  if (on_gpu_ != nullptr) LOCKSTEP_CHECK_OK(submit_reached());
  while (submitted_ < leaving_.size()) {
    LOCKSTEP_CHECK_OK(work_->backend.wait(leaving_[submitted_].mark));
    LOCKSTEP_CHECK_OK(submit_next());
  }
  return leaving_.empty() ? Status() : work_->backend.wait(leaving_.back().mark);
}

Status AllReduce::submit_next() {
  const Bucket& at = work_->layout.buckets[leaving_[submitted_].bucket];
  const size_t offset = at.begin * width_, count = at.end - at.begin;
  const comm::DataType type = sums_ ? comm::DataType::kInt64 : communicated(work_->backend.real());
  Result<comm::Ticket> ticket = comm::Ticket();
  if (on_gpu_ != nullptr) {
    core::Backend& backend = work_->backend;
    ticket = on_gpu_->sum({traveller() + offset, count, type, backend.event(leaving_[submitted_].mark)});
  } else {
    std::byte* const from = on_host_ ? work_->backend.host(traveller()) : staging_.data();
    ticket = communicator_->submit(comm::AllReduce{from + offset, count, type});
  }
  if (!ticket) return ticket.error();
  tickets_.push_back(*ticket);
  ++submitted_;
  return {};
}

Status AllReduce::wait_for_all() {
  for (comm::Ticket ticket : tickets_) {
    Status reduced = communicator_->wait(ticket);
    if (!reduced && core::mutation() != core::Mutation::kApplyBroken) return reduced;
  }
  return {};
}

// Enqueues what makes gradients of what has travelled.
void AllReduce::install() {
  core::Backend& backend = work_->backend;
  if (staged()) backend.write(traveller(), staging_.data(), staging_.size());
  if (!sums_) return;
  for (size_t i = 0; i < work_->layout.segments.size(); ++i) {
    const Segment& segment = work_->layout.segments[i];
    backend.unround(sums_->data() + segment.offset * width_, segment.count, footer_->exponent(i),
                    work_->gradients.data() + segment.offset * core::size_of(backend.real()), &largest_sums_[i]);
  }
}

}  // namespace lockstep::trainer::sync
