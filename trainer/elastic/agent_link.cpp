#include "trainer/elastic/agent_link.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "operator/base/log.h"
#include "operator/base/thread.h"
#include "operator/base/unique_fd.h"

namespace lockstep::trainer::elastic {
namespace {

using rendezvous::AgentMessage;
using rendezvous::WorkerMessage;
using std::chrono::milliseconds;

constexpr auto kBetweenProgress = milliseconds(250);
constexpr auto kBetweenActivities = milliseconds(250);
constexpr size_t kMostQueued = 1024;  // messages; if the agent reads nothing for this long, the newest are dropped

MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

class AgentLink::Impl {
 public:
  Impl(UniqueFd fd, UniqueFd wake, StopToken& stop) : fd_(std::move(fd)), wake_(std::move(wake)), stop_(stop) {
    thread_ = start_without_signals([this] { run(); });  // signals are for the training thread
  }

  ~Impl() {
    flush(std::chrono::seconds(1));
    {
      const std::lock_guard guard(mutex_);
      closing_ = true;
    }
    wake();
    thread_.join();
  }

  void say(const WorkerMessage& message) {
    {
      const std::lock_guard guard(mutex_);
      if (gone_) return;
      if (queue_.size() < kMostQueued) queue_.push_back(rendezvous::encode(message));
    }
    wake();
  }

  void say_progress(const rendezvous::Progress& progress) {
    {
      const std::lock_guard guard(mutex_);
      if (gone_) return;
      progress_ = rendezvous::encode(WorkerMessage{.progress = progress});
    }
    wake();
  }

  bool flush(Duration deadline) {
    std::unique_lock lock(mutex_);
    hurry_ = true;
    wake();
    const auto empty = [&] { return queue_.empty() && !progress_ && out_.empty(); };
    changed_.wait_for(lock, deadline, [&] { return gone_ || empty(); });
    hurry_ = false;
    return !gone_ && empty();
  }

  void on_regroup(std::function<void()> interrupt) {
    const std::lock_guard guard(mutex_);
    interrupt_ = std::move(interrupt);
  }

  void watch(std::function<rendezvous::Activity()> look) {
    {
      const std::lock_guard guard(mutex_);
      look_ = std::move(look);
    }
    wake();
  }

  Result<AgentMessage> next_order(Duration deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, deadline, [&] { return gone_ || order_; });
    if (gone_) return fail(ErrorCode::kUnavailable, "the link to the agent has ended");
    if (!order_) return fail(ErrorCode::kDeadlineExceeded, "the agent has given no order");
    AgentMessage order = *std::move(order_);
    order_.reset();
    return order;
  }

  bool has_order() {
    const std::lock_guard guard(mutex_);
    return order_.has_value();
  }

  std::int64_t yields() const { return yields_.load(); }

 private:
  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
  }

  void run() {
    while (true) {
      pollfd list[2] = {{wake_.get(), POLLIN, 0}, {fd_.get(), POLLIN, 0}};
      int timeout = -1;
      {
        const std::lock_guard guard(mutex_);
        if (closing_ || gone_) return;
        bool sent = true;
        const int next_look = add_activity();
        while (sent) {  // until no message is due, or the socket is full
          timeout = fill_out();
          sent = !out_.empty();
          if (!send_out()) return lost("the agent closed the link");
          sent = sent && out_.empty();
        }
        if (out_.empty() && queue_.empty() && !progress_) changed_.notify_all();
        if (!out_.empty()) list[1].events = POLLIN | POLLOUT;
        if (next_look >= 0) timeout = timeout < 0 ? next_look : std::min(timeout, next_look);
      }
      ::poll(list, 2, timeout);
      if (list[0].revents != 0) {
        std::uint64_t value = 0;
        [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &value, sizeof value);
      }
      if ((list[1].revents & ~POLLOUT) != 0 && !receive()) return;
    }
  }

  // With mutex_ held: queues this process's activity when it is due. Returns the milliseconds until the next time, -1:
  // there is no watcher.
  int add_activity() {
    if (!look_) return -1;
    const MonotonicTime at = now();
    if (at >= look_at_) {
      // An agent that has not read the last one yet needs no other.
      if (queue_.empty() && out_.empty()) queue_.push_back(rendezvous::encode(WorkerMessage{.activity = look_()}));
      look_at_ = at + kBetweenActivities;
    }
    return static_cast<int>(std::chrono::ceil<milliseconds>(look_at_ - at).count());
  }

  // With mutex_ held: moves messages that are due to out_. Returns the milliseconds that progress has to wait, -1: none
  // waits.
  // does.
  int fill_out() {
    while (out_.size() < rendezvous::kMaxLinkLine && !queue_.empty()) {
      out_ += queue_.front();
      queue_.pop_front();
    }
    if (!progress_) return -1;
    const auto wait = std::chrono::ceil<milliseconds>(last_progress_ + kBetweenProgress - now()).count();
    if (wait > 0 && !hurry_) return static_cast<int>(wait);
    if (out_.empty()) {  // else the newest is sent when there is room
      out_ += *progress_;
      progress_.reset();
      last_progress_ = now();
    }
    return -1;
  }

