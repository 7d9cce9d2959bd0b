// The coordinator as a server: TLS connections, one CoordinatorState per job, and the threads that carry out what the
// state machines ask for. One io thread owns everything but the views; the store and the authenticator block, and
// each has a thread of its own.
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cerrno>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "operator/base/log.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/coordinator_state.h"
#include "operator/rendezvous/session.h"

namespace lockstep::rendezvous {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kMaxConnections = 20'000;
constexpr std::size_t kMaxStrangers = 1'024;    // connections whose sender is not known yet
constexpr std::size_t kMaxTokenChecks = 4'096;  // waiting for the authenticator
constexpr int kAcceptsAtOnce = 64;              // before the io thread does other work
constexpr auto kAcceptAgainAfter = std::chrono::milliseconds(100);
constexpr Duration kProgressEvery = std::chrono::seconds(1);

std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

std::string random_key() {
  unsigned char bytes[32];
  // Without randomness there is no key that others could not guess, and nothing sensible to go on with.
  if (RAND_bytes(bytes, sizeof bytes) != 1) std::abort();
  return hexadecimal(bytes, sizeof bytes);
}

std::string digest(const std::string& text) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  if (EVP_Digest(text.data(), text.size(), bytes, &length, EVP_sha256(), nullptr) != 1) return "";
  return hexadecimal(bytes, length);
}

// The part of a pod's name that its later incarnations share: "<job>-<uid>" of "<job>-<uid>-<slot>-<incarnation>".
std::string pod_base(const std::string& name_space, const std::string& pod, int slot, std::int64_t incarnation) {
  const std::string tail = fmt::format("-{}-{}", slot, incarnation);
  const bool ours = pod.size() > tail.size() && pod.compare(pod.size() - tail.size(), tail.size(), tail) == 0;
  return name_space + "/" + (ours ? pod.substr(0, pod.size() - tail.size()) : pod);
}

Result<std::shared_ptr<asio::ssl::context>> tls_context(const KeyPair& serving) {
  const auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  try {
    context->use_certificate_chain(asio::buffer(serving.certificate_pem));
    context->use_private_key(asio::buffer(serving.private_key_pem), asio::ssl::context::pem);
  } catch (const boost::system::system_error& error) {
    return fail(ErrorCode::kInvalid, fmt::format("the coordinator's serving certificate: {}", error.what()));
  }
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_3_VERSION);
  SSL_CTX_set_num_tickets(context->native_handle(), 0);
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  return context;
}

class CoordinatorServer final : public Coordinator {
 public:
  CoordinatorServer(const CoordinatorOptions& options, GenerationStore& store, MemberAuthenticator& authenticator,
                    Clock& clock, OnViewChange on_change)
      : options_(options),
        store_(store),
        authenticator_(authenticator),
        clock_(clock),
        on_change_(std::move(on_change)),
        acceptor_(io_),
        accept_again_(io_) {
    events_.on_message = [this](Session& session, const AgentToCoordinator& message) { on_message(session, message); };
    events_.on_closed = [this](Session& session) { on_closed(session); };
    events_.read_within = options_.read_within;
  }

  ~CoordinatorServer() override {
    io_.stop();
    if (io_thread_.joinable()) io_thread_.join();
    store_thread_.stop();
    token_thread_.stop();
    store_thread_.join();
    token_thread_.join();
  }

