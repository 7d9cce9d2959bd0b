// How a rank connects over NCCL, what it receives from its neighbours, and how it ends.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "trainer/comm/nccl_rank.h"

namespace lockstep::trainer::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// NCCL notices that a rank died, but not which; the frame on the neighbour's control link may arrive a moment later.
constexpr auto kGraceForReason = milliseconds(500);
constexpr auto kNapWhileLinking = milliseconds(2);
// More than any rank can be ahead: the operations that NCCL buffers, and those announced ahead.
constexpr size_t kMostAnnounced = 4096;

MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

timespec until_then(MonotonicTime until) {
  const auto left = std::clamp<Duration>(until - now(), Duration::zero(), seconds(60));
  return {static_cast<time_t>(left / seconds(1)), static_cast<long>((left % seconds(1)).count())};
}

double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

bool NcclRank::link_over_nccl() {
  const auto set_up = in_library([&] { return channel_.set_up(); });
  if (!set_up) return false;
  if (!set_up->ok()) return unusable(set_up->error());
  if (!hear()) return false;  // frames that came together with the last bytes of the handshakes
  const auto invited = invitation();
  if (!invited || !fits(*invited)) return false;
  if (links_.next.peer != 0) links_.next.send(FrameType::kNcclId, encode(*invited));
  NcclUniqueId id;
  std::memcpy(id.internal, invited->id.data(), invited->id.size());
  const auto begun = in_library([&] { return channel_.begin_init(id); });
  if (!stands(begun)) return false;
  while (true) {
    const auto settled = in_library([&] { return channel_.settled(); });
    if (!stands(settled)) return false;
    if (settled->value()) break;
    if (now() >= linked_by_) {
      return not_linked(
          "the control links are connected, and NCCL's own are not; is the network between the ranks open to it "
          "(NCCL_SOCKET_IFNAME, NCCL_DEBUG=WARN)?");
    }
    if (!look(std::min<MonotonicTime>(linked_by_, now() + kNapWhileLinking))) return false;
    if (interrupted_.load()) return heed_owner();
  }
  const std::lock_guard guard(mutex_);
  up_ = true;
  changed_.notify_all();
  return true;
}

// Rank 0 creates the id of this generation; each other rank gets it from the previous one. Nothing: the communicator
// has died.
std::optional<NcclInvitation> NcclRank::invitation() {
  if (rank_ != 0) {
    while (!invitation_) {
      if (now() >= linked_by_) {
        not_linked(fmt::format("rank {} has not passed NCCL's id on", links_.previous.peer));
        return std::nullopt;
      }
      if (!look(linked_by_)) return std::nullopt;
      if (interrupted_.load()) {
        heed_owner();
        return std::nullopt;
      }
    }
    return invitation_;
  }
  NcclInvitation made;
  const auto id = in_library([&] {
    static_cast<void>(setup_.api.get_version(&made.version));
    return channel_.fresh_id();
  });
  if (!id) return std::nullopt;
  if (!id->ok()) {
    unusable(id->error());
    return std::nullopt;
  }
  made.chunk_bytes = setup_.chunk_bytes;
  std::memcpy(made.id.data(), id->value().internal, made.id.size());
  return made;
}

// Whether this rank can accept the invitation of rank 0.
bool NcclRank::fits(const NcclInvitation& invited) {
  int version = 0;
  const auto known = in_library([&] { return setup_.api.get_version(&version); });
  if (!known) return false;
  if (version == invited.version && setup_.chunk_bytes == invited.chunk_bytes) return true;
  return end(ErrorCode::kConflict, AbortCause::Kind::kMismatch,
             fmt::format("rank 0 has NCCL {} and chunks of {} bytes, rank {} has {} and {}; give all ranks the same",
                         invited.version, invited.chunk_bytes, rank_, version, setup_.chunk_bytes));
}

// Sleeps until a link has bytes, the owner wakes it, or `until` (nothing: no deadline; a time in the past: only polls),
// and reads the control links.
bool NcclRank::look(std::optional<MonotonicTime> until) {
  std::array<pollfd, 4> list;
  size_t used = 0;
  list[used++] = {wake_.get(), POLLIN, 0};
  if (!up_ && cancel_fd_ >= 0) list[used++] = {cancel_fd_, POLLIN, 0};
  for (const ControlLink* link : {&links_.previous, &links_.next}) {
    if (link->ended) continue;
    list[used++] = {link->fd.get(), static_cast<short>(link->out.empty() ? POLLIN : POLLIN | POLLOUT), 0};
  }
  const timespec left = until ? until_then(*until) : timespec{};
  if (::ppoll(list.data(), used, until ? &left : nullptr, nullptr) <= 0) return true;
  if (list[0].revents != 0) {
    std::uint64_t value = 0;
    [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &value, sizeof value);
  }
  if (!up_ && cancel_fd_ >= 0 && list[1].revents != 0) {
    return end(ErrorCode::kCancelled, AbortCause::Kind::kCancelled,
               fmt::format("rank {} was interrupted while connecting in generation {}", rank_, generation_));
  }
  return hear();
}