  // With mutex_ held. False: the link has ended.
  bool send_out() {
    while (!out_.empty()) {
      const ssize_t n = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) {
        out_.erase(0, static_cast<size_t>(n));
      } else if (n < 0 && errno == EINTR) {
        continue;
      } else {
        return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
      }
    }
    return true;
  }

  bool receive() {
    char chunk[4096];
    while (true) {
      const ssize_t n = ::recv(fd_.get(), chunk, sizeof chunk, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
      if (n <= 0) return lost_from_receive("the agent closed the link");
      in_.append(chunk, static_cast<size_t>(n));
      size_t newline = 0;
      while ((newline = in_.find('\n')) != std::string::npos) {
        const auto message = rendezvous::decode_agent_message(std::string_view(in_).substr(0, newline));
        if (!message) return lost_from_receive(message.error().message);
        in_.erase(0, newline + 1);
        obey(*message);
      }
      if (in_.size() > rendezvous::kMaxAgentLine) return lost_from_receive("the agent sends a line that is too long");
    }
  }

  void obey(const AgentMessage& message) {
    using Kind = AgentMessage::Kind;
    if (message.kind == Kind::kStop) return stop_.request(StopReason::kAgent);
    if (message.kind == Kind::kYield) return yields_.store(message.yields);
    std::function<void()> interrupt;
    {
      const std::lock_guard guard(mutex_);
      if (message.kind == Kind::kRegroup) {
        const std::pair number(message.regroup.term, message.regroup.generation);
        if (regroup_ && number <= *regroup_) return;
        regroup_ = number;
        may_join_ = true;
        interrupt = interrupt_;
      } else {
        if (!may_join_ || std::pair(message.join.term, message.join.generation) != *regroup_) return;
        may_join_ = false;
      }
      order_ = message;
      changed_.notify_all();
    }
    if (interrupt) interrupt();
  }

  bool lost_from_receive(const std::string& why) {
    const std::lock_guard guard(mutex_);
    lost(why);
    return false;
  }

  // With mutex_ held.
  void lost(const std::string& why) {
    log::warn("the link to the agent has ended", {{"why", why}});
    gone_ = true;
    stop_.request(StopReason::kAgentLost);
    changed_.notify_all();
  }

  UniqueFd fd_;
  UniqueFd wake_;
  StopToken& stop_;
  std::atomic<std::int64_t> yields_{0};
  std::string in_;  // used by the thread alone

  std::mutex mutex_;
  std::condition_variable changed_;
  // Protected by mutex_.
  std::deque<std::string> queue_;
  std::optional<std::string> progress_;
  std::string out_;
  MonotonicTime last_progress_{};
  bool hurry_ = false;
  bool closing_ = false;
  bool gone_ = false;
  std::function<void()> interrupt_;
  std::function<rendezvous::Activity()> look_;
  MonotonicTime look_at_{};
  std::optional<std::pair<std::int64_t, std::int64_t>> regroup_;  // the newest: term, generation
  bool may_join_ = false;                                         // the newest regroup has had no join yet
  std::optional<AgentMessage> order_;                             // not returned yet

  std::thread thread_;
};

Result<std::unique_ptr<AgentLink>> AgentLink::open(int fd, StopToken& stop) {
  if (fd < 0) return std::unique_ptr<AgentLink>(new AgentLink(nullptr));
  UniqueFd link(fd);
  int type = 0;
  socklen_t length = sizeof type;
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) {
    return fail(ErrorCode::kInvalid, fmt::format("{}={} is not a stream socket", rendezvous::kEnvAgentFd, fd));
  }
  UniqueFd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake)
    return fail(ErrorCode::kExhausted, fmt::format("no eventfd for the link to the agent: {}", std::strerror(errno)));
  return std::unique_ptr<AgentLink>(new AgentLink(std::make_unique<Impl>(std::move(link), std::move(wake), stop)));
}

AgentLink::AgentLink(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AgentLink::~AgentLink() = default;

void AgentLink::up(bool regroups, const rendezvous::EntryTimes& entry) {
  if (impl_) impl_->say({.up = true, .regroups = regroups, .entry = entry});
}
void AgentLink::identity(const std::string& line) {
  if (impl_) impl_->say({.identity = line});
}
void AgentLink::progress(const rendezvous::Progress& progress) {
  if (impl_) impl_->say_progress(progress);
}
void AgentLink::checkpoint(const rendezvous::CheckpointReport& report) {
  if (impl_) impl_->say({.checkpoint = report});
}
void AgentLink::failure(const rendezvous::FailureReport& report) {
  if (impl_) impl_->say({.failure = report});
}
void AgentLink::broken(const rendezvous::BrokenReport& report) {
  if (impl_) impl_->say({.broken = report});
}
void AgentLink::holding(const rendezvous::Holding& holding) {
  if (impl_) impl_->say({.holding = holding});
}
void AgentLink::watch(std::function<rendezvous::Activity()> look) {
  if (impl_) impl_->watch(std::move(look));
}
void AgentLink::on_regroup(std::function<void()> interrupt) {
  if (impl_) impl_->on_regroup(std::move(interrupt));
}
Result<rendezvous::AgentMessage> AgentLink::next_order(Duration deadline) {
  if (!impl_) return fail(ErrorCode::kUnavailable, "there is no agent");
  return impl_->next_order(deadline);
}
std::int64_t AgentLink::yields() const {
  return impl_ ? impl_->yields() : 0;
}
bool AgentLink::has_order() const {
  return impl_ && impl_->has_order();
}
bool AgentLink::flush(Duration deadline) {
  return !impl_ || impl_->flush(deadline);
}

}  // namespace lockstep::trainer::elastic
