#include "trainer/elastic/torchrun_exchange.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <thread>

#include "operator/base/address.h"
#include "operator/base/number.h"
#include "operator/base/unique_fd.h"
#include "operator/rendezvous/identity_choice.h"
#include "trainer/comm/shared_memory.h"

namespace lockstep::trainer::elastic {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr int kProtocol = 1;
constexpr size_t kMostHello = 8192;              // bytes of a rank's line
constexpr size_t kMostReply = size_t{64} << 20;  // bytes of the list: far above a million ranks' addresses
constexpr size_t kMostGuests = 4096;             // connections of rank 0 that have not sent their rank yet
constexpr auto kBetweenTries = milliseconds(100);

MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

int poll_timeout(MonotonicTime until) {
  const auto left = std::chrono::ceil<milliseconds>(until - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

// Equal in processes that see the same /dev/shm on the same machine.
std::string host_identity() {
  const std::uint64_t memory = comm::memory_id(comm::RingOptions().shared_memory_dir);
  return memory == 0 ? fmt::format("unknown-{}", ::getpid()) : fmt::format("{:016x}", memory);
}

std::string hex(const comm::GenerationKey& key) {
  std::string text;
  for (const std::byte byte : key) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

bool unhex(const std::string& text, comm::GenerationKey& key) {
  if (text.size() != 2 * key.size()) return false;
  for (size_t i = 0; i < key.size(); ++i) {
    const auto value = as_number<std::uint8_t>(std::string_view(text).substr(2 * i, 2), 16);
    if (!value) return false;
    key[i] = static_cast<std::byte>(*value);
  }
  return true;
}

Result<Address> resolve(const World& world) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(world.master_addr.c_str(), std::to_string(world.master_port).c_str(), &hints, &found);
  if (error != 0) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("MASTER_ADDR={} has no address: {}", world.master_addr, gai_strerror(error)));
  }
  Address address;
  address.length = found->ai_addrlen;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return address;
}

// A listening socket on every interface; port 0: any.
Result<UniqueFd> listen_at(int family, int port) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail(ErrorCode::kExhausted, fmt::format("no socket to listen on: {}", std::strerror(errno)));
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  Address any;
  if (family == AF_INET6) {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<std::uint16_t>(port));
    std::memcpy(&any.storage, &six, sizeof six);
    any.length = sizeof six;
  } else {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<std::uint16_t>(port));
    std::memcpy(&any.storage, &four, sizeof four);
    any.length = sizeof four;
  }
  if (::bind(fd.get(), any.get(), any.length) != 0 || ::listen(fd.get(), 1024) != 0) {
    return fail(ErrorCode::kUnavailable, fmt::format("rank 0 cannot listen on port {}: {}; choose another MASTER_PORT",
                                                     port, std::strerror(errno)));
  }
  return fd;
}

// A connection that carries one line each way.
struct Guest {
  UniqueFd fd;
  std::string in;
  bool ended = false;

  // True once a whole line has arrived.
  bool receive(size_t most) {
    char chunk[4096];
    while (in.find('\n') == std::string::npos && !ended) {
      const ssize_t n = ::recv(fd.get(), chunk, sizeof chunk, MSG_DONTWAIT);
      if (n > 0 && in.size() + static_cast<size_t>(n) <= most) {
        in.append(chunk, static_cast<size_t>(n));
      } else if (n < 0 && errno == EINTR) {
        continue;
      } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return false;
      } else {
        ended = true;
      }
    }
    return in.find('\n') != std::string::npos;
  }
};

// Sends all of it, waiting at most until `deadline`.
bool send_all(int fd, std::string_view text, MonotonicTime deadline) {
  while (!text.empty()) {
    const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && now() < deadline) {
      pollfd one{fd, POLLOUT, 0};
      ::poll(&one, 1, poll_timeout(deadline));
    } else {
      return false;
    }
  }
  return true;
}

struct Introduction {
  int rank = -1;
  int size = 0;
  int port = 0;
  std::string run;
  std::int64_t restart = 0;
  std::string host;
  std::string identity;
};

