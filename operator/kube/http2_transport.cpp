#include "operator/kube/http2_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "operator/base/log.h"
#include "operator/base/number.h"
#include "operator/base/thread.h"
#include "operator/kube/exchange.h"
#include "operator/kube/exchange_reader.h"
#include "operator/kube/http2_connection.h"
#include "operator/kube/proxy.h"
#include "operator/kube/server_url.h"
#include "operator/kube/tls_context.h"

namespace lockstep::kube {
namespace {

namespace asio = boost::asio;

constexpr int kMostAttempts = 3;  // of a request that the server does not look at

// The connections of a lane.
struct Pool {
  struct Member {
    std::shared_ptr<Http2Connection> connection;
    ClientCertificate certificate;  // that it has shown
  };
  std::size_t most = 0;  // further requests wait until others end
  std::list<Member> members{};
};

// A request on its way. The caller reads its exchange; everything else is the I/O thread's.
class Call final : public Http2Receiver, public std::enable_shared_from_this<Call> {
 public:
  Call(const Request& asked, bool whole, ClientCertificate shown, asio::io_context& io)
      : request(asked), exchange(whole), certificate(std::move(shown)), io_(io) {}

  void on_head(int status, double retry_after_seconds) override { exchange.set_head({status, retry_after_seconds}); }

  bool on_data(std::string_view piece) override {
    const auto taken = [call = weak_from_this()](bool wanted) {
      if (const auto self = call.lock(); self && wanted) asio::post(self->io_, [self] { self->open_window(); });
    };
    const bool more = exchange.offer(piece, taken).value_or(false);
    if (!more) refused_ += piece.size();
    return more;
  }

  void end(std::optional<Error> failure) {
    ended = true;
    connection.reset();
    exchange.finish(std::move(failure));
  }

  const Request& request;  // of the caller, who stays until the exchange has ended
  Exchange exchange;
  const ClientCertificate certificate;
  std::atomic<bool> not_http2 = false;  // the server does not offer it, and has not seen the request
  int attempts = 0;
  bool ended = false;
  std::shared_ptr<Http2Connection> connection;
  Http2Connection::Ticket ticket = 0;

 private:
  void open_window() {
    if (connection) connection->consumed(ticket, std::exchange(refused_, 0));
  }

  asio::io_context& io_;
  std::size_t refused_ = 0;  // bytes that keep the stream's window closed
};

class Http2Transport final : public Transport {
 public:
  Http2Transport(std::unique_ptr<Transport> rest, const ClusterAccess& access, Http2Server server, Http2Options options)
      : rest_(std::move(rest)), access_(access), server_(std::move(server)), options_(options) {
    thread_ = start_without_signals([this] { run(); });
  }

  ~Http2Transport() override {
    asio::post(io_, [this] {
      for (Pool* pool : {&bulk_, &watches_}) {
        while (!pool->members.empty()) pool->members.front().connection->close(fail(ErrorCode::kCancelled, "it ends"));
      }
      io_.stop();
    });
    thread_.join();
  }

  Result<Response> call(const Request& request) override {
    if (!is_mine(request)) return rest_->call(request);
    bool not_http2 = false;
    auto response = collect(request, server_.url, [&](const OnData& on_data) {
      return exchange(request, on_data, {}, Duration::zero(), not_http2);
    });
    return not_http2 ? rest_->call(request) : response;
  }

  Result<Response> stream(const Request& request, const OnData& on_data, std::stop_token stop) override {
    if (!is_mine(request)) return rest_->stream(request, on_data, std::move(stop));
    bool not_http2 = false;
    auto response = exchange(request, on_data, stop, request.idle_deadline, not_http2);
    return not_http2 ? rest_->stream(request, on_data, std::move(stop)) : response;
  }

 private:
  static std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

  bool is_mine(const Request& request) const {
    return (request.lane == Lane::kBulk || request.lane == Lane::kWatch) && now() >= http1_until_;
  }

  // `idle` zero: request.deadline covers everything.
  Result<Response> exchange(const Request& request, const OnData& on_data, const std::stop_token& stop, Duration idle,
                            bool& not_http2) {
    const auto call = std::make_shared<Call>(request, idle == Duration::zero(), access_.identity->certificate(), io_);
    asio::post(io_, [this, call] { start(call); });
    // On every way out: the I/O thread, which blocks nowhere, has forgotten `request`, which is the caller's.
    struct Leave {
      asio::io_context& io;
      const std::shared_ptr<Call>& call;
      bool ended = false;
      std::optional<MonotonicTime> silent_since{};
      ~Leave() {
        if (ended) return;
        asio::post(io, [call = call, since = silent_since] { abandon(*call, since); });
        call->exchange.abandon();
        call->exchange.wait_finished(MonotonicTime::max());
      }
    } leave{io_, call};
    auto read = read_exchange(call->exchange, request, server_.url, on_data, stop, idle);
    leave.ended = read.ended;
    leave.silent_since = read.silent_since;
    not_http2 = read.ended && call->not_http2;
    if (not_http2 && http1_until_.exchange(now() + options_.http1_again.count()) < now()) {
      log::info("the API server offers no HTTP/2: each request has a connection", {{"server", server_.url}});
    }
    return std::move(read.response);
  }

