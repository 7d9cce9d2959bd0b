// A peer that plays exactly the bytes that a test wants, over plain TCP or TLS. So it shows failures that a real API
// server does not show on demand. It knows only enough HTTP to find the end of a request.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::kube::testing {

struct SeenRequest {
  int connection = 0;  // from 0
  std::string method, target, head, body;

  // The value of a header; "" if it is missing.
  std::string header(const std::string& name) const {
    std::string lower_head = head, lower_name = "\n" + name + ":";
    const auto lower = [](std::string& text) {
      std::transform(text.begin(), text.end(), text.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    };
    lower(lower_head);
    lower(lower_name);
    const auto at = lower_head.find(lower_name);
    if (at == std::string::npos) return "";
    auto start = at + lower_name.size();
    while (start < head.size() && head[start] == ' ') ++start;
    return head.substr(start, head.find('\r', start) - start);
  }
};

// One accepted connection, on a thread of its own.
class Peer {
 public:
  Peer(int fd, int number, SSL* ssl) : fd_(fd), number_(number), ssl_(ssl) {}
  ~Peer() {
    if (ssl_ != nullptr) SSL_free(ssl_);
    if (fd_ >= 0) ::close(fd_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int number() const { return number_; }

  // The next request; nullopt if the other side has closed.
  std::optional<SeenRequest> read_request() {
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more()) return std::nullopt;
    }
    SeenRequest request;
    request.connection = number_;
    request.head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    const auto space = request.head.find(' ');
    request.method = request.head.substr(0, space);
    request.target = request.head.substr(space + 1, request.head.find(' ', space + 1) - space - 1);
    const auto length = static_cast<std::size_t>(std::atol(request.header("Content-Length").c_str()));
    while (buffer_.size() < length) {
      if (!read_more()) return std::nullopt;
    }
    request.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return request;
  }

  // What comes next, without a meaning; "" if the other side has closed.
  std::string read_some() {
    if (buffer_.empty() && !read_more()) return "";
    return std::exchange(buffer_, "");
  }
  // False if the other side has closed.
  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count = std::min<std::size_t>(bytes.size(), 1 << 20);
      const long sent = ssl_ != nullptr ? SSL_write(ssl_, bytes.data(), static_cast<int>(count))
                                        : ::send(fd_, bytes.data(), count, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      written_ += sent;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  bool answer(int status, std::string_view body, const std::string& headers = "") {
    return write("HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: application/json\r\n" + headers +
                 "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
  }
  bool begin_chunks() {
    return write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  }
  bool chunk(std::string_view data) {
    char size[32];
    std::snprintf(size, sizeof size, "%zx\r\n", data.size());
    return write(std::string(size) + std::string(data) + "\r\n");
  }
  bool end_chunks() { return write("0\r\n\r\n"); }
  // Ends the connection with a reset instead of an orderly close.
  void reset() {
    const linger now{1, 0};
    const std::lock_guard guard(fd_mutex_);
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(fd_);
    fd_ = -1;
  }
  // Waits until the other side closes; false after `patience`.
  bool wait_closed(std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (true) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd ready{fd_, POLLIN, 0};
      if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) <= 0) return false;
      if (!read_more()) return true;
    }
  }
  long written() const { return written_; }
  // From another thread than the peer's own.
  void hang_up() {
    const std::lock_guard guard(fd_mutex_);
    if (fd_ >= 0) shutdown(fd_, SHUT_RDWR);
  }
  SSL* ssl() { return ssl_; }

 private:
  bool read_more() {
    char bytes[65536];
    const long got = ssl_ != nullptr ? SSL_read(ssl_, bytes, sizeof bytes) : ::recv(fd_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }

  std::mutex fd_mutex_;  // for closing it, and for using it from another thread
  int fd_;
  const int number_;
  SSL* ssl_;
  std::string buffer_;
  std::atomic<long> written_ = 0;
};

class ScriptedServer {
 public:
  // Plays one connection; it is closed when the script returns.
  using Script = std::function<void(Peer&)>;

  // `tls`: a server context, which outlives this; null for plain TCP.
  explicit ScriptedServer(Script script, SSL_CTX* tls = nullptr) : script_(std::move(script)), tls_(tls) {
    signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to a socket that the client has closed as if it were a pipe
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 64) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw std::runtime_error("no scripted server");
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~ScriptedServer() {
    {
      const std::lock_guard guard(mutex_);
      stop_ = true;
      for (const auto& peer : peers_) peer->hang_up();
    }
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
    ::close(listener_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  int port() const { return port_; }
  std::string url(const std::string& host = "127.0.0.1") const {
    return (tls_ != nullptr ? "https://" : "http://") + host + ":" + std::to_string(port_);
  }
  int connections() const {
    const std::lock_guard guard(mutex_);
    return static_cast<int>(peers_.size());
  }
  // Bytes of all connections.
  long written() const {
    const std::lock_guard guard(mutex_);
    long sum = 0;
    for (const auto& peer : peers_) sum += peer->written();
    return sum;
  }

 private:
  void accept_all() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      SSL* ssl = nullptr;
      if (tls_ != nullptr) {
        ssl = SSL_new(tls_);
        SSL_set_fd(ssl, fd);
      }
      const std::lock_guard guard(mutex_);
      peers_.push_back(std::make_unique<Peer>(fd, static_cast<int>(peers_.size()), ssl));
      Peer* peer = peers_.back().get();
      if (stop_) return;
      threads_.emplace_back([this, peer] {
        if (peer->ssl() != nullptr && SSL_accept(peer->ssl()) <= 0) {
          peer->hang_up();
          return;
        }
        script_(*peer);
        peer->hang_up();
      });
    }
  }

  const Script script_;
  SSL_CTX* const tls_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;  // protects what follows
  bool stop_ = false;
  std::list<std::unique_ptr<Peer>> peers_;
  std::vector<std::thread> threads_;  // grown by the acceptor, joined after it
  std::thread acceptor_;
};

}  // namespace lockstep::kube::testing
