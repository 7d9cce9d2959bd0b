#include "operator/kube/cpprest_transport.h"

#define _TURN_OFF_PLATFORM_STRING
#include <cpprest/http_client.h>
#include <cpprest/producerconsumerstream.h>
#include <fmt/format.h>
#include <openssl/ssl.h>
#include <pplx/threadpool.h>

#include <array>
#include <optional>

#include "operator/base/log.h"
#include "operator/kube/exchange.h"
#include "operator/kube/exchange_reader.h"
#include "operator/kube/proxy.h"
#include "operator/kube/status_error.h"
#include "operator/kube/tls_context.h"

namespace lockstep::kube {
namespace {

using web::http::client::http_client;
using web::http::client::http_client_config;

constexpr std::uint64_t kMaxPiece = std::uint64_t{256} << 20;  // one chunk; the library holds a chunk in memory

// Pieces of a response body go into the Exchange; every other operation of a stream buffer is refused.
class ExchangeBuffer final : public concurrency::streams::details::streambuf_state_manager<std::uint8_t> {
 public:
  explicit ExchangeBuffer(std::shared_ptr<Exchange> exchange)
      : streambuf_state_manager(std::ios_base::out), exchange_(std::move(exchange)) {}

  bool can_seek() const override { return false; }
  bool has_size() const override { return false; }
  std::size_t buffer_size(std::ios_base::openmode) const override { return 0; }
  void set_buffer_size(std::size_t, std::ios_base::openmode) override {}
  std::size_t in_avail() const override { return 0; }
  pos_type getpos(std::ios_base::openmode) const override { return no_position(); }
  pos_type seekpos(pos_type, std::ios_base::openmode) override { return no_position(); }
  pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override { return no_position(); }
  bool acquire(std::uint8_t*&, std::size_t&) override { return false; }
  void release(std::uint8_t*, std::size_t) override {}

  // The base class wraps _putn() so that a failure closes the stream and *waits* for that on a thread of the library.
  // With as many failures at once as it has threads, it is deadlocked. So neither may wait.
  pplx::task<std::size_t> putn_nocopy(const std::uint8_t* data, std::size_t size) override { return _putn(data, size); }
  using streambuf_state_manager::close;
  pplx::task<void> close(std::ios_base::openmode) override {
    m_stream_can_write = false;
    return pplx::task_from_result();
  }

 protected:
  // An exception that escapes from here ends the process, so every failure is reported through the task.
  pplx::task<std::size_t> _putn(const std::uint8_t* data, std::size_t size) override {
    pplx::task_completion_event<std::size_t> done;
    try {
      const auto taken = [done, size](bool wanted) {
        if (wanted) {
          done.set(size);
        } else {
          done.set_exception(std::runtime_error("the reader of this answer has left"));
        }
      };
      const auto at_once = exchange_->offer({reinterpret_cast<const char*>(data), size}, taken);
      if (at_once) taken(*at_once);
    } catch (...) {
      return pplx::task_from_exception<std::size_t>(std::current_exception());
    }
    return pplx::create_task(done);
  }
  pplx::task<int_type> _putc(std::uint8_t byte) override {
    return _putn(&byte, 1).then([byte](std::size_t) -> int_type { return byte; });
  }
  pplx::task<bool> _sync() override { return pplx::task_from_result(true); }
  std::uint8_t* _alloc(std::size_t) override { return nullptr; }
  void _commit(std::size_t) override {}
  pplx::task<int_type> _bumpc() override { return end(); }
  int_type _sbumpc() override { return traits::eof(); }
  pplx::task<int_type> _getc() override { return end(); }
  int_type _sgetc() override { return traits::eof(); }
  pplx::task<int_type> _nextc() override { return end(); }
  pplx::task<int_type> _ungetc() override { return end(); }
  pplx::task<std::size_t> _getn(std::uint8_t*, std::size_t) override { return pplx::task_from_result<std::size_t>(0); }
  std::size_t _scopy(std::uint8_t*, std::size_t) override { return 0; }

 private:
  static pos_type no_position() { return static_cast<pos_type>(traits::eof()); }
  static pplx::task<int_type> end() { return pplx::task_from_result<int_type>(traits::eof()); }