// Handles the control links: frames first, because they explain the errors that follow.
bool NcclRank::hear() {
  for (ControlLink* link : {&links_.previous, &links_.next}) {
    if (link->ended) continue;
    link->flush();
    while (true) {
      link->receive();
      auto frame = link->reader.next();
      if (!frame) return lost(*link, "it sends bytes that are no frame");
      if (!frame->has_value()) break;
      if (!understand(*link, **frame)) return false;
    }
  }
  for (ControlLink* link : {&links_.previous, &links_.next}) {
    if (link->ended && !link->left) return lost(*link, "its connection closed without a reason");
  }
  return true;
}

bool NcclRank::understand(ControlLink& link, const Frame& frame) {
  switch (frame.type) {
    case FrameType::kBye:
      link.left = true;
      return true;
    case FrameType::kAbort: {
      const auto cause = decode_abort_cause(frame.payload);
      if (!cause || cause->generation != generation_) return lost(link, "it sends an abort that cannot be read");
      return aborted_by_peer(*cause, link);
    }
    case FrameType::kNcclId:
      invitation_ = decode_nccl_invitation(frame.payload);
      return invitation_.has_value() || lost(link, "it sends an invitation that cannot be read");
    case FrameType::kNext: {
      const auto announced = decode_nccl_announcement(frame.payload);
      if (!announced || theirs_.size() >= kMostAnnounced)
        return lost(link, "it sends an announcement that cannot be read");
      theirs_.push_back(*announced);
      return true;
    }
    case FrameType::kDoorbell:
    case FrameType::kOffer:
    case FrameType::kAnswer:
      return true;
  }
  return true;
}

// NCCL or CUDA reports an error. A neighbour may be about to say which rank caused it.
bool NcclRank::broken(const Error& error) {
  if (error.code != ErrorCode::kUnavailable) return unusable(error);
  const MonotonicTime until = now() + kGraceForReason;
  while (now() < until) {
    if (!look(until)) return false;
    if (interrupted_.load()) return heed_owner();
    if (links_.previous.left && links_.next.left) break;
  }
  const std::string during = plan_ ? " in " + describe(plan_->header()) : "";
  return end(error.code, AbortCause::Kind::kLost, fmt::format("rank {}{}: {}", rank_, during, error.message));
}

// This rank cannot continue, whatever the others do.
bool NcclRank::unusable(const Error& error) {
  return end(error.code, AbortCause::Kind::kCancelled, fmt::format("rank {}: {}", rank_, error.message));
}

bool NcclRank::not_linked(const std::string& why) {
  return end(
      ErrorCode::kDeadlineExceeded, AbortCause::Kind::kStalled,
      fmt::format("rank {} was not connected over NCCL within {:g} s: {}", rank_, in_seconds(init_deadline_), why));
}

bool NcclRank::lost(const ControlLink& link, const std::string& why) {
  const std::string during = plan_ ? " in " + describe(plan_->header()) : "";
  const std::string text = fmt::format("rank {} lost rank {}{}: {}", rank_, link.peer, during, why);
  tell_neighbours(links_, {AbortCause::Kind::kLost, generation_, rank_, link.peer, text}, nullptr);
  return die(fail(ErrorCode::kUnavailable, text), link.peer);
}

bool NcclRank::departed(const ControlLink& link) {
  return end(ErrorCode::kUnavailable, AbortCause::Kind::kLost,
             fmt::format("rank {} has left, and rank {} needs it for {}", link.peer, rank_, describe(plan_->header())));
}

bool NcclRank::aborted_by_peer(const AbortCause& cause, const ControlLink& from) {
  tell_neighbours(links_, cause, &from);
  const bool mismatch = cause.kind == AbortCause::Kind::kMismatch;
  return die(fail(mismatch ? ErrorCode::kConflict : ErrorCode::kUnavailable,
                  fmt::format("rank {} ended generation {}: {}", cause.origin, generation_, cause.text)),
             -1);
}

// Ends for a reason that this rank is the first to know, and suspects none.
bool NcclRank::end(ErrorCode code, AbortCause::Kind kind, const std::string& text) {
  tell_neighbours(links_, {kind, generation_, rank_, -1, text}, nullptr);
  return die(fail(code, text), -1);
}

bool NcclRank::die(Error error, int suspect) {
  const std::lock_guard guard(mutex_);
  if (!dead_) {
    suspect_.store(suspect);
    dead_ = std::move(error);
  }
  queue_.clear();
  changed_.notify_all();
  return false;
}

}  // namespace lockstep::trainer::comm