  // Everything below is of the I/O thread.

  void run() {
    const auto work = asio::make_work_guard(io_);
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception& error) {
        log::error("a step of the HTTP/2 client failed", {{"error", error.what()}});
      }
    }
  }

  void start(const std::shared_ptr<Call>& call) {
    if (call->ended) return;  // abandoned
    ++call->attempts;
    auto connection = choose(call->request.lane == Lane::kBulk ? bulk_ : watches_, call->certificate);
    if (!connection) return call->end(connection.error());
    call->connection = *connection;
    call->ticket = (*connection)->send(call->request, *call, [this, call](const Http2Connection::End& how) {
      switch (how.kind) {
        case Http2Connection::End::Kind::kWhole:
          return call->end(std::nullopt);
        case Http2Connection::End::Kind::kUnprocessed:
          if (call->attempts < kMostAttempts) return asio::post(io_, [this, call] { start(call); });
          return call->end(fail(ErrorCode::kUnavailable, server_.url + " takes no request: it ends its connections"));
        case Http2Connection::End::Kind::kNotHttp2:
          call->not_http2 = true;
          return call->end(std::nullopt);
        case Http2Connection::End::Kind::kBroken:
          return call->end(how.error);
      }
    });
  }

  static void abandon(Call& call, std::optional<MonotonicTime> silent_since) {
    if (call.ended) return;
    if (call.connection) call.connection->cancel(call.ticket, silent_since);
    call.end(std::nullopt);
  }

  // A connection with room; a new one if there is none and few exist; else the one with the fewest requests.
  Result<std::shared_ptr<Http2Connection>> choose(Pool& pool, const ClientCertificate& certificate) {
    std::shared_ptr<Http2Connection> least;
    std::size_t usable = 0;
    const auto members = pool.members;  // retire() takes members out
    for (const Pool::Member& member : members) {
      if (!(member.certificate == certificate)) {
        member.connection->retire();
        continue;
      }
      if (!member.connection->takes_more()) continue;
      usual_streams_ = member.connection->most_streams().value_or(usual_streams_);
      if (member.connection->has_room(usual_streams_)) return member.connection;
      ++usable;
      if (!least || member.connection->load() < least->load()) least = member.connection;
    }
    if (usable >= pool.most) return least;
    return open(pool, certificate);
  }

  Result<std::shared_ptr<Http2Connection>> open(Pool& pool, const ClientCertificate& certificate) {
    asio::ssl::context tls(asio::ssl::context::tls_client);
    if (access_.ca_pem.empty() && access_.ca_file.empty()) tls.set_default_verify_paths();
    if (const auto done = set_up_tls(tls.native_handle(), access_, certificate); !done) {
      return fail(ErrorCode::kUnavailable, fmt::format("{} cannot be asked: {}", server_.url, done.error().message));
    }
    const auto connection = std::make_shared<Http2Connection>(io_, server_, std::move(tls), options_.rest);
    pool.members.push_back({connection, certificate});
    connection->open([&pool](const std::shared_ptr<Http2Connection>& gone) {
      std::erase_if(pool.members, [&gone](const Pool::Member& member) { return member.connection == gone; });
    });
    return connection;
  }

  const std::unique_ptr<Transport> rest_;
  const ClusterAccess access_;
  const Http2Server server_;
  const Http2Options options_;
  std::atomic<std::int64_t> http1_until_ = 0;  // of the steady clock: the server offers no HTTP/2
  asio::io_context io_{1};
  Pool bulk_{.most = 4};
  Pool watches_{.most = 64};         // a log that is followed counts as a watch
  std::size_t usual_streams_ = 100;  // of a connection, as the server said last
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Transport>> with_http2(std::unique_ptr<Transport> rest, const ClusterAccess& access,
                                              const Environment& environment, Http2Options options) {
  LOCKSTEP_TRY(const auto proxy, proxy_for(access.server, access.proxy, environment));
  if (!proxy.url.empty() || !access.server.starts_with("https://")) return rest;
  const auto [host, port] = host_port(access.server);
  LOCKSTEP_TRY(const auto number, parse_number<std::uint16_t>(port.empty() ? "443" : port, 1));
  Http2Server server{.url = access.server,
                     .host = host,
                     .port = number,
                     .prefix = url_path(access.server),
                     .server_name = access.server_name.empty() ? host : access.server_name,
                     .insecure = access.insecure};
  return std::unique_ptr<Transport>(
      std::make_unique<Http2Transport>(std::move(rest), access, std::move(server), options));
}

}  // namespace lockstep::kube