  const std::shared_ptr<Exchange> exchange_;
};

// The library starts 40 threads by default; none of this process's code blocks on them, so four are plenty. They may
// still close a connection when main() returns. exit() ends last what was initialised first: OpenSSL must be that.
void start_library() {
  static const bool once = [] {
    OPENSSL_init_ssl(0, nullptr);
    try {
      crossplat::threadpool::initialize_with_threads(4);
    } catch (const std::exception& error) {
      log::debug("the HTTP library's threads were started before", {{"error", error.what()}});
    }
    return true;
  }();
  static_cast<void>(once);
}

// From the library's exceptions to words for people, after "https://... does not answer: ".
Error describe(const std::exception_ptr& failure, const std::string& server) {
  try {
    std::rethrow_exception(failure);
  } catch (const web::http::http_exception& error) {
    const std::string what = error.what();
    const auto code = error.error_code();
    if (code == std::errc::timed_out) return fail(ErrorCode::kDeadlineExceeded, server + " did not answer in time");
    std::string why;
    if (what.find("SSL handshake") != what.npos) {
      why = handshake_failure(static_cast<unsigned long>(static_cast<unsigned>(code.value())));
    } else if (what.find("proxy") != what.npos) {
      why = "through the proxy: " + what;
    } else if (what.find("Failed to connect") != what.npos) {
      why = "connection refused, or no route to it";
    } else if (what.find("resolv") != what.npos) {
      why = "its name cannot be resolved";
    } else {
      return fail(ErrorCode::kUnavailable, fmt::format("the connection to {} broke: {}", server, what));
    }
    return fail(ErrorCode::kUnavailable, fmt::format("{} does not answer: {}", server, why));
  } catch (const std::exception& error) {
    return fail(ErrorCode::kUnavailable, fmt::format("the connection to {} broke: {}", server, error.what()));
  } catch (...) {
    return fail(ErrorCode::kInternal, fmt::format("the connection to {} broke in an unknown way", server));
  }
}

double retry_after(const web::http::http_headers& headers) {
  const auto it = headers.find("Retry-After");
  return it == headers.end() ? 0.0 : seconds_of_retry_after(it->second);
}

class CpprestTransport final : public Transport {
 public:
  CpprestTransport(const ClusterAccess& access, Proxy proxy) : access_(access), proxy_(std::move(proxy)) {}

  // Throws the library's exception for a URL that it does not accept.
  Status prepare() {
    LOCKSTEP_TRY(const auto token, access_.identity->token());
    static_cast<void>(token);
    const std::lock_guard guard(mutex_);
    return make_clients(access_.identity->certificate());
  }

  Result<Response> call(const Request& request) override {
    return collect(request, access_.server,
                   [&](const auto& on_data) { return run(request, on_data, {}, Duration::zero()); });
  }

  Result<Response> stream(const Request& request, const std::function<bool(std::string_view)>& on_data,
                          std::stop_token stop) override {
    return run(request, on_data, std::move(stop), request.idle_deadline);
  }

 private:
  // One http_client per lane: each has its own pool of connections.
  Status make_clients(const ClientCertificate& certificate) {
    LOCKSTEP_CHECK_OK(check_certificate(certificate));
    http_client_config config;
    if (access_.insecure) config.set_validate_certificates(false);
    if (!proxy_.url.empty()) {
      web::web_proxy proxy{web::uri(proxy_.url)};
      if (!proxy_.user.empty()) proxy.set_credentials(web::credentials(proxy_.user, proxy_.password));
      config.set_proxy(proxy);
    }
    config.set_ssl_context_callback([access = access_, certificate](boost::asio::ssl::context& context) {
      // Called for each new connection on a thread of the library: it must not throw.
      if (const auto done = set_up_tls(context.native_handle(), access, certificate); !done) {
        log::error(done.error().message);
      }
    });
    for (std::size_t lane = 0; lane < clients_.size(); ++lane) {
      // This file enforces the deadlines. The library's idle timer, which also runs while the consumer is slow, is only
      // the last resort behind them.
      config.set_timeout(lane == static_cast<std::size_t>(Lane::kWatch) ? std::chrono::seconds(7200)
                                                                        : std::chrono::seconds(600));
      clients_[lane] = std::make_shared<http_client>(web::uri(access_.server), config);
    }
    certificate_ = certificate;
    return {};
  }

  Result<std::shared_ptr<http_client>> client(Lane lane) {
    const std::lock_guard guard(mutex_);
    const ClientCertificate now = access_.identity->certificate();
    if (!(now == certificate_)) LOCKSTEP_CHECK_OK(make_clients(now));
    return clients_[static_cast<std::size_t>(lane)];
  }

