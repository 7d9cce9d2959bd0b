#include "trainer/comm/nccl_rank.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "operator/base/thread.h"
#include "trainer/comm/validate.h"
#include "trainer/cuda/mutation.h"

namespace lockstep::trainer::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kGraceForLeaving = seconds(1);   // for peers to receive what was sent to them
constexpr auto kGraceForLibrary = seconds(5);   // beyond a deadline: for a call of NCCL or CUDA to return
constexpr auto kGraceWhenAborted = seconds(1);  // the same when the owner has called abort()
constexpr auto kBetweenWaitersLooks = milliseconds(100);
// The GPU signals no event, so the thread polls it. It does so without a pause for a while, then at this interval, by a
// timer that is exact enough for it.
constexpr int kYieldsBeforeNap = 32;
constexpr auto kNap = microseconds(40);
constexpr unsigned long kTimerSlackNanoseconds = 1000;
constexpr std::uint64_t kMostAhead = 64;  // operations that the next rank learns before they begin

MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

NcclRank::NcclRank(const RingOptions& options, Links links, UniqueFd wake, MonotonicTime linked_by)
    : rank_(options.rank),
      size_(options.size),
      generation_(static_cast<std::uint64_t>(options.generation)),
      setup_(*options.nccl),
      init_deadline_(options.init_deadline),
      linked_by_(linked_by),
      stall_deadline_(options.stall_deadline),
      cancel_fd_(options.cancel_fd),
      wake_(std::move(wake)),
      links_(std::move(links)),
      channel_(setup_, rank_, size_) {
  thread_ = start_without_signals([this] { run(); });  // signals are for the training thread
}

NcclRank::~NcclRank() {
  thread_.join();
}

Status NcclRank::up() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, linked_by_ + kGraceForLibrary, [&] { return up_ || dead_.has_value(); })) {
    abandon(fmt::format("rank {}: a call of NCCL or CUDA has not returned for {:g} s; restart this process", rank_,
                        in_seconds(init_deadline_ + kGraceForLibrary)),
            ErrorCode::kInternal);
  }
  if (dead_) return *dead_;
  return {};
}

bool NcclRank::close(Duration deadline) {
  std::unique_lock lock(mutex_);
  closing_ = true;
  interrupt();
  return changed_.wait_for(lock, deadline, [&] { return ended_; });
}

bool NcclRank::ended() {
  const std::lock_guard guard(mutex_);
  return ended_;
}

Result<Ticket> NcclRank::submit(const Operation& operation) {
  std::uint64_t sequence = 0;
  {
    const std::lock_guard guard(mutex_);
    if (dead_) return *dead_;
    LOCKSTEP_CHECK_OK(std::visit([&](const auto& it) { return validate(it, size_); }, operation));
    sequence = ++submitted_;
    queue_.push_back(operation);
  }
  wake();
  return Ticket{sequence};
}

Status NcclRank::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  if (ticket.sequence == 0 || ticket.sequence > submitted_) {
    return fail(ErrorCode::kInvalid, fmt::format("ticket {} was never given out", ticket.sequence));
  }
  // Always returns: the thread completes the operation or finds it stalled, and a stuck thread is abandoned.
  while (!changed_.wait_for(lock, kBetweenWaitersLooks,
                            [&] { return dead_.has_value() || completed_ >= ticket.sequence; })) {
    give_up_a_stuck_thread();
  }
  if (dead_) return *dead_;
  return {};
}

bool NcclRank::abort(Duration deadline) {
  std::unique_lock lock(mutex_);
  aborting_ = true;
  interrupt();
  return changed_.wait_for(lock, deadline, [&] { return ended_; });
}

void NcclRank::wake() {
  const std::uint64_t one = 1;
  // Fails only if the counter is full, and then the thread is awake.
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

void NcclRank::interrupt() {
  interrupted_.store(true);
  wake();
}

void NcclRank::abandon(const std::string& why, ErrorCode code) {
  if (dead_) return;
  abandoned_ = true;
  dead_ = fail(code, why);
  queue_.clear();
  changed_.notify_all();
}

void NcclRank::give_up_a_stuck_thread() {
  if (!in_library_since_) return;
  const Duration most = aborting_ ? Duration(kGraceWhenAborted) : stall_deadline_ + kGraceForLibrary;
  if (now() - *in_library_since_ < most) return;
  abandon(fmt::format("rank {}: a call of NCCL or CUDA has not returned for {:g} s", rank_, in_seconds(most)),
          aborting_ ? ErrorCode::kCancelled : ErrorCode::kDeadlineExceeded);
}

void NcclRank::run() {
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds, 0, 0, 0);
  if (link_over_nccl()) {
    while (turn()) {
    }
  }
  plan_.reset();
  channel_.end(clean_, kGraceForLeaving);
  for (ControlLink* link : {&links_.previous, &links_.next}) link->close();
  const std::lock_guard guard(mutex_);
  ended_ = true;
  changed_.notify_all();
}

