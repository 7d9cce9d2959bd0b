#include "tests/trainer/comm/fake_hub.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <random>

namespace lockstep::trainer::comm::fake {
namespace {

bool move_all(int fd, void* bytes, size_t count, bool out) {
  auto* at = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t n = out ? ::send(fd, at, count, MSG_NOSIGNAL) : ::recv(fd, at, count, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    count -= static_cast<size_t>(n);
  }
  return true;
}

template <typename T>
void reduce_as(std::string& into, const std::string& from, NcclOperation operation) {
  for (size_t at = 0; at + sizeof(T) <= into.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, into.data() + at, sizeof a);
    std::memcpy(&b, from.data() + at, sizeof b);
    if (operation == NcclOperation::kSum) {
      a = static_cast<T>(a + b);
    } else if constexpr (std::is_floating_point_v<T>) {
      a = std::fmax(a, b);  // as a GPU: of a number and NaN the number
    } else {
      a = std::max(a, b);
    }
    std::memcpy(into.data() + at, &a, sizeof a);
  }
}

void reduce_into(std::string& into, const std::string& from, const Message& message) {
  switch (message.type) {
    case NcclType::kUint8:
      return reduce_as<std::uint8_t>(into, from, message.operation);
    case NcclType::kUint32:
      return reduce_as<std::uint32_t>(into, from, message.operation);
    case NcclType::kInt64:
      return reduce_as<std::int64_t>(into, from, message.operation);
    case NcclType::kUint64:
      return reduce_as<std::uint64_t>(into, from, message.operation);
    case NcclType::kFloat32:
      return reduce_as<float>(into, from, message.operation);
    case NcclType::kFloat64:
      return reduce_as<double>(into, from, message.operation);
  }
}

}  // namespace

size_t bytes_of(NcclType type) {
  if (type == NcclType::kUint8) return 1;
  return type == NcclType::kUint32 || type == NcclType::kFloat32 ? 4 : 8;
}

bool send_parcel(int fd, const Message& message, const void* bytes) {
  Message copy = message;
  return move_all(fd, &copy, sizeof copy, true) &&
         (message.bytes == 0 || move_all(fd, const_cast<void*>(bytes), message.bytes, true));
}

bool receive_parcel(int fd, Parcel& parcel) {
  if (!move_all(fd, &parcel.message, sizeof parcel.message, false) || parcel.message.bytes > (size_t{1} << 32))
    return false;
  parcel.bytes.resize(parcel.message.bytes);
  return move_all(fd, parcel.bytes.data(), parcel.bytes.size(), false);
}

Hub::Hub() : nonce_((std::uint64_t{std::random_device{}()} << 32) | std::random_device{}()) {
  listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* any = static_cast<sockaddr*>(static_cast<void*>(&address));
  ::bind(listener_.get(), any, length);
  ::listen(listener_.get(), 64);
  ::getsockname(listener_.get(), any, &length);
  port_ = ntohs(address.sin_port);
  const std::lock_guard guard(mutex_);  // this thread adds to the list as soon as it runs
  threads_.emplace_back([this] { accept_all(); });
}

Hub::~Hub() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard guard(mutex_);
    closing_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    for (const int fd : waiting_) ::shutdown(fd, SHUT_RDWR);
    for (const Member& member : members_) {
      if (member.fd) ::shutdown(member.fd.get(), SHUT_RDWR);
    }
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

bool Hub::finished() {
  const std::lock_guard guard(mutex_);
  return !members_.empty() &&
         std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.gone; });
}

void Hub::accept_all() {
  while (true) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::lock_guard guard(mutex_);
    if (closing_ || !fd) return;
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int number = fd.release();
    waiting_.push_back(number);
    threads_.emplace_back([this, number] { serve(number); });
  }
}

void Hub::serve(int fd) {
  UniqueFd own(fd);
  Parcel parcel;
  const bool said = receive_parcel(fd, parcel);
  const auto rank = static_cast<size_t>(parcel.message.peer);
  {
    const std::lock_guard guard(mutex_);
    std::erase(waiting_, fd);
    if (!said || closing_ || !admit(fd, parcel)) return;
    own.release();  // it is the member's now
  }
  while (receive_parcel(fd, parcel)) {
    const std::lock_guard guard(mutex_);
    take(rank, std::move(parcel));
  }
  const std::lock_guard guard(mutex_);
  Member& member = members_[rank];
  member.gone = true;
  if (!member.left)
    tell_all({.kind = Message::kError, .peer = parcel.message.peer, .result = NcclResult::kRemoteError}, nullptr);
}

bool Hub::admit(int fd, const Parcel& hello) {
  const Message& message = hello.message;
  if (message.kind != Message::kHello || message.count != nonce_) return false;
  if (members_.empty()) members_.resize(static_cast<size_t>(message.size));
  const auto rank = static_cast<size_t>(message.peer);
  if (static_cast<size_t>(message.size) != members_.size() || rank >= members_.size() || members_[rank].here) {
    send_parcel(fd, {.kind = Message::kError, .result = NcclResult::kInvalidUsage}, nullptr);
    return false;
  }
  members_[rank].fd.reset(fd);
  members_[rank].here = true;
  if (std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.here; })) {
    tell_all({.kind = Message::kGo}, nullptr);
  }
  return true;
}

void Hub::take(size_t rank, Parcel parcel) {
  Message& message = parcel.message;
  switch (message.kind) {
    case Message::kAllReduce:
    case Message::kBroadcast:
      members_[rank].parts.push_back(std::move(parcel));
      return collect();
    case Message::kPeer: {
      const auto to = static_cast<size_t>(message.peer);
      message.peer = static_cast<std::int32_t>(rank);
      if (to < members_.size() && !members_[to].gone) send_parcel(members_[to].fd.get(), message, parcel.bytes.data());
      return;
    }
    case Message::kBye:
      members_[rank].left = true;
      if (std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.left; })) {
        tell_all({.kind = Message::kQuiet}, nullptr);
      }
      return;
    default:
      return;
  }
}

void Hub::collect() {
  for (const Member& member : members_) {
    if (member.parts.empty()) return;
  }
  std::vector<Parcel> parts;
  for (Member& member : members_) {
    parts.push_back(std::move(member.parts.front()));
    member.parts.pop_front();
  }
  const Message& first = parts[0].message;
  for (const Parcel& part : parts) {
    const Message& other = part.message;
    if (other.kind != first.kind || other.count != first.count || other.type != first.type ||
        other.operation != first.operation || (first.kind == Message::kBroadcast && other.peer != first.peer)) {
      return tell_all({.kind = Message::kError, .result = NcclResult::kInternalError}, nullptr);
    }
  }
  Message result = first;
  if (first.kind == Message::kBroadcast) {
    const std::string& bytes = parts[static_cast<size_t>(first.peer)].bytes;
    result.bytes = bytes.size();
    return tell_all(result, bytes.data());
  }
  for (size_t rank = 1; rank < parts.size(); ++rank) reduce_into(parts[0].bytes, parts[rank].bytes, first);
  tell_all(result, parts[0].bytes.data());
}

// Ranks of this process come last: the process may end as soon as its rank has the result.
void Hub::tell_all(const Message& message, const void* bytes) {
  for (size_t rank = members_.size(); rank-- > 0;) {
    if (members_[rank].here && !members_[rank].gone) send_parcel(members_[rank].fd.get(), message, bytes);
  }
}

}  // namespace lockstep::trainer::comm::fake