  web::http::http_request make_request(const Request& request, const std::shared_ptr<Exchange>& exchange) const {
    web::http::http_request made(request.method);
    made.set_request_uri(web::uri(request.target));
    made.headers().add("Accept", request.accept);
    if (!request.authorization.empty()) made.headers().add("Authorization", request.authorization);
    // The library verifies the certificate against the Host header, and sends it as SNI.
    if (!access_.server_name.empty()) made.headers().add("Host", access_.server_name);
    if (!request.body.empty()) {
      // From a stream that cannot be rewound. Otherwise the library sends a POST again when a pooled connection turns
      // out to be dead, though the server may have acted on the first.
      concurrency::streams::producer_consumer_buffer<std::uint8_t> body;
      body.putn_nocopy(reinterpret_cast<const std::uint8_t*>(request.body.data()), request.body.size()).wait();
      body.close(std::ios_base::out).wait();
      made.set_body(body.create_istream(), request.body.size(), request.content_type);
    }
    const auto buffer = std::make_shared<ExchangeBuffer>(exchange);
    made.set_response_stream(
        concurrency::streams::streambuf<std::uint8_t>(
            std::static_pointer_cast<concurrency::streams::details::basic_streambuf<std::uint8_t>>(buffer))
            .create_ostream());
    // The library reads the length of a chunk into an int and passes it on unchecked. A negative one would make it read
    // beyond its buffer. Throwing here, before it does, ends the exchange with an error.
    made.set_progress_handler(
        [last = std::uint64_t{0}](web::http::message_direction::direction direction, std::uint64_t total) mutable {
          if (direction != web::http::message_direction::download) return;
          if (total < last || total - last > kMaxPiece) throw std::runtime_error("a chunk of impossible size");
          last = total;
        });
    return made;
  }

  // Sends the request, and reports to `exchange` from the library's threads; no task is left without an observer.
  static void start(http_client& client, const web::http::http_request& request, const std::string& server,
                    const std::shared_ptr<Exchange>& exchange, const pplx::cancellation_token& cancel) {
    client.request(request, cancel).then([exchange, server](const pplx::task<web::http::http_response>& headers) {
      try {
        web::http::http_response response = headers.get();
        exchange->set_head({response.status_code(), retry_after(response.headers())});
        response.content_ready().then([exchange, server](const pplx::task<web::http::http_response>& body) {
          try {
            body.get();
            exchange->finish(std::nullopt);
          } catch (...) {
            exchange->finish(describe(std::current_exception(), server));
          }
        });
      } catch (...) {
        exchange->finish(describe(std::current_exception(), server));
      }
    });
  }

  // `idle` zero: request.deadline covers everything.
  Result<Response> run(const Request& request, const std::function<bool(std::string_view)>& on_data,
                       std::stop_token stop, Duration idle) {
    const auto exchange = std::make_shared<Exchange>(idle == Duration::zero());
    pplx::cancellation_token_source cancel;
    // On every way out: the library no longer refers to this exchange, and its connection is closed unless it has
    // ended.
    struct Leave {
      Exchange& exchange;
      pplx::cancellation_token_source& cancel;
      bool ended = false;
      ~Leave() {
        if (ended) return;
        try {
          cancel.cancel();
        } catch (const std::exception& error) {
          log::warn("an HTTP exchange could not be cancelled", {{"error", error.what()}});
        }
        exchange.abandon();
        exchange.wait_finished(std::chrono::steady_clock::now() + std::chrono::seconds(2));
      }
    } leave{*exchange, cancel};

    try {
      LOCKSTEP_TRY(const auto http, client(request.lane));
      start(*http, make_request(request, exchange), access_.server, exchange, cancel.get_token());
    } catch (const std::exception& error) {
      leave.ended = true;
      return fail(ErrorCode::kInvalid,
                  fmt::format("{} {} cannot be sent: {}", request.method, request.target.substr(0, 200), error.what()));
    }

    auto read = read_exchange(*exchange, request, access_.server, on_data, stop, idle);
    leave.ended = read.ended;
    return std::move(read.response);
  }

  const ClusterAccess access_;
  const Proxy proxy_;
  std::mutex mutex_;  // protects what follows
  std::array<std::shared_ptr<http_client>, kLanes> clients_;
  ClientCertificate certificate_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_cpprest_transport(const ClusterAccess& access, const Environment& environment) {
  if (access.server.find("://[") != access.server.npos) {
    return fail(ErrorCode::kInvalid,
                fmt::format("the server {} is an IPv6 address: name it by a host name that its certificate holds",
                            access.server));
  }
  LOCKSTEP_TRY(auto proxy, proxy_for(access.server, access.proxy, environment));
  start_library();
  try {
    auto transport = std::make_unique<CpprestTransport>(access, std::move(proxy));
    LOCKSTEP_CHECK_OK(transport->prepare());
    return std::unique_ptr<Transport>(std::move(transport));
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInvalid, fmt::format("the server {} cannot be used: {}", access.server, error.what()));
  }
}

}  // namespace lockstep::kube