// Checks everything once.
bool NcclRank::turn() {
  if (interrupted_.load()) return heed_owner();
  announce();
  if (!plan_ && !begin_next()) return false;
  if (!plan_) return look(std::nullopt);
  const auto moved = advance();
  if (!moved) return false;
  publish(!*moved && !computes_);
  if (*moved) {
    last_moved_ = now();
    idle_turns_ = 0;
    return look(MonotonicTime{});
  }
  if (!check_departed() || !check_stall()) return false;
  const MonotonicTime stalls = last_moved_ + stall_deadline_;
  if (phase_ == Phase::kCompare) return look(stalls);
  if (++idle_turns_ > kYieldsBeforeNap) return look(std::min<MonotonicTime>(stalls, now() + kNap));
  ::sched_yield();
  return look(MonotonicTime{});
}

// Announces submitted operations to the next rank ahead of time, so that it seldom waits for the announcement.
void NcclRank::announce() {
  std::vector<NcclAnnouncement> fresh;
  {
    const std::lock_guard guard(mutex_);
    // Number completed_ + 1 is the operation in progress, or the first of the queue.
    const std::uint64_t first = plan_ ? completed_ + 2 : completed_ + 1;
    while (announced_ < submitted_ && announced_ < completed_ + kMostAhead) {
      const std::uint64_t sequence = ++announced_;
      const auto plan = plan_of(queue_[sequence - first], sequence);
      fresh.push_back({plan.header(), plan.sends()});
    }
  }
  for (const NcclAnnouncement& one : fresh) links_.next.send(FrameType::kNext, encode(one));
}

NcclPlan NcclRank::plan_of(const Operation& operation, std::uint64_t sequence) const {
  return std::visit([&](const auto& it) { return NcclPlan(it, sequence, rank_, setup_.chunk_bytes); }, operation);
}

bool NcclRank::begin_next() {
  {
    const std::lock_guard guard(mutex_);
    // What arrived since announce() waits for the next turn, which the wake-up that came with it starts at once.
    if (queue_.empty() || announced_ <= completed_) return true;
    plan_.emplace(plan_of(queue_.front(), completed_ + 1));
    queue_.pop_front();
  }
  phase_ = Phase::kCompare;
  last_moved_ = now();
  idle_turns_ = 0;
  // The next rank needs this rank's part to complete this operation, so it never will.
  return !links_.next.left || departed(links_.next);
}

// Proceeds as far as it can without waiting. True: it made progress; nothing: the communicator has died.
std::optional<bool> NcclRank::advance() {
  switch (phase_) {
    case Phase::kCompare:
      if (theirs_.empty()) return false;
      if (!same()) return std::nullopt;
      theirs_.pop_front();
      phase_ = Phase::kBegin;
      return true;
    case Phase::kBegin: {
      if (plan_->done()) {
        complete();
        return true;
      }
      step_ = plan_->begin(channel_.host());
      if (!launch()) return std::nullopt;
      if (!computes_ && !travels_since_) travels_since_ = now();
      phase_ = Phase::kLaunched;
      return true;
    }
    case Phase::kLaunched: {
      const auto settled = in_library([&] { return channel_.settled(); });
      if (!stands(settled)) return std::nullopt;
      if (!settled->value()) return look_at_own_work();
      const auto brought = in_library([&] { return channel_.bring_down(step_); });
      if (!stands(brought)) return std::nullopt;
      phase_ = Phase::kInFlight;
      return true;
    }
    case Phase::kInFlight: {
      const auto done = in_library([&] { return channel_.done(); });
      if (!stands(done)) return std::nullopt;
      if (!done->value()) return look_at_own_work();
      computes_ = false;
      if (!travels_since_) travels_since_ = last_moved_;  // no look came between the event and the end
      plan_->finish(channel_.host());
      sent_ += step_.up + step_.send + step_.in_place_bytes;
      received_ += step_.down + step_.in_place_bytes;
      phase_ = Phase::kBegin;
      return true;
    }
  }
  return std::nullopt;
}

