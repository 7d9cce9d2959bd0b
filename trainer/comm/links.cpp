#include "trainer/comm/links.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <list>
#include <optional>
#include <vector>

#include "operator/base/address.h"
#include "operator/base/log.h"
#include "trainer/comm/handshake.h"

namespace lockstep::trainer::comm {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMostStrangers = 64;          // connections that have not proved themselves yet
constexpr auto kLeastRetry = milliseconds(5);  // after a failed connection; doubles
constexpr auto kMostRetry = milliseconds(250);
constexpr auto kGraceForTelling = milliseconds(100);

MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

int poll_timeout(MonotonicTime until) {
  const auto left = std::chrono::ceil<milliseconds>(until - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

// Whether the owner has cancelled the linking.
Status go_on(const RingOptions& options) {
  pollfd one{options.cancel_fd, POLLIN, 0};
  if (options.cancel_fd < 0 || ::poll(&one, 1, 0) <= 0) return {};
  return fail(ErrorCode::kCancelled, fmt::format("rank {} was interrupted while connecting in generation {}",
                                                 options.rank, options.generation));
}

void tune(int fd, Duration stall_deadline) {
  const auto set = [fd](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 5);
  // A little above the stall deadline, so that the communicator fails first, with the better message.
  const auto ms = std::chrono::duration_cast<milliseconds>(stall_deadline).count() + 2000;
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::min<std::int64_t>(ms, std::numeric_limits<int>::max())));
}

// The client's side of one channel to the next rank. Retries until the deadline of the whole set-up, because the next
// rank may not be up yet.
struct Outgoing {
  Channel channel;
  std::optional<Handshake> handshake;
  UniqueFd ready;
  MonotonicTime retry_at{};
  Duration backoff = kLeastRetry;
  std::string last_failure = "no answer";

  void failed(const std::string& why) {
    last_failure = why;
    handshake.reset();
    retry_at = now() + backoff;
    backoff = std::min<Duration>(backoff * 2, kMostRetry);
  }
};

class Connector {
 public:
  Connector(const RingOptions& options, MonotonicTime deadline)
      : options_(options), deadline_(deadline), listener_(options.listen_fd) {
    Hello own;
    own.rank = static_cast<std::uint32_t>(options.rank);
    own.size = static_cast<std::uint32_t>(options.size);
    own.generation = static_cast<std::uint64_t>(options.generation);
    own.memory = options.memory;
    own.job = sha256(options.job_uid);
    to_next_ = {options.key, own, static_cast<std::uint32_t>(next())};
    from_previous_ = {options.key, own, static_cast<std::uint32_t>(previous())};
  }

  int next() const { return (options_.rank + 1) % options_.size; }
  int previous() const { return (options_.rank + options_.size - 1) % options_.size; }

  Status run(int* suspect) {
    const int flags = ::fcntl(listener_.get(), F_GETFL);
    if (flags < 0 || ::fcntl(listener_.get(), F_SETFL, flags | O_NONBLOCK) < 0) {
      return fail(ErrorCode::kInvalid, fmt::format("rank {} has no listening socket (descriptor {}): {}", options_.rank,
                                                   options_.listen_fd, std::strerror(errno)));
    }
    LOCKSTEP_TRY(next_address_, parse_address(options_.peers[static_cast<size_t>(next())]));
    while (true) {
      for (Outgoing& outgoing : outgoing_) LOCKSTEP_CHECK_OK(drive(outgoing));
      LOCKSTEP_CHECK_OK(accept_all());
      drive_strangers();
      if (complete()) return {};
      LOCKSTEP_CHECK_OK(go_on(options_));
      if (now() >= deadline_) return overdue(suspect);
      wait();
    }
  }

  UniqueFd take_next(Channel channel) { return std::move(outgoing_[index(channel)].ready); }
  UniqueFd take_previous(Channel channel) { return std::move(accepted_[index(channel)]); }
  // Whether that neighbour sees the memory that this rank sees.
  bool shares_with_next() const { return options_.memory != 0 && next_memory_ == options_.memory; }
  bool shares_with_previous() const { return options_.memory != 0 && previous_memory_ == options_.memory; }

