// The coordinator as a server: TLS connections, one CoordinatorState per job, and the threads that carry out what the
// state machines ask for. One io thread owns everything but the views; the store and the authenticator block, and
// run on threads of their own.
#include <fmt/format.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "operator/base/log.h"
#include "operator/base/thread.h"
#include "operator/rendezvous/connections.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/coordinator_state.h"
#include "operator/rendezvous/digest.h"
#include "operator/rendezvous/session.h"
#include "operator/rendezvous/token_checks.h"

namespace lockstep::rendezvous {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr Duration kProgressEvery = std::chrono::seconds(1);
// A view costs time with each member. Between two views the thread serves connections for many times as long as a view
// takes. So thousands of members that come at once do not wait for views of one another.
constexpr Duration kViewRestPerMember = std::chrono::microseconds(5);

std::string random_key() {
  unsigned char bytes[32];
  // Without randomness there is no key that others could not guess, and nothing sensible to go on with.
  if (RAND_bytes(bytes, sizeof bytes) != 1) std::abort();
  return hexadecimal(bytes, sizeof bytes);
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
        clock_(clock),
        on_change_(std::move(on_change)),
        connections_(io_, events()),
        checks_(authenticator, io_) {}

  ~CoordinatorServer() override {
    io_.stop();
    if (io_thread_.joinable()) io_thread_.join();
    store_thread_.stop();
    store_thread_.join();
    checks_.stop();
  }

  Status start() {
    if (options_.certificate_pem.empty() || options_.private_key_pem.empty()) {
      return fail(ErrorCode::kInvalid, "the coordinator needs a serving certificate and its key");
    }
    LOCKSTEP_TRY(auto tls, tls_context({options_.certificate_pem, options_.private_key_pem}));
    connections_.use(std::move(tls));
    LOCKSTEP_TRY(address_, connections_.listen(options_.listen_address, options_.port));
    io_thread_ = start_without_signals([this] { io_.run(); });  // SIGPIPE as well
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
    asio::post(io_, [this, made = std::move(context)] { connections_.use(made); });
    return {};
  }

 private:
  struct Job {
    Job(asio::io_context& io, std::int64_t term, const CoordinatorTiming& timing, Now now)
        : state(term, timing, random_key, now), timer(io), view_timer(io) {}
    JobPlan plan;
    CoordinatorState state;
    asio::steady_timer timer;
    MonotonicTime waits_until{};  // when `timer` ends
    asio::steady_timer view_timer;
    MonotonicTime view_from{};      // no view is made before
    bool view_waits = false;        // `view_timer` runs
    bool to_show = false;           // the view may have changed since it was last made
    std::int64_t illegal = 0;       // transitions of `state` that were logged
    std::uint64_t serial = 0;       // tells a job from one of the same uid that was forgotten
    std::vector<std::string> pods;  // keys of job_of_pod_
    std::optional<JobView> shown;
    bool progress_to_tell = false;
    MonotonicTime progress_told{};
    MonotonicTime pending_told{};
  };

  Session::Events events() {
    Session::Events events;
    events.on_message = [this](Session& session, const AgentToCoordinator& message) { on_message(session, message); };
    events.on_closed = [this](Session& session) { on_closed(session); };
    events.read_within = options_.read_within;
    return events;
  }
  Now now() const { return {clock_.now(), clock_.wall_now(), !options_.leads || options_.leads()}; }

  Job* find_job(const std::string& uid, std::uint64_t serial = 0) {
    const auto at = jobs_.find(uid);
    if (at == jobs_.end() || (serial != 0 && at->second->serial != serial)) return nullptr;
    return at->second.get();
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
    for (const ExpectedMember& member : plan.members) {
      job->pods.push_back(pod_base(plan.name_space, member.pod_name, member.slot, member.incarnation));
      job_of_pod_[job->pods.back()] = plan.uid;
    }
    checks_.keep(plan.uid, plan.members);
    job->state.on_plan(plan, now());
    carry_out(*job);
  }

  void forget_here(const std::string& uid) {
    Job* job = find_job(uid);
    if (job == nullptr) return;
    for (const std::string& pod : job->pods) job_of_pod_.erase(pod);
    jobs_.erase(uid);
    checks_.forget(uid);
    {
      const std::lock_guard guard(mutex_);
      views_.erase(uid);
    }
    for (const auto& session : connections_.of_job(uid)) session->finish();
  }

  // Does what the job's state machine asks for, until it asks for nothing.
  void carry_out(Job& job) {
    if (const Duration held_up = job.state.take_held_up(); held_up > Duration::zero()) {
      log::warn("the coordinator was held up: no silence until now counts; has its node enough CPU?",
                {{"job", job.plan.name_space + "/" + job.plan.name},
                 {"milliseconds", fmt::to_string(milliseconds(held_up))}});
    }
    if (const auto& illegal = job.state.illegal(); illegal && illegal->count != job.illegal) {
      job.illegal = illegal->count;
      log::error("the coordinator made a transition that no rule allows: please report this",
                 {{"job", job.plan.name_space + "/" + job.plan.name},
                  {"from", name_of(illegal->from)},
                  {"to", name_of(illegal->to)},
                  {"count", fmt::to_string(illegal->count)}});
    }
    for (const CoordinatorAction& action : job.state.take_actions()) {
      if (const auto* out = std::get_if<SendToMember>(&action)) {
        if (Session* session = connections_.find(out->session)) session->send(out->message);
      } else if (const auto* closing = std::get_if<CloseSession>(&action)) {
        if (Session* session = connections_.find(closing->session)) {
          session->joined = false;  // the state machine is done with it
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
      tell_pending(*found);
      found->state.on_tick(now());
      carry_out(*found);
    });
  }

  // Publishes the view and tells the controller, at most once a second for progress alone. A view that is asked for
  // soon after another one is made when its rest is over.
  void show(Job& job) {
    if (job.state.take_progress_changed()) job.progress_to_tell = true;
    if (job.state.take_changed()) job.to_show = true;
    if (!job.to_show && !job.progress_to_tell) return;
    const MonotonicTime at = clock_.now();
    const bool progress_due = job.progress_to_tell && at - job.progress_told >= kProgressEvery;
    if (!job.to_show && !progress_due) return;
    if (at < job.view_from) return show_later(job, at);
    job.view_from = at + kViewRestPerMember * static_cast<int>(job.plan.members.size());
    job.to_show = false;
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
    job.progress_told = at;
    if (on_change_) on_change_(job.plan.name_space, job.plan.name);
  }

  void show_later(Job& job, MonotonicTime at) {
    if (job.view_waits) return;
    job.view_waits = true;
    job.view_timer.expires_after(job.view_from - at);
    job.view_timer.async_wait([this, uid = job.plan.uid, serial = job.serial](error_code error) {
      Job* found = error ? nullptr : find_job(uid, serial);
      if (found == nullptr) return;
      found->view_waits = false;
      show(*found);
    });
  }

  // ---- connections ----

  void on_closed(Session& session) {
    const std::shared_ptr<Session> alive = connections_.on_closed(session);
    if (!session.joined) return log::debug("a connection ended", {{"pod", session.pod}, {"why", session.why()}});
    log::info("an agent's connection ended", {{"pod", session.pod}, {"why", session.why()}});
    if (Job* job = find_job(session.job_uid)) {
      tell_pending(*job);
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
      tell_pending(*job);
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
    if (!options_.authenticate || checks_.knows(job->plan.uid, hello)) return join(session, *job, hello);
    const bool asked = checks_.start(
        job->plan.uid, hello,
        [this, id = session.id(), hello, uid = job->plan.uid, serial = job->serial](const Status& checked) {
          if (find_job(uid) == nullptr) checks_.forget(uid);
          on_token_checked(id, hello, find_job(uid, serial), checked);
        });
    if (!asked) return refuse(session, {"too many members join at once", false});
    // It is no stranger that holds a place: how many are asked for at once is bounded.
    connections_.no_stranger(session.id());
    session.wait_for_check();
    job->state.on_token_pending({hello}, now());
    carry_out(*job);
  }

  // Before the state machine looks at who is silent: as often as others say heartbeats.
  void tell_pending(Job& job) {
    if (clock_.now() - job.pending_told < kHeartbeatEvery) return;
    job.pending_told = clock_.now();
    job.state.on_token_pending(checks_.pending(job.plan.uid), now());
  }

  void on_token_checked(SessionId id, const Hello& hello, Job* job, const Status& checked) {
    Session* session = connections_.find(id);
    if (job == nullptr) {
      if (session != nullptr) session->finish();
      return;
    }
    if (checked) {
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
    connections_.no_stranger(session.id());
    session.accept(hello.protocol);
    session.joined = true;
    log::info("an agent connected", {{"pod", session.pod}});
    job.state.on_hello(session.id(), hello, now());
    carry_out(job);
  }

  const CoordinatorOptions options_;
  GenerationStore& store_;
  Clock& clock_;
  const OnViewChange on_change_;
  std::string address_;

  mutable std::mutex mutex_;
  std::unordered_map<std::string, JobView> views_;  // by uid; protected by mutex_

  // Everything below belongs to the io thread.
  asio::io_context io_{1};
  std::unordered_map<std::string, std::unique_ptr<Job>> jobs_;  // by uid
  std::unordered_map<std::string, std::string> job_of_pod_;     // uid by pod_base()
  std::uint64_t last_serial_ = 0;

  asio::thread_pool store_thread_{1};
  Connections connections_;
  TokenChecks checks_;
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