// Two calls of the library at most, so that a rank that was abandoned in the first gives NCCL no memory of the caller.
bool NcclRank::launch() {
  computes_ = step_.after != nullptr;
  const bool awaits = computes_ && cuda::mutation() != cuda::Mutation::kSumUnawaited;
  if (awaits && !stands(in_library([&] { return channel_.await(step_.after); }))) return false;
  return stands(in_library([&] { return channel_.launch(step_); }));
}

// Until its own GPU reaches the event, the rank waits for no other rank and has not stalled. Its owner, who gave the
// work to the GPU, has the deadline. False: no progress; nothing: the communicator has died.
std::optional<bool> NcclRank::look_at_own_work() {
  if (!computes_) return false;
  const auto happened = in_library([&] { return channel_.happened(step_.after); });
  if (!stands(happened)) return std::nullopt;
  computes_ = !happened->value();
  last_moved_ = now();
  if (!computes_ && !travels_since_) travels_since_ = last_moved_;
  return false;
}

bool NcclRank::same() {
  const NcclAnnouncement& theirs = theirs_.front();
  const bool hands_on = theirs.header.kind == OperationKind::kHandOn;
  if (theirs.header == plan_->header() && (!hands_on || theirs.sends == plan_->receives())) return true;
  const char* detail = theirs.header == plan_->header() ? ", and only one of them knows of bytes between the two" : "";
  return end(ErrorCode::kConflict, AbortCause::Kind::kMismatch,
             fmt::format("the ranks run different operations: rank {} submitted {}, rank {} submitted {}{}", rank_,
                         describe(plan_->header()), links_.previous.peer, describe(theirs.header), detail));
}

void NcclRank::complete() {
  if (travels_since_) travelling_ns_ += static_cast<std::uint64_t>((now() - *travels_since_).count());
  travels_since_.reset();
  activity_.publish({.sequence = plan_->header().sequence,
                     .stage = Stage::kIdle,
                     .sent = sent_,
                     .received = received_,
                     .travelling_ns = travelling_ns_});
  plan_.reset();
  const std::lock_guard guard(mutex_);
  ++completed_;
  changed_.notify_all();
}

// The activity for watchers. NCCL does not say which rank it waits for. In a ring every rank waits for the previous
// one. So the end of that chain is a rank that is not in this operation, or whose GPU still computes: it waits for
// none.
void NcclRank::publish(bool in_vain) {
  if (!plan_) return;
  const OperationKind kind = plan_->header().kind;
  const bool adds = kind == OperationKind::kAllReduce || kind == OperationKind::kDeviceSum;
  const Stage stage = adds ? Stage::kExchange : Stage::kBroadcast;
  activity_.publish({.sequence = plan_->header().sequence,
                     .stage = stage,
                     .sent = sent_,
                     .received = received_,
                     .travelling_ns = travelling_ns_,
                     .waits_for_bytes_of = in_vain ? links_.previous.peer : -1});
}

// A rank that has left did not submit what this one waits for.
bool NcclRank::check_departed() {
  return phase_ != Phase::kCompare || !links_.previous.left || !theirs_.empty() || departed(links_.previous);
}

bool NcclRank::check_stall() {
  if (now() - last_moved_ < stall_deadline_) return true;
  const std::string waits =
      phase_ == Phase::kCompare ? fmt::format("rank {} to submit it", links_.previous.peer) : std::string("NCCL");
  return end(ErrorCode::kDeadlineExceeded, AbortCause::Kind::kStalled,
             fmt::format("rank {}: no byte moved for {:g} s in {}, waiting for {}", rank_, in_seconds(stall_deadline_),
                         describe(plan_->header()), waits));
}

// The owner's thread requests an abort or an end.
bool NcclRank::heed_owner() {
  bool closing = false;
  {
    const std::lock_guard guard(mutex_);
    closing = closing_ && !aborting_ && up_ && !plan_ && queue_.empty();
  }
  if (closing) {
    for (ControlLink* link : {&links_.previous, &links_.next}) {
      if (!link->ended) link->send(FrameType::kBye);
    }
    clean_ = true;
    return die(fail(ErrorCode::kCancelled, "the communicator is closed"), -1);
  }
  return end(ErrorCode::kCancelled, AbortCause::Kind::kCancelled,
             fmt::format("rank {} aborted generation {}", rank_, generation_));
}

}  // namespace lockstep::trainer::comm