 private:
  static size_t index(Channel channel) { return static_cast<size_t>(channel) - 1; }
  bool complete() const { return outgoing_[0].ready && outgoing_[1].ready && accepted_[0] && accepted_[1]; }

  Status drive(Outgoing& outgoing) {
    if (outgoing.ready) return {};
    if (!outgoing.handshake && now() >= outgoing.retry_at) {
      UniqueFd fd(::socket(next_address_.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      if (!fd) return fail(ErrorCode::kExhausted, fmt::format("no socket for a link: {}", std::strerror(errno)));
      tune(fd.get(), options_.stall_deadline);
      if (::connect(fd.get(), next_address_.get(), next_address_.length) != 0 && errno != EINPROGRESS) {
        outgoing.failed(std::strerror(errno));
        return {};
      }
      outgoing.handshake.emplace(std::move(fd), Role::kClient, to_next_, outgoing.channel, deadline_);
    }
    if (!outgoing.handshake) return {};
    Handshake& handshake = *outgoing.handshake;
    handshake.advance();
    if (handshake.failed()) {
      outgoing.failed(handshake.why());
    } else if (handshake.done()) {
      next_memory_ = handshake.peer_memory();
      outgoing.ready = handshake.take();
      outgoing.handshake.reset();
    }
    return {};
  }

  Status accept_all() {
    while (true) {
      UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
        if (errno == EINTR || errno == ECONNABORTED) continue;
        const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        return fail(full ? ErrorCode::kExhausted : ErrorCode::kInvalid,
                    fmt::format("rank {} cannot accept links: {}", options_.rank, std::strerror(errno)));
      }
      tune(fd.get(), options_.stall_deadline);
      if (strangers_.size() >= kMostStrangers) strangers_.pop_front();  // the oldest one
      strangers_.emplace_back(std::move(fd), Role::kServer, from_previous_, Channel::kControl,
                              std::min(deadline_, now() + options_.handshake_deadline));
    }
  }

  void drive_strangers() {
    for (auto at = strangers_.begin(); at != strangers_.end();) {
      at->advance();
      if (at->done()) {
        // A client that lost its connection before it received the answer connects again: the newest counts.
        previous_memory_ = at->peer_memory();
        accepted_[index(at->channel())] = at->take();
        at = strangers_.erase(at);
      } else if (at->failed() || now() >= at->deadline()) {
        if (at->failed()) last_refused_ = at->why();
        at = strangers_.erase(at);
      } else {
        ++at;
      }
    }
  }

  void wait() {
    std::vector<pollfd> list{{listener_.get(), POLLIN, 0}, {options_.cancel_fd, POLLIN, 0}};
    MonotonicTime until = deadline_;
    for (const Outgoing& outgoing : outgoing_) {
      if (outgoing.handshake) {
        list.push_back({outgoing.handshake->fd(), outgoing.handshake->events(), 0});
      } else if (!outgoing.ready) {
        until = std::min(until, outgoing.retry_at);
      }
    }
    for (const Handshake& stranger : strangers_) {
      list.push_back({stranger.fd(), stranger.events(), 0});
      until = std::min(until, stranger.deadline());
    }
    ::poll(list.data(), list.size(), poll_timeout(until));
  }

  Error overdue(int* suspect) const {
    const double seconds = std::chrono::duration<double>(options_.init_deadline).count();
    const Outgoing* missing = nullptr;
    for (const Outgoing& outgoing : outgoing_) {
      if (!outgoing.ready && missing == nullptr) missing = &outgoing;
    }
    if (missing != nullptr) {
      if (suspect != nullptr) *suspect = next();
      return fail(ErrorCode::kDeadlineExceeded,
                  fmt::format("rank {} could not link with rank {} at {} within {:g} s: {}", options_.rank, next(),
                              options_.peers[static_cast<size_t>(next())], seconds, missing->last_failure));
    }
    if (suspect != nullptr) *suspect = previous();
    const std::string refused =
        last_refused_.empty() ? "" : fmt::format(" (a connection was refused: {})", last_refused_);
    return fail(ErrorCode::kDeadlineExceeded, fmt::format("rank {} was not linked by rank {} within {:g} s{}",
                                                          options_.rank, previous(), seconds, refused));
  }

  const RingOptions& options_;
  MonotonicTime deadline_;
  UniqueFd listener_;
  Address next_address_;
  HandshakeTerms to_next_;
  HandshakeTerms from_previous_;
  std::array<Outgoing, 2> outgoing_{Outgoing{Channel::kControl, {}, {}, {}, kLeastRetry, "no answer"},
                                    Outgoing{Channel::kData, {}, {}, {}, kLeastRetry, "no answer"}};
  std::array<UniqueFd, 2> accepted_;
  std::uint64_t next_memory_ = 0;
  std::uint64_t previous_memory_ = 0;
  std::list<Handshake> strangers_;
  std::string last_refused_;
};

Error link_lost(int rank, int peer, int* suspect, MonotonicTime deadline) {
  if (suspect != nullptr) *suspect = peer;
  if (now() >= deadline) {
    return fail(ErrorCode::kDeadlineExceeded,
                fmt::format("rank {} linked with rank {}, which then said nothing", rank, peer));
  }
  return fail(ErrorCode::kUnavailable, fmt::format("rank {} lost rank {} while they were linking", rank, peer));
}

// The next frame of `type` from each of the two links. Skips doorbells that arrive first.
Status frames_of(FrameType type, Links& links, MonotonicTime deadline, const RingOptions& options, int* suspect,
                 std::array<std::string, 2>& payloads) {
  std::array<ControlLink*, 2> both{&links.previous, &links.next};
  std::array<bool, 2> have{};
  while (true) {
    LOCKSTEP_CHECK_OK(go_on(options));
    std::vector<pollfd> list;
    for (size_t i = 0; i < 2; ++i) {
      ControlLink& link = *both[i];
      link.receive();
      while (!have[i]) {
        auto frame = link.reader.next();
        if (!frame) return frame.error().in(fmt::format("rank {}", link.peer));
        if (!frame->has_value()) break;
        if ((*frame)->type == type) {
          payloads[i] = std::move((*frame)->payload);
          have[i] = true;
        } else if ((*frame)->type != FrameType::kDoorbell) {
          return link_lost(options.rank, link.peer, suspect, deadline);
        }
      }
      if (!have[i]) {
        if (link.ended || now() >= deadline) return link_lost(options.rank, link.peer, suspect, deadline);
        list.push_back({link.fd.get(), POLLIN, 0});
      }
    }
    if (list.empty()) return {};
    list.push_back({options.cancel_fd, POLLIN, 0});
    ::poll(list.data(), list.size(), poll_timeout(deadline));
  }
}

// Every link carries offers both ways, also empty ones. So differing lists of members cannot leave a rank waiting.
Status agree_on_shared_memory(const RingOptions& options, const Connector& connector, Links& links,
                              MonotonicTime deadline, int* suspect) {
  const auto member = [&](int rank) {
    return options.members.empty() ? -1 - rank : options.members[static_cast<size_t>(rank)];
  };
  const bool with_previous = connector.shares_with_previous() || member(links.previous.peer) == member(options.rank);
  const bool with_next = connector.shares_with_next() || member(links.next.peer) == member(options.rank);
  const auto generation = static_cast<std::uint64_t>(options.generation);
  if (with_previous || with_next) {
    const auto job = sha256(options.job_uid);
    std::string tag;
    for (size_t i = 0; i < 6; ++i) tag += fmt::format("{:02x}", static_cast<unsigned>(job[i]));
    auto own = Segment::create(options.shared_memory_dir, tag, generation, static_cast<std::uint32_t>(options.rank),
                               with_next ? std::max<size_t>(options.shared_memory_bytes, 4096) : 0);
    if (own) {
      links.own = std::move(own).value();
    } else {
      log::warn("no shared memory is available; ranks of this machine use TCP",
                {{"rank", std::to_string(options.rank)}, {"why", own.error().message}});
    }
  }
  const std::string name = links.own ? links.own->name() : "";
  const std::array<ControlLink*, 2> both{&links.previous, &links.next};
  const std::array<bool, 2> wanted{with_previous, with_next};
  for (size_t i = 0; i < 2; ++i) {
    if (!both[i]->send(FrameType::kOffer, wanted[i] ? name : ""))
      return link_lost(options.rank, both[i]->peer, suspect, deadline);
  }
  std::array<std::string, 2> offers;
  LOCKSTEP_CHECK_OK(frames_of(FrameType::kOffer, links, deadline, options, suspect, offers));
  std::array<std::unique_ptr<Segment>, 2> mapped;
  for (size_t i = 0; i < 2; ++i) {
    if (links.own && wanted[i] && !offers[i].empty()) {
      auto segment =
          Segment::open(options.shared_memory_dir, offers[i], generation, static_cast<std::uint32_t>(both[i]->peer));
      if (segment && (i == 1 || (*segment)->capacity() > 0)) {
        mapped[i] = std::move(segment).value();
      } else if (!segment) {
        log::warn("the shared memory of a rank of this machine cannot be used; TCP replaces it",
                  {{"rank", std::to_string(options.rank)}, {"why", segment.error().message}});
      }
    }
    if (!both[i]->send(FrameType::kAnswer, std::string(1, mapped[i] ? '\1' : '\0'))) {
      return link_lost(options.rank, both[i]->peer, suspect, deadline);
    }
  }
  std::array<std::string, 2> answers;
  LOCKSTEP_CHECK_OK(frames_of(FrameType::kAnswer, links, deadline, options, suspect, answers));
  if (links.own) links.own->unlink();  // both neighbours have mapped it
  if (mapped[0] && answers[0] == "\1") {
    links.previous_segment = std::move(mapped[0]);
    links.data_previous.reset();
  }
  if (mapped[1] && answers[1] == "\1") {
    links.next_segment = std::move(mapped[1]);
    links.data_next.reset();
  }
  return {};
}

}  // namespace

bool ControlLink::send(FrameType type, std::string_view payload) {
  out += encode_frame(type, payload);
  return flush();
}

bool ControlLink::flush() {
  while (!out.empty()) {
    const ssize_t n = ::send(fd.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      out.erase(0, static_cast<size_t>(n));
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else {
      return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
  }
  return true;
}

void ControlLink::receive() {
  while (!ended && reader.space() > 0) {
    const ssize_t n = ::recv(fd.get(), reader.tail(), reader.space(), MSG_DONTWAIT);
    if (n > 0) {
      reader.added(static_cast<size_t>(n));
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return;
    } else {
      ended = true;
    }
  }
}

void ControlLink::close() {
  ::shutdown(fd.get(), SHUT_WR);
  // Unread bytes would turn the close into a reset, which can overtake the last frames.
  std::array<std::byte, 512> rest;
  while (::recv(fd.get(), rest.data(), rest.size(), MSG_DONTWAIT) > 0) {
  }
}

void tell_neighbours(Links& links, const AbortCause& cause, const ControlLink* except) {
  const std::string payload = encode(cause);
  const MonotonicTime until = now() + kGraceForTelling;
  for (ControlLink* link : {&links.previous, &links.next}) {
    if (link == except || link->ended || !link->send(FrameType::kAbort, payload)) continue;
    while (!link->out.empty() && now() < until) {
      pollfd one{link->fd.get(), POLLOUT, 0};
      ::poll(&one, 1, poll_timeout(until));
      if (!link->flush()) break;
    }
  }
}

Result<Links> make_links(const RingOptions& options, int* suspect) {
  const MonotonicTime deadline = now() + options.init_deadline;
  Connector connector(options, deadline);
  LOCKSTEP_CHECK_OK(connector.run(suspect));
  Links links;
  links.previous.peer = connector.previous();
  links.next.peer = connector.next();
  links.previous.fd = connector.take_previous(Channel::kControl);
  links.next.fd = connector.take_next(Channel::kControl);
  links.data_previous = connector.take_previous(Channel::kData);
  links.data_next = connector.take_next(Channel::kData);
  LOCKSTEP_CHECK_OK(agree_on_shared_memory(options, connector, links, deadline, suspect));
  return links;
}

}  // namespace lockstep::trainer::comm