std::optional<Introduction> parse_introduction(std::string_view line) {
  const json value = json::parse(line, nullptr, false);
  if (!value.is_object() || value.value("lockstep", json()) != kProtocol) return std::nullopt;
  try {
    return Introduction{value.at("rank").get<int>(),
                        value.at("size").get<int>(),
                        value.at("port").get<int>(),
                        value.at("run").get<std::string>(),
                        value.at("restart").get<std::int64_t>(),
                        value.at("host").get<std::string>(),
                        value.value("identity", "")};  // an older release has none
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

class Host {
 public:
  Host(const World& world, MonotonicTime deadline) : world_(world), deadline_(deadline) {}

  Status run(comm::RingOptions& options, int data_port) {
    LOCKSTEP_TRY(const Address master, resolve(world_));
    LOCKSTEP_TRY(listener_, listen_at(master.storage.ss_family, world_.master_port));
    while (seated_.size() + 1 < static_cast<size_t>(world_.size)) {
      accept_all();
      LOCKSTEP_CHECK_OK(hear_guests());
      if (seated_.size() + 1 == static_cast<size_t>(world_.size)) break;
      if (now() >= deadline_) return overdue();
      wait();
    }
    fill(options, data_port);
    const std::string reply =
        json{{"peers", options.peers}, {"members", options.members}, {"key", hex(options.key)}}.dump() + "\n";
    for (auto& [rank, seat] : seated_) {
      if (!send_all(seat.guest.fd.get(), reply, deadline_)) {
        return fail(ErrorCode::kUnavailable, fmt::format("rank {} went away before all ranks had connected", rank));
      }
    }
    return {};
  }

 private:
  struct Seat {
    Guest guest;
    Introduction said;
    std::string ip;
  };

  void accept_all() {
    while (true) {
      UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd) return;
      if (guests_.size() >= kMostGuests) guests_.pop_front();
      guests_.push_back({std::move(fd), "", false});
    }
  }

  Status hear_guests() {
    for (auto at = guests_.begin(); at != guests_.end();) {
      if (at->receive(kMostHello)) {
        const auto said = parse_introduction(std::string_view(at->in).substr(0, at->in.find('\n')));
        if (said) LOCKSTEP_CHECK_OK(seat(std::move(*at), *said));
        at = guests_.erase(at);
      } else if (at->ended) {
        at = guests_.erase(at);
      } else {
        ++at;
      }
    }
    return {};
  }

  Status seat(Guest guest, const Introduction& said) {
    const auto refuse = [&](std::string why) {
      send_all(guest.fd.get(), json{{"error", why}}.dump() + "\n", std::min(deadline_, now() + milliseconds(500)));
      return fail(ErrorCode::kInvalid, std::move(why));
    };
    if (said.run != world_.job_uid || said.restart != world_.generation)
      return {};  // a process of another run, which this run must not end
    if (said.size != world_.size) {
      return refuse(
          fmt::format("rank {} was started with WORLD_SIZE={} and rank 0 with {}", said.rank, said.size, world_.size));
    }
    if (said.rank < 1 || said.rank >= world_.size || said.port < 1 || said.port > 65535) {
      return refuse(fmt::format("a process claims rank {} of {}", said.rank, world_.size));
    }
    if (const auto different = difference_from(said)) {
      return refuse(fmt::format("all ranks must have the same {}: rank {} has {}, rank 0 has {}", different->field,
                                said.rank, different->value, different->other_value));
    }
    if (seated_.count(said.rank) != 0) return refuse(fmt::format("two processes claim rank {}", said.rank));
    Address peer;
    peer.length = sizeof peer.storage;
    if (::getpeername(guest.fd.get(), peer.get(), &peer.length) != 0) return {};  // it has closed, and reconnects
    if (auto own = local_address(guest.fd.get()); own && (own_ip_.empty() || is_loopback(own_ip_)))
      own_ip_ = ip_of(*own);
    seated_.emplace(said.rank, Seat{std::move(guest), said, ip_of(peer)});
    return {};
  }

  // The first field of the identity in which a rank differs from this one.
  std::optional<rendezvous::IdentityDifference> difference_from(const Introduction& said) const {
    const std::vector<rendezvous::IdentityRun> own = {{1, world_.identity}}, other = {{1, said.identity}};
    return rendezvous::identity_difference({{0, &own}, {said.rank, &other}});
  }

  static bool is_loopback(const std::string& ip) {
    return ip.rfind("127.", 0) == 0 || ip == "::1" || ip.rfind("::ffff:127.", 0) == 0;
  }

  static std::string join(const std::string& ip, int port) {
    return ip.find(':') == std::string::npos ? fmt::format("{}:{}", ip, port) : fmt::format("[{}]:{}", ip, port);
  }

  void fill(comm::RingOptions& options, int data_port) const {
    std::map<std::string, int> member_of_host;
    const auto member = [&](const std::string& host, int rank) {
      return member_of_host.emplace(host, rank).first->second;
    };
    options.peers = {join(own_ip_, data_port)};
    options.members = {member(host_identity(), 0)};
    for (const auto& [rank, seat] : seated_) {
      // A rank on the same machine came over the loopback interface, which ranks elsewhere cannot reach.
      options.peers.push_back(join(is_loopback(seat.ip) ? own_ip_ : seat.ip, seat.said.port));
      options.members.push_back(member(seat.said.host, rank));
    }
    while (::getrandom(options.key.data(), options.key.size(), 0) != static_cast<ssize_t>(options.key.size())) {
    }
  }

  void wait() {
    std::vector<pollfd> list{{listener_.get(), POLLIN, 0}};
    for (const Guest& guest : guests_) list.push_back({guest.fd.get(), POLLIN, 0});
    ::poll(list.data(), list.size(), poll_timeout(deadline_));
  }

  Error overdue() const {
    std::string missing;
    int listed = 0;
    for (int rank = 1; rank < world_.size; ++rank) {
      if (seated_.count(rank) != 0) continue;
      if (++listed > 10) {
        missing += " ...";
        break;
      }
      missing += fmt::format(" {}", rank);
    }
    return fail(ErrorCode::kDeadlineExceeded, fmt::format("rank 0 waited at port {} and these ranks did not connect:{}",
                                                          world_.master_port, missing));
  }

  const World& world_;
  MonotonicTime deadline_;
  UniqueFd listener_;
  std::list<Guest> guests_;
  std::map<int, Seat> seated_;
  std::string own_ip_;
};

// One try of a rank other than 0. kUnavailable: retry.
Result<std::string> ask(const World& world, const std::string& line, MonotonicTime deadline) {
  LOCKSTEP_TRY(const Address master, resolve(world));
  Guest host{UniqueFd(::socket(master.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), "", false};
  if (!host.fd) return fail(ErrorCode::kExhausted, fmt::format("no socket: {}", std::strerror(errno)));
  if (::connect(host.fd.get(), master.get(), master.length) != 0 && errno != EINPROGRESS) {
    return fail(ErrorCode::kUnavailable, std::strerror(errno));
  }
  if (!send_all(host.fd.get(), line, deadline)) return fail(ErrorCode::kUnavailable, "no process listens there");
  while (!host.receive(kMostReply)) {
    if (host.ended) return fail(ErrorCode::kUnavailable, "the connection was closed");
    if (now() >= deadline) return fail(ErrorCode::kDeadlineExceeded, "the other ranks did not connect");
    pollfd one{host.fd.get(), POLLIN, 0};
    ::poll(&one, 1, poll_timeout(deadline));
  }
  return host.in.substr(0, host.in.find('\n'));
}

Status join_host(const World& world, MonotonicTime deadline, int data_port, comm::RingOptions& options) {
  const std::string line = json{{"lockstep", kProtocol},   {"rank", world.rank},        {"size", world.size},
                                {"port", data_port},       {"run", world.job_uid},      {"restart", world.generation},
                                {"host", host_identity()}, {"identity", world.identity}}
                               .dump(-1, ' ', true, json::error_handler_t::replace) +
                           "\n";
  Result<std::string> answer = fail(ErrorCode::kUnavailable, "not asked");
  while (true) {
    answer = ask(world, line, deadline);
    if (answer || answer.error().code != ErrorCode::kUnavailable) break;
    if (now() + kBetweenTries >= deadline) break;
    // Rank 0 may not be up yet, and no event says when it is.
    std::this_thread::sleep_for(kBetweenTries);
  }
  if (!answer) {
    const ErrorCode code =
        answer.error().code == ErrorCode::kUnavailable ? ErrorCode::kDeadlineExceeded : answer.error().code;
    return fail(code, fmt::format("rank {} could not connect to rank 0 at {}:{}: {}", world.rank, world.master_addr,
                                  world.master_port, answer.error().message));
  }
  const json value = json::parse(*answer, nullptr, false);
  const auto size = static_cast<size_t>(world.size);
  try {
    if (value.is_object() && value.contains("error"))
      return fail(ErrorCode::kInvalid, value.at("error").get<std::string>());
    value.at("peers").get_to(options.peers);
    value.at("members").get_to(options.members);
    if (options.peers.size() == size && options.members.size() == size &&
        unhex(value.at("key").get<std::string>(), options.key)) {
      return {};
    }
  } catch (const json::exception&) {
  }
  return fail(ErrorCode::kInvalid,
              fmt::format("the process that listens at {}:{} is not rank 0 of this job; is MASTER_PORT taken?",
                          world.master_addr, world.master_port));
}

}  // namespace

Status exchange(const World& world, Duration within, comm::RingOptions& options) {
  const MonotonicTime deadline = now() + within;
  LOCKSTEP_TRY(const Address master, [&]() -> Result<Address> {
    while (true) {  // names of pods appear in DNS only when they run
      auto address = resolve(world);
      if (address || now() + kBetweenTries >= deadline) return address;
      std::this_thread::sleep_for(kBetweenTries);
    }
  }());
  LOCKSTEP_TRY(UniqueFd data, listen_at(master.storage.ss_family, 0));
  LOCKSTEP_TRY(const Address data_address, local_address(data.get()));
  const int port = port_of(data_address);
  if (world.rank == 0) {
    LOCKSTEP_CHECK_OK(Host(world, deadline).run(options, port));
  } else {
    LOCKSTEP_CHECK_OK(join_host(world, deadline, port, options));
  }
  options.listen_fd = data.release();
  return {};
}

}  // namespace lockstep::trainer::elastic
