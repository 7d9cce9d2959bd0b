#include "trainer/comm/ring_communicator.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "operator/base/thread.h"
#include "trainer/comm/links.h"
#include "trainer/comm/tcp_stream.h"
#include "trainer/comm/transfer.h"
#include "trainer/comm/validate.h"
#include "trainer/comm/wire.h"

namespace lockstep::trainer::comm {
namespace {

using std::chrono::milliseconds;

// An ended data stream gives no reason; the neighbour's abort may arrive on its control link a moment later.
constexpr auto kGraceForReason = milliseconds(500);
// Turns of the loop without a moved byte before a rank sleeps. A neighbour on another core is often just about to
// write, and a neighbour on this core gets the core.
constexpr int kYieldsBeforeNap = 32;
constexpr int kTurnsBetweenLooks = 16;  // with bytes moving: turns between polls of the control links

MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

int poll_timeout(MonotonicTime until) {
  const auto left = std::chrono::ceil<milliseconds>(until - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace

class RingCommunicator::Impl {
 public:
  Impl(const RingOptions& options, Links links, UniqueFd wake)
      : rank_(options.rank),
        size_(options.size),
        generation_(static_cast<std::uint64_t>(options.generation)),
        stall_deadline_(options.stall_deadline),
        transport_to_next_(links.next_segment ? Transport::kSharedMemory : Transport::kTcp),
        wake_(std::move(wake)),
        links_(std::move(links)) {
    if (links_.previous_segment) {
      source_ = std::make_unique<SharedSource>(*links_.own, *links_.previous_segment);
    } else {
      source_ = std::make_unique<TcpSource>(std::move(links_.data_previous));
    }
    if (links_.next_segment) {
      sink_ = std::make_unique<SharedSink>(*links_.own, *links_.next_segment);
    } else {
      sink_ = std::make_unique<TcpSink>(std::move(links_.data_next));
    }
    thread_ = start_without_signals([this] { run(); });  // signals are for the training thread
  }

  ~Impl() {
    {
      const std::lock_guard guard(mutex_);
      closing_ = true;
    }
    interrupt();
    thread_.join();
    for (ControlLink* link : {&links_.previous, &links_.next}) link->close();
  }

  template <typename Operation>
  Result<Ticket> submit(const Operation& operation) {
    std::uint64_t sequence = 0;
    {
      const std::lock_guard guard(mutex_);
      if (dead_) return *dead_;
      LOCKSTEP_CHECK_OK(validate(operation, size_));
      sequence = ++submitted_;
      queue_.emplace_back(operation);
    }
    wake();
    return Ticket{sequence};
  }

  Status wait(Ticket ticket) {
    std::unique_lock lock(mutex_);
    if (ticket.sequence == 0 || ticket.sequence > submitted_) {
      return fail(ErrorCode::kInvalid, fmt::format("ticket {} was never given out", ticket.sequence));
    }
    // Always returns: the thread completes the operation, or finds it stalled.
    changed_.wait(lock, [&] { return dead_.has_value() || completed_ >= ticket.sequence; });
    if (dead_) return *dead_;
    return {};
  }

  bool abort(Duration deadline) {
    std::unique_lock lock(mutex_);
    aborting_ = true;
    interrupt();
    return changed_.wait_for(lock, deadline, [&] { return dead_.has_value(); });
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  int suspect() const { return suspect_.load(); }
  Activity activity() const { return activity_.read(); }
  Transport transport_to_next() const { return transport_to_next_; }

 private:
  void wake() {
    const std::uint64_t one = 1;
    // Fails only if the counter is full, and then the thread is awake.
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
  }
  void interrupt() {
    interrupted_.store(true);
    wake();
  }

  // --- The thread. Each bool function returns false when the communicator has died, which ends the thread. -----------

  void run() {
    while (true) {
      if (interrupted_.load() && !heed_owner()) return;
      if (!current_ && !begin_next()) return;
      if (current_) {
        const Transfer::Moved moved = current_->pump(*source_, *sink_);
        if (moved.problem != Transfer::Problem::kNone) return explain(moved);
        publish(moved.bytes == 0);
        if (moved.bytes > 0) {
          last_moved_ = now();
          if (!arrives_since_ && current_->received() > 0) arrives_since_ = last_moved_;
          idle_turns_ = 0;
          nap(false);
          ring_doorbells();
        }
        if (current_->done()) {
          complete();
          continue;
        }
        if (moved.bytes > 0) {
          if (++turns_ % kTurnsBetweenLooks == 0 && !look(MonotonicTime{})) return;
          continue;
        }
        if (links_.own && !napping_) {
          if (++idle_turns_ <= kYieldsBeforeNap) {
            ::sched_yield();
          } else {
            nap(true);  // then read the memory once more, because the neighbours ring only from here on
          }
          continue;
        }
        if (!check_departed() || !check_stall()) return;
      }
      if (!look(current_ ? std::optional(last_moved_ + stall_deadline_) : std::nullopt)) return;
      nap(false);
    }
  }

  // The owner's thread requests an abort or an end.
  bool heed_owner() {
    bool closing = false;
    {
      const std::lock_guard guard(mutex_);
      closing = closing_ && !aborting_ && !current_ && queue_.empty();
    }
    if (closing) {
      for (ControlLink* link : {&links_.previous, &links_.next}) {
        if (!link->ended) link->send(FrameType::kBye);
      }
      die(fail(ErrorCode::kCancelled, "the communicator is closed"), -1);
      return false;
    }
    const std::string text = fmt::format("rank {} aborted generation {}", rank_, generation_);
    tell({AbortCause::Kind::kCancelled, generation_, rank_, -1, text}, nullptr);
    die(fail(ErrorCode::kCancelled, text), -1);
    return false;
  }

  bool begin_next() {
    std::optional<std::variant<AllReduce, Broadcast, HandOn>> operation;
    std::uint64_t sequence = 0;
    {
      const std::lock_guard guard(mutex_);
      if (queue_.empty()) return true;
      operation = queue_.front();
      queue_.pop_front();
      sequence = completed_ + 1;
    }
    std::visit([&](const auto& it) { current_.emplace(it, sequence, rank_, size_); }, *operation);
    last_moved_ = now();
    arrives_since_.reset();
    idle_turns_ = 0;
    publish(false);
    // The next rank needs this rank's part to complete this operation, so it never will.
    return !links_.next.left || departed(links_.next);
  }

  // The activity for watchers. `in_vain`: there were no bytes to take and no room to give.
  void publish(bool in_vain) {
    activity_.publish({.sequence = current_->header().sequence,
                       .stage = current_->stage(),
                       .sent = sent_ + current_->sent(),
                       .received = received_ + current_->received(),
                       .travelling_ns = travelling_ns_,
                       .waits_for_bytes_of = in_vain && current_->needs_bytes() ? links_.previous.peer : -1,
                       .waits_for_room_at = in_vain && current_->has_bytes_to_send() ? links_.next.peer : -1});
  }

  void complete() {
    current_->finish();
    sent_ += current_->sent();
    received_ += current_->received();
    if (arrives_since_) travelling_ns_ += static_cast<std::uint64_t>((now() - *arrives_since_).count());
    activity_.publish({.sequence = current_->header().sequence,
                       .stage = Stage::kIdle,
                       .sent = sent_,
                       .received = received_,
                       .travelling_ns = travelling_ns_});
    current_.reset();
    const std::lock_guard guard(mutex_);
    ++completed_;
    changed_.notify_all();
  }

  void nap(bool begin) {
    if (!links_.own || napping_ == begin) return;
    napping_ = begin;
    links_.own->header().naps.fetch_add(1);
  }

  void ring_doorbells() {
    const auto ring = [](ControlLink& link, const Segment* segment, std::uint32_t& rung) {
      if (segment == nullptr || link.ended) return;
      const std::uint32_t naps = segment->header().naps.load();
      if (naps % 2 == 0 || naps == rung) return;
      rung = naps;
      // Bytes that wait to leave are wake-ups themselves. A broken link shows when it is next read.
      if (link.out.empty()) link.send(FrameType::kDoorbell);
    };
    ring(links_.previous, links_.previous_segment.get(), rung_previous_);
    ring(links_.next, links_.next_segment.get(), rung_next_);
  }

  // BYE of a neighbour ends its streams too: shared memory has no end of its own.
  bool check_departed() {
    if (links_.previous.left && links_.previous_segment && current_->needs_bytes()) return departed(links_.previous);
    if (links_.next.left && links_.next_segment && current_->has_bytes_to_send()) return departed(links_.next);
    return true;
  }

  bool check_stall() {
    if (now() - last_moved_ < stall_deadline_) return true;
    const bool blocked = current_->has_bytes_to_send();
    const std::string waits = blocked ? fmt::format("rank {} to take bytes", links_.next.peer)
                                      : fmt::format("bytes from rank {}", links_.previous.peer);
    const std::string text =
        fmt::format("rank {}: no byte moved for {:g} s in {}, waiting for {}", rank_,
                    std::chrono::duration<double>(stall_deadline_).count(), describe(current_->header()), waits);
    tell({AbortCause::Kind::kStalled, generation_, rank_, -1, text}, nullptr);
    die(fail(ErrorCode::kDeadlineExceeded, text), -1);
    return false;
  }

  // Sleeps until something happens or `until` (nothing: no deadline; a time in the past: only polls), and reads the
  // control links.
  bool look(std::optional<MonotonicTime> until) {
    std::array<pollfd, 5> list;
    size_t used = 0;
    list[used++] = {wake_.get(), POLLIN, 0};
    for (const ControlLink* link : {&links_.previous, &links_.next}) {
      if (link->ended) continue;
      list[used++] = {link->fd.get(), static_cast<short>(link->out.empty() ? POLLIN : POLLIN | POLLOUT), 0};
    }
    if (current_) {
      if (current_->needs_bytes() && source_->poll_fd() >= 0) list[used++] = {source_->poll_fd(), POLLIN, 0};
      if (current_->has_bytes_to_send() && sink_->poll_fd() >= 0) list[used++] = {sink_->poll_fd(), POLLOUT, 0};
    }
    const int count = ::poll(list.data(), used, until ? poll_timeout(*until) : -1);
    if (count <= 0) return true;
    if (list[0].revents != 0) {
      std::uint64_t value = 0;
      [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &value, sizeof value);
    }
    return hear();
  }

  // Handles the control links: aborts first, because they explain the errors that follow.
  bool hear() {
    for (ControlLink* link : {&links_.previous, &links_.next}) {
      if (link->ended) continue;
      link->flush();
      while (true) {
        link->receive();
        auto frame = link->reader.next();
        if (!frame) return lost(*link, "it sends bytes that are no frame");
        if (!frame->has_value()) break;
        if ((*frame)->type == FrameType::kBye) {
          link->left = true;
        } else if ((*frame)->type == FrameType::kAbort) {
          const auto cause = decode_abort_cause((*frame)->payload);
          if (!cause || cause->generation != generation_) return lost(*link, "it sends an abort that cannot be read");
          return aborted_by_peer(*cause, link);
        }
      }
    }
    for (ControlLink* link : {&links_.previous, &links_.next}) {
      if (link->ended && !link->left) return lost(*link, "its connection closed without a reason");
    }
    return true;
  }

  void explain(const Transfer::Moved& moved) {
    switch (moved.problem) {
      case Transfer::Problem::kNone:
        return;
      case Transfer::Problem::kMismatch:
      case Transfer::Problem::kGarbage: {
        const std::string theirs = moved.problem == Transfer::Problem::kGarbage
                                       ? std::string("bytes that are no operation")
                                       : describe(current_->theirs());
        const std::string text =
            fmt::format("the ranks run different operations: rank {} submitted {}, rank {} submitted {}", rank_,
                        describe(current_->header()), links_.previous.peer, theirs);
        tell({AbortCause::Kind::kMismatch, generation_, rank_, -1, text}, nullptr);
        return die(fail(ErrorCode::kConflict, text), -1);
      }
      case Transfer::Problem::kSourceEnded:
        return stream_ended(links_.previous, moved.error);
      case Transfer::Problem::kSinkEnded:
        return stream_ended(links_.next, moved.error);
    }
  }

  void stream_ended(ControlLink& link, int error) {
    const MonotonicTime until = now() + kGraceForReason;
    while (!link.left && now() < until) {
      if (!hear()) return;
      if (link.left) break;
      std::array<pollfd, 2> list{{{links_.previous.ended ? -1 : links_.previous.fd.get(), POLLIN, 0},
                                  {links_.next.ended ? -1 : links_.next.fd.get(), POLLIN, 0}}};
      ::poll(list.data(), list.size(), poll_timeout(until));
    }
    if (link.left) {
      departed(link);
    } else {
      lost(link, error == 0 ? "it closed its data connection" : std::strerror(error));
    }
  }

  bool lost(const ControlLink& link, const std::string& why) {
    const std::string during = current_ ? " in " + describe(current_->header()) : "";
    const std::string text = fmt::format("rank {} lost rank {}{}: {}", rank_, link.peer, during, why);
    tell({AbortCause::Kind::kLost, generation_, rank_, link.peer, text}, nullptr);
    die(fail(ErrorCode::kUnavailable, text), link.peer);
    return false;
  }

  bool departed(const ControlLink& link) {
    const std::string during = current_ ? describe(current_->header()) : "the ring";
    const std::string text = fmt::format("rank {} has left, and rank {} needs it for {}", link.peer, rank_, during);
    tell({AbortCause::Kind::kLost, generation_, rank_, -1, text}, nullptr);
    die(fail(ErrorCode::kUnavailable, text), -1);
    return false;
  }

  bool aborted_by_peer(const AbortCause& cause, const ControlLink* from) {
    tell(cause, from);
    const bool mismatch = cause.kind == AbortCause::Kind::kMismatch;
    die(fail(mismatch ? ErrorCode::kConflict : ErrorCode::kUnavailable,
             fmt::format("rank {} ended generation {}: {}", cause.origin, generation_, cause.text)),
        -1);
    return false;
  }

  void tell(const AbortCause& cause, const ControlLink* except) { tell_neighbours(links_, cause, except); }

  void die(Error error, int suspect) {
    current_.reset();
    source_.reset();
    sink_.reset();
    const std::lock_guard guard(mutex_);
    suspect_.store(suspect);
    dead_ = std::move(error);
    queue_.clear();
    changed_.notify_all();
  }

  const int rank_;
  const int size_;
  const std::uint64_t generation_;
  const Duration stall_deadline_;
  const Transport transport_to_next_;
  UniqueFd wake_;
  std::atomic<bool> interrupted_{false};
  std::atomic<int> suspect_{-1};
  PublishedActivity activity_;

  // Used by the thread alone.
  Links links_;
  std::unique_ptr<ByteSource> source_;
  std::unique_ptr<ByteSink> sink_;
  std::optional<Transfer> current_;
  std::uint64_t sent_ = 0, received_ = 0, travelling_ns_ = 0;  // by completed operations
  std::optional<MonotonicTime> arrives_since_;                 // the first bytes of the operation under way
  MonotonicTime last_moved_{};
  unsigned turns_ = 0;
  int idle_turns_ = 0;
  bool napping_ = false;
  std::uint32_t rung_previous_ = 0;  // the value of the neighbour's `naps` for which this rank rang
  std::uint32_t rung_next_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Protected by mutex_.
  std::deque<std::variant<AllReduce, Broadcast, HandOn>> queue_;
  std::uint64_t submitted_ = 0;
  std::uint64_t completed_ = 0;
  bool aborting_ = false;
  bool closing_ = false;
  std::optional<Error> dead_;

  std::thread thread_;  // last: it uses all of the above
};

Result<std::unique_ptr<RingCommunicator>> RingCommunicator::create(RingOptions options, int* suspect) {
  if (suspect != nullptr) *suspect = -1;
  if (const Status valid = validate(options); !valid) {
    const UniqueFd taken(options.listen_fd);
    return valid.error();
  }
  LOCKSTEP_TRY(Links links, make_links(options, suspect));
  UniqueFd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake) return fail(ErrorCode::kExhausted, fmt::format("no eventfd for a communicator: {}", std::strerror(errno)));
  return std::unique_ptr<RingCommunicator>(
      new RingCommunicator(std::make_unique<Impl>(options, std::move(links), std::move(wake))));
}

RingCommunicator::RingCommunicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RingCommunicator::~RingCommunicator() = default;
int RingCommunicator::rank() const {
  return impl_->rank();
}
int RingCommunicator::size() const {
  return impl_->size();
}
Result<Ticket> RingCommunicator::submit(const AllReduce& operation) {
  return impl_->submit(operation);
}
Result<Ticket> RingCommunicator::submit(const Broadcast& operation) {
  return impl_->submit(operation);
}
Result<Ticket> RingCommunicator::submit(const HandOn& operation) {
  return impl_->submit(operation);
}
Status RingCommunicator::wait(Ticket ticket) {
  return impl_->wait(ticket);
}
bool RingCommunicator::abort(Duration deadline) {
  return impl_->abort(deadline);
}
int RingCommunicator::suspect() const {
  return impl_->suspect();
}
Activity RingCommunicator::activity() const {
  return impl_->activity();
}

std::string_view RingCommunicator::carrier() const {
  return transport_to_next() == Transport::kSharedMemory ? "shared memory" : "TCP";
}

Transport RingCommunicator::transport_to_next() const {
  return impl_->transport_to_next();
}

}  // namespace lockstep::trainer::comm
