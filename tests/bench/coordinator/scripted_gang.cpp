#include "tests/bench/coordinator/scripted_gang.h"

#include <fmt/format.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <random>
#include <utility>

#include "operator/rendezvous/protocol.h"
#include "tests/bench/coordinator/served_coordinator.h"

namespace lockstep::bench {

namespace asio = boost::asio;
namespace rv = rendezvous;
using boost::system::error_code;

// On one loop, which is its only thread.
class ScriptedAgent : public std::enable_shared_from_this<ScriptedAgent> {
 public:
  ScriptedAgent(ScriptedGang& gang, ScriptedGang::Loop& loop, int slot, ScriptedPod pod)
      : gang_(gang),
        loop_(loop),
        slot_(slot),
        pod_(std::move(pod)),
        timer_(loop.io),
        random_(static_cast<unsigned>(slot)) {}

  void connect() {
    if (gone_) return;
    welcomed_ = false;
    writing_ = false;
    to_write_.clear();
    frames_ = rv::FrameReader();
    stream_ = std::make_unique<Stream>(loop_.io, gang_.tls_);
    SSL_set1_host(stream_->native_handle(), rv::kCoordinatorServerName);
    const asio::ip::tcp::endpoint to(asio::ip::address_v4::loopback(), static_cast<unsigned short>(gang_.port_));
    stream_->lowest_layer().async_connect(to, [self = shared_from_this(), at = stream_.get()](error_code error) {
      if (error) return self->again(at);
      error_code ignored;
      self->stream_->lowest_layer().set_option(asio::ip::tcp::no_delay(true), ignored);
      at->async_handshake(asio::ssl::stream_base::client, [self, at](error_code failed) {
        if (failed) return self->again(at);
        self->hello();
        self->read();
      });
    });
  }

  void leave() {
    gone_ = true;
    timer_.cancel();
    error_code ignored;
    if (stream_) stream_->lowest_layer().close(ignored);
  }

 private:
  using Stream = asio::ssl::stream<asio::ip::tcp::socket>;

  // After a pause that grows, as of an agent; `at`: the connection that ended.
  void again(const Stream* at) {
    if (gone_ || at != stream_.get()) return;
    welcomed_ = false;  // a heartbeat whose time has come already would take the timer
    error_code ignored;
    stream_->lowest_layer().close(ignored);
    pause_ = std::min(pause_ == 0 ? 100 : 2 * pause_, 1000);
    timer_.expires_after(
        std::chrono::milliseconds(pause_ / 2 + static_cast<int>(random_() % static_cast<unsigned>(pause_))));
    timer_.async_wait([self = shared_from_this()](error_code error) {
      if (!error) self->connect();
    });
  }

  void hello() {
    rv::Hello hello;
    hello.name_space = kNamespace;
    hello.pod_name = pod_.name;
    hello.pod_uid = pod_.uid;
    hello.token = pod_.token;
    hello.slot = slot_;
    hello.incarnation = pod_.incarnation;
    hello.session = hello.pod_name;
    hello.phase = phase_;
    hello.generation = generation_;
    hello.up = hello.regroups = phase_ == rv::MemberPhase::kRunning;
    hello.promised = promised_;
    hello.life = generation_ > 0 ? 1 : 0;
    say(hello);
  }

  void heartbeat() {
    rv::Heartbeat beat;
    beat.sequence = ++sequence_;
    beat.phase = phase_;
    beat.generation = generation_;
    if (phase_ == rv::MemberPhase::kRunning) {
      beat.up = beat.regroups = true;
      if (gang_.failing_ < 0) ++step_;
      if (slot_ == 0) {
        beat.progress = rv::Progress{.step = step_,
                                     .total_steps = 1'000'000,
                                     .epoch = 0,
                                     .loss = 2.5,
                                     .samples_per_second = 1024.5,
                                     .eta_seconds = 3600};
      }
      rv::Activity activity;
      activity.generation = generation_;
      activity.doing = rv::Activity::Doing::kBackward;
      activity.step = step_;
      activity.sent = activity.received = step_ * 1000;
      beat.ranks = {{'R', 17, activity}};
    }
    say(beat);
    ++gang_.heartbeats_;
    if (const int failing = gang_.failing_;
        failing >= 0 && failing != slot_ && phase_ == rv::MemberPhase::kRunning && broke_ != generation_) {
      broke_ = generation_;
      say(rv::Broken{slot_, {generation_, failing, "the peer went away"}});
    }
    timer_.expires_after(every_);
    timer_.async_wait([self = shared_from_this()](error_code error) {
      if (!error && self->welcomed_) self->heartbeat();
    });
  }

  void say(const rv::AgentToCoordinator& message) {
    to_write_ += *rv::encode_frame(message);
    write();
  }

