#include "trainer/agent/dials.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "operator/base/address.h"

namespace lockstep::trainer::agent {
namespace {

constexpr std::size_t kDialsAtOnce = 64;
constexpr Duration kDialWithin = std::chrono::seconds(2);

}  // namespace

void Dials::start(std::int64_t generation, std::vector<std::string> addresses) {
  generation_ = generation;
  active_ = true;
  under_way_.clear();
  waiting_.assign(std::make_move_iterator(addresses.begin()), std::make_move_iterator(addresses.end()));
}

void Dials::add_polls(std::vector<pollfd>& polls) const {
  for (const Dial& dial : under_way_) polls.push_back({dial.fd.get(), POLLOUT, 0});
}

MonotonicTime Dials::deadline() const {
  if (!active_) return MonotonicTime::max();
  if (under_way_.empty()) return MonotonicTime{};  // there is something to begin with, or nothing left
  return std::min_element(under_way_.begin(), under_way_.end(),
                          [](const Dial& a, const Dial& b) { return a.until < b.until; })
      ->until;
}

std::string Dials::begin(std::string address, MonotonicTime now) {
  const auto target = parse_address(address);
  if (!target) return fmt::format("{} is no numeric address", address);
  UniqueFd fd(::socket(target->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fmt::format("no socket to reach {}: {}", address, std::strerror(errno));
  if (::connect(fd.get(), target->get(), target->length) == 0) return "";
  if (errno != EINPROGRESS) return fmt::format("{}: {}", address, std::strerror(errno));
  under_way_.push_back({std::move(address), std::move(fd), now + kDialWithin});
  return "";
}

std::string Dials::advance(MonotonicTime now) {
  for (auto dial = under_way_.begin(); dial != under_way_.end();) {
    pollfd one{dial->fd.get(), POLLOUT, 0};
    if (::poll(&one, 1, 0) > 0) {
      int error = 0;
      socklen_t length = sizeof error;
      ::getsockopt(dial->fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error != 0) return fmt::format("{}: {}", dial->address, std::strerror(error));
      dial = under_way_.erase(dial);
    } else if (now >= dial->until) {
      return fmt::format("{}: no answer within {} s", dial->address,
                         std::chrono::duration_cast<std::chrono::seconds>(kDialWithin).count());
    } else {
      ++dial;
    }
  }
  return "";
}

Dials::Outcome Dials::end(std::string problem) {
  active_ = false;
  under_way_.clear();
  waiting_.clear();
  return {generation_, std::move(problem)};
}

std::optional<Dials::Outcome> Dials::step(MonotonicTime now) {
  if (!active_) return std::nullopt;
  if (std::string problem = advance(now); !problem.empty()) return end(std::move(problem));
  while (!waiting_.empty() && under_way_.size() < kDialsAtOnce) {
    std::string address = std::move(waiting_.front());
    waiting_.pop_front();
    if (std::string problem = begin(std::move(address), now); !problem.empty()) return end(std::move(problem));
  }
  if (!under_way_.empty()) return std::nullopt;
  return end("");
}

}  // namespace lockstep::trainer::agent