  Status start() {
    if (options_.certificate_pem.empty() || options_.private_key_pem.empty()) {
      return fail(ErrorCode::kInvalid, "the coordinator needs a serving certificate and its key");
    }
    LOCKSTEP_TRY(tls_, tls_context({options_.certificate_pem, options_.private_key_pem}));

    error_code error;
    const auto ip = asio::ip::make_address(options_.listen_address, error);
    if (error) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("the coordinator's listen address {} is not an IP address", options_.listen_address));
    }
    const tcp::endpoint endpoint(ip, static_cast<unsigned short>(options_.port));
    // Asio would make descriptors that children inherit: an agent started by this process would keep them open.
    const int listener = ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) {
      error = error_code(errno, boost::system::system_category());
    } else {
      acceptor_.assign(endpoint.protocol(), listener, error);
    }
    if (!error) acceptor_.non_blocking(true, error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return fail(ErrorCode::kUnavailable, fmt::format("the coordinator cannot listen on {}:{}: {}",
                                                       options_.listen_address, options_.port, error.message()));
    }
    const tcp::endpoint bound = acceptor_.local_endpoint();
    const std::string bound_ip = bound.address().to_string();
    address_ = fmt::format("{}:{}", bound.address().is_v6() ? fmt::format("[{}]", bound_ip) : bound_ip, bound.port());
    accept();
    io_thread_ = std::thread([this] { io_.run(); });
    return {};
  }

  void set_job(const JobPlan& plan) override {
    asio::post(io_, [this, plan] { set_job_here(plan); });
  }
  void forget_job(const std::string& uid) override {
    asio::post(io_, [this, uid] { forget_here(uid); });
  }
  std::optional<JobView> view(const std::string& uid) const override {
    const std::lock_guard guard(mutex_);
    const auto at = views_.find(uid);
    return at == views_.end() ? std::nullopt : std::optional(at->second);
  }
  std::string address() const override { return address_; }
  Status use_certificate(const KeyPair& serving) override {
    LOCKSTEP_TRY(auto context, tls_context(serving));
    asio::post(io_, [this, made = std::move(context)] { tls_ = made; });
    return {};
  }

 private:
  struct Job {
    Job(asio::io_context& io, std::int64_t term, const CoordinatorTiming& timing, Now now)
        : state(term, timing, random_key, now), timer(io) {}
    JobPlan plan;
    CoordinatorState state;
    asio::steady_timer timer;
    MonotonicTime waits_until{};  // when `timer` ends
    std::uint64_t serial = 0;                   // tells a job from one of the same uid that was forgotten
    std::vector<std::string> pods;              // keys of job_of_pod_
    std::map<std::string, std::string> tokens;  // digest of the token that was found good, by pod uid
    std::optional<JobView> shown;
    bool progress_to_tell = false;
    MonotonicTime progress_told{};
  };

  Now now() const { return {clock_.now(), clock_.wall_now(), !options_.leads || options_.leads()}; }

  Job* find_job(const std::string& uid, std::uint64_t serial = 0) {
    const auto at = jobs_.find(uid);
    if (at == jobs_.end() || (serial != 0 && at->second->serial != serial)) return nullptr;
    return at->second.get();
  }
  Session* find_session(SessionId id) {
    const auto at = sessions_.find(id);
    return at == sessions_.end() ? nullptr : at->second.get();
  }

  // ---- jobs ----

  void set_job_here(const JobPlan& plan) {
    Job* job = find_job(plan.uid);
    if (job != nullptr && job->plan == plan) return;
    if (job == nullptr) {
      CoordinatorTiming timing;
      timing.silent_after = options_.heartbeat_timeout;
      auto made = std::make_unique<Job>(io_, options_.term, timing, now());
      made->serial = ++last_serial_;
      job = made.get();
      jobs_[plan.uid] = std::move(made);
    }
    job->plan = plan;
    for (const std::string& pod : job->pods) job_of_pod_.erase(pod);
    job->pods.clear();
    std::map<std::string, std::string> tokens;
    for (const ExpectedMember& member : plan.members) {
      job->pods.push_back(pod_base(plan.name_space, member.pod_name, member.slot, member.incarnation));
      job_of_pod_[job->pods.back()] = plan.uid;
      if (const auto at = job->tokens.find(member.pod_uid); at != job->tokens.end()) tokens.insert(*at);
    }
    job->tokens = std::move(tokens);
    job->state.on_plan(plan, now());
    carry_out(*job);
  }

  void forget_here(const std::string& uid) {
    Job* job = find_job(uid);
    if (job == nullptr) return;
    std::vector<std::shared_ptr<Session>> theirs;
    for (const auto& [id, session] : sessions_) {
      if (session->job_uid == uid) theirs.push_back(session);
    }
    for (const std::string& pod : job->pods) job_of_pod_.erase(pod);
    jobs_.erase(uid);
    {
      const std::lock_guard guard(mutex_);
      views_.erase(uid);
    }
    for (const auto& session : theirs) session->finish();
  }

  // Does what the job's state machine asks for, until it asks for nothing.
  void carry_out(Job& job) {
    if (const Duration held_up = job.state.take_held_up(); held_up > Duration::zero()) {
      log::warn("the coordinator was held up: no silence until now counts; has its node enough CPU?",
                {{"job", job.plan.name_space + "/" + job.plan.name},
                 {"milliseconds", fmt::to_string(milliseconds(held_up))}});
    }
    for (const CoordinatorAction& action : job.state.take_actions()) {
      if (const auto* out = std::get_if<SendToMember>(&action)) {
        if (Session* session = find_session(out->session)) session->send(out->message);
      } else if (const auto* closing = std::get_if<CloseSession>(&action)) {
        if (Session* session = find_session(closing->session)) {
          session->joined = false;  // the state machine does not want to hear of it any more
          log::info("an agent's connection is closed", {{"pod", session->pod}});
          session->finish();
        }
      } else if (std::holds_alternative<LoadRecord>(action)) {
        asio::post(store_thread_, [this, uid = job.plan.uid, serial = job.serial, name_space = job.plan.name_space,
                                   name = job.plan.name] {
          auto loaded = store_.load(name_space, name, uid);
          asio::post(io_, [this, uid, serial, loaded = std::move(loaded)] {
            if (Job* found = find_job(uid, serial)) {
              found->state.on_loaded(loaded, now());
              carry_out(*found);
            }
          });
        });
      } else if (const auto* writing = std::get_if<WriteRecord>(&action)) {
        asio::post(store_thread_, [this, uid = job.plan.uid, serial = job.serial, name_space = job.plan.name_space,
                                   name = job.plan.name, write = *writing] {
          auto written = store_.compare_and_set(name_space, name, uid, write.version, write.next);
          asio::post(io_, [this, uid, serial, written = std::move(written)] {
            if (Job* found = find_job(uid, serial)) {
              found->state.on_written(written, now());
              carry_out(*found);
            }
          });
        });
      }
    }
    show(job);
    wait_for_tick(job);
  }

  void wait_for_tick(Job& job) {
    if (job.waits_until == job.state.deadline()) return;
    job.waits_until = job.state.deadline();
    const Duration wait = std::max<Duration>(std::chrono::milliseconds(1), job.state.deadline() - clock_.now());
    job.timer.expires_after(wait);
    job.timer.async_wait([this, uid = job.plan.uid, serial = job.serial](error_code error) {
      Job* found = error ? nullptr : find_job(uid, serial);
      if (found == nullptr) return;
      found->waits_until = {};
      found->state.on_tick(now());
      carry_out(*found);
    });
  }

  // Publishes the view and tells the controller, at most once a second for progress alone.
  void show(Job& job) {
    if (job.state.take_progress_changed()) job.progress_to_tell = true;
    const bool changed = job.state.take_changed();
    if (!changed && !job.progress_to_tell) return;
    const bool progress_due = job.progress_to_tell && clock_.now() - job.progress_told >= kProgressEvery;
    if (!changed && !progress_due) return;
    std::optional<JobView> view = job.state.view();
    if (!view) return;
    bool tell = progress_due;
    if (!tell) {
      JobView compared = *view;
      if (job.shown) {
        compared.progress = job.shown->progress;
        compared.newest_checkpoint = job.shown->newest_checkpoint;
      }
      tell = !job.shown || compared != *job.shown;
    }
    job.shown = view;
    {
      const std::lock_guard guard(mutex_);
      views_[job.plan.uid] = std::move(*view);
    }
    if (!tell) return;
    job.progress_to_tell = false;
    job.progress_told = clock_.now();
    if (on_change_) on_change_(job.plan.name_space, job.plan.name);
  }

  // ---- connections ----

  void accept() {
    acceptor_.async_wait(tcp::acceptor::wait_read, [this](error_code error) {
      if (error) return;
      for (int i = 0; i < kAcceptsAtOnce; ++i) {
        const int fd = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
          return accept_later();  // some will be closed soon
        }
        if (fd < 0) break;
        welcome(fd);
      }
      accept();
    });
  }

  void accept_later() {
    accept_again_.expires_after(kAcceptAgainAfter);
    accept_again_.async_wait([this](error_code stopped) {
      if (!stopped) accept();
    });
  }

  void welcome(int fd) {
    error_code error;
    tcp::socket socket(io_);
    socket.assign(acceptor_.local_endpoint().protocol(), fd, error);
    if (error) ::close(fd);
    if (error || sessions_.size() >= kMaxConnections) return;
    if (strangers_.size() >= kMaxStrangers) {
      // The oldest had the most time: who only holds a place must not keep others out.
      if (Session* oldest = find_session(strangers_.front()))
        oldest->close("it had not said who it is when others came");
    }
    const SessionId id = ++last_session_;
    const auto session = std::make_shared<Session>(id, std::move(socket), *tls_, events_);
    sessions_[id] = session;
    stranger_at_[id] = strangers_.insert(strangers_.end(), id);
    session->start();
  }

  void no_stranger(SessionId id) {
    if (const auto at = stranger_at_.find(id); at != stranger_at_.end()) {
      strangers_.erase(at->second);
      stranger_at_.erase(at);
    }
  }

  void on_closed(Session& session) {
    no_stranger(session.id());
    const std::shared_ptr<Session> alive = session.shared_from_this();
    sessions_.erase(session.id());
    if (!session.joined) return log::debug("a connection ended", {{"pod", session.pod}, {"why", session.why()}});
    log::info("an agent's connection ended", {{"pod", session.pod}, {"why", session.why()}});
    if (Job* job = find_job(session.job_uid)) {
      job->state.on_disconnected(session.id(), now());
      carry_out(*job);
    }
  }

  void on_message(Session& session, const AgentToCoordinator& message) {
    if (const auto* hello = std::get_if<Hello>(&message)) {
      if (session.said_hello) return session.close("it said HELLO twice");
      session.said_hello = true;
      return on_hello(session, *hello);
    }
    if (!session.said_hello) return session.close("it did not say HELLO first");
    if (!session.joined) return;  // its token is still being looked at
    if (Job* job = find_job(session.job_uid)) {
      job->state.on_message(session.id(), message, now());
      carry_out(*job);
    }
  }

  void refuse(Session& session, const Refused& refused) {
    session.send(refused);
    session.finish();
  }

  void on_hello(Session& session, const Hello& hello) {
    const auto at = job_of_pod_.find(pod_base(hello.name_space, hello.pod_name, hello.slot, hello.incarnation));
    Job* job = at == job_of_pod_.end() ? nullptr : find_job(at->second);
    if (job == nullptr) {
      return refuse(session, {fmt::format("no job expects pod {}/{} now", hello.name_space, hello.pod_name), false});
    }
    if (const auto refused = job->state.refusal(hello)) return refuse(session, *refused);
    session.job_uid = job->plan.uid;
    session.pod = hello.name_space + "/" + hello.pod_name;
    const std::string token = digest(hello.token);
    const auto known = job->tokens.find(hello.pod_uid);
    if (!options_.authenticate || (known != job->tokens.end() && known->second == token))
      return join(session, *job, hello);
    if (token_checks_ >= kMaxTokenChecks) return refuse(session, {"too many members join at once", false});
    ++token_checks_;
    asio::post(token_thread_, [this, id = session.id(), hello, token, uid = job->plan.uid, serial = job->serial] {
      Status checked = authenticator_.check(hello.token, hello.name_space, hello.pod_name, hello.pod_uid);
      asio::post(io_, [this, id, hello, token, uid, serial, checked = std::move(checked)] {
        --token_checks_;
        on_token_checked(id, hello, token, find_job(uid, serial), checked);
      });
    });
  }

  void on_token_checked(SessionId id, const Hello& hello, const std::string& token, Job* job, const Status& checked) {
    Session* session = find_session(id);
    if (job == nullptr) {
      if (session != nullptr) session->finish();
      return;
    }
    if (checked) {
      job->tokens[hello.pod_uid] = token;
      if (session != nullptr) join(*session, *job, hello);
      return;
    }
    const bool bad = checked.error().code == ErrorCode::kUnauthorized;
    if (bad) {
      job->state.on_turned_away(
          fmt::format("pod {} of slot {}: {}", hello.pod_name, hello.slot, checked.error().message));
    } else {
      job->state.on_sign_of_life(hello, now());  // nobody can say who it is; that must not cost a running member
    }
    if (session != nullptr) refuse(*session, {"the token was not accepted: " + checked.error().message, false});
    carry_out(*job);
  }

  void join(Session& session, Job& job, const Hello& hello) {
    no_stranger(session.id());
    session.accept(hello.protocol);
    session.joined = true;
    log::info("an agent connected", {{"pod", session.pod}});
    job.state.on_hello(session.id(), hello, now());
    carry_out(job);
  }

  const CoordinatorOptions options_;
  GenerationStore& store_;
  MemberAuthenticator& authenticator_;
  Clock& clock_;
  const OnViewChange on_change_;
  std::string address_;

  mutable std::mutex mutex_;
  std::unordered_map<std::string, JobView> views_;  // by uid; protected by mutex_

  // Everything below belongs to the io thread.
  Session::Events events_;
  asio::io_context io_{1};
  std::shared_ptr<asio::ssl::context> tls_;  // of connections to come; OpenSSL keeps those of existing ones
  tcp::acceptor acceptor_;
  asio::steady_timer accept_again_;
  std::unordered_map<std::string, std::unique_ptr<Job>> jobs_;  // by uid
  std::unordered_map<std::string, std::string> job_of_pod_;     // uid by pod_base()
  std::unordered_map<SessionId, std::shared_ptr<Session>> sessions_;
  std::list<SessionId> strangers_;  // oldest first
  std::unordered_map<SessionId, std::list<SessionId>::iterator> stranger_at_;
  SessionId last_session_ = 0;
  std::uint64_t last_serial_ = 0;
  std::size_t token_checks_ = 0;

  asio::thread_pool store_thread_{1};
  asio::thread_pool token_thread_{1};
  std::thread io_thread_;
};

}  // namespace

Result<std::unique_ptr<Coordinator>> start_coordinator(const CoordinatorOptions& options, GenerationStore& store,
                                                       MemberAuthenticator& authenticator, Clock& clock,
                                                       OnViewChange on_change) {
  auto server = std::make_unique<CoordinatorServer>(options, store, authenticator, clock, std::move(on_change));
  LOCKSTEP_CHECK_OK(server->start());
  return std::unique_ptr<Coordinator>(std::move(server));
}

}  // namespace lockstep::rendezvous