  void write() {
    if (writing_ || to_write_.empty()) return;
    writing_ = true;
    writes_ = std::exchange(to_write_, {});
    asio::async_write(*stream_, asio::buffer(writes_),
                      [self = shared_from_this(), at = stream_.get()](error_code error, std::size_t) {
                        if (error) return self->again(at);
                        if (at != self->stream_.get()) return;
                        self->writing_ = false;
                        self->write();
                      });
  }

  void read() {
    stream_->async_read_some(asio::buffer(buffer_),
                             [self = shared_from_this(), at = stream_.get()](error_code error, std::size_t length) {
                               if (error) return self->again(at);
                               self->gang_.bytes_ += static_cast<std::int64_t>(length);
                               self->frames_.feed({self->buffer_, length});
                               while (true) {
                                 const auto frame = self->frames_.next();
                                 if (!frame || !*frame) break;
                                 self->on_frame(**frame);
                               }
                               if (at == self->stream_.get()) self->read();
                             });
  }

  void on_frame(const std::string& frame) {
    if (frame.starts_with(R"({"type":"PEERS")") && !loop_.parts.insert(std::hash<std::string>()(frame)).second) return;
    const auto message = loop_.reader.decode(frame);
    if (message && *message) on(**message);
  }

  void on(const rv::CoordinatorToAgent& message) {
    if (const auto* welcome = std::get_if<rv::Welcome>(&message)) {
      every_ = std::chrono::milliseconds(welcome->heartbeat_ms);
      welcomed_ = true;
      pause_ = 0;
      heartbeat();
    } else if (const auto* propose = std::get_if<rv::Propose>(&message)) {
      promised_ = propose->id;
      phase_ = rv::MemberPhase::kReady;
      rv::Ready ready;
      ready.id = propose->id;
      ready.addresses = {fmt::format("10.{}.{}.7:{}", slot_ / 250, slot_ % 250, 20'000 + slot_ % 10'000)};
      if (step_ > 0) ready.holdings = {{generation_, step_, "00ff00ff00ff00ff"}};
      ready.host = "10.0.0.7";
      ready.master_port = 29'500;
      ready.life = 1;
      say(ready);
    } else if (const auto* go = std::get_if<rv::Go>(&message)) {
      generation_ = go->id.generation;
      phase_ = rv::MemberPhase::kRunning;
      step_ = go->source.rank >= 0 ? go->source.version.step : 0;
      ++gang_.started_;
      say(rv::Up{generation_, true, {}});
    }
  }

  ScriptedGang& gang_;
  ScriptedGang::Loop& loop_;
  const int slot_;
  const ScriptedPod pod_;
  asio::steady_timer timer_;
  std::minstd_rand random_;
  std::unique_ptr<Stream> stream_;
  rv::FrameReader frames_;
  char buffer_[4096] = {};
  std::string to_write_, writes_;
  bool writing_ = false, welcomed_ = false, gone_ = false;
  int pause_ = 0;  // milliseconds
  std::chrono::milliseconds every_{250};
  rv::MemberPhase phase_ = rv::MemberPhase::kIdle;
  rv::GenerationId promised_;
  std::int64_t generation_ = 0, sequence_ = 0, step_ = 0, broke_ = 0;
};

ScriptedGang::ScriptedGang(const std::vector<ScriptedPod>& pods, const std::string& ca_pem, int port)
    : tls_(asio::ssl::context::tls_client), port_(port) {
  tls_.add_certificate_authority(asio::buffer(ca_pem));
  tls_.set_verify_mode(asio::ssl::verify_peer);
  for (int i = 0; i < kThreads; ++i) loops_.push_back(std::make_unique<Loop>());
  for (const ScriptedPod& pod : pods) {
    const auto slot = static_cast<int>(agents_.size());
    Loop& loop = *loops_[static_cast<std::size_t>(slot % kThreads)];
    agents_.push_back(std::make_shared<ScriptedAgent>(*this, loop, slot, pod));
    asio::post(loop.io, [agent = agents_.back()] { agent->connect(); });
  }
  for (const auto& loop : loops_) {
    threads_.emplace_back([&io = loop->io] {
      const auto busy = asio::make_work_guard(io);
      io.run();
    });
  }
}

ScriptedGang::~ScriptedGang() {
  for (const auto& loop : loops_) loop->io.stop();
  for (std::thread& thread : threads_) thread.join();
  agents_.clear();
  loops_.clear();
}

void ScriptedGang::lose(int slot) {
  Loop& loop = *loops_[static_cast<std::size_t>(slot % kThreads)];
  asio::post(loop.io, [this, slot, agent = agents_[static_cast<std::size_t>(slot)]] {
    agent->leave();
    failing_ = slot;
  });
}

void ScriptedGang::replace(int slot, const ScriptedPod& pod) {
  failing_ = -1;
  Loop& loop = *loops_[static_cast<std::size_t>(slot % kThreads)];
  auto& agent = agents_[static_cast<std::size_t>(slot)];
  agent = std::make_shared<ScriptedAgent>(*this, loop, slot, pod);
  asio::post(loop.io, [agent] { agent->connect(); });
}

}  // namespace lockstep::bench
