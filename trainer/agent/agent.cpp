#include "trainer/agent/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>

namespace lockstep::trainer::agent {
namespace {

namespace rv = rendezvous;

MonotonicTime now_() {
  return std::chrono::steady_clock::now();
}

// Sent when the parent's thread that started the agent has ended; another number than SIGTERM, which a user may send.
int parent_death_signal() {
  return SIGRTMIN + 3;
}

}  // namespace

Agent::Agent(Settings settings)
    : settings_(std::move(settings)), parent_(::getppid()), state_(settings_.member, now_()) {}

Result<std::unique_ptr<Agent>> Agent::make(Settings settings, std::vector<std::string> command,
                                           std::vector<std::string> environment) {
  std::unique_ptr<Agent> made(new Agent(std::move(settings)));
  sigset_t handled;
  ::sigemptyset(&handled);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, parent_death_signal()}) {
    ::sigaddset(&handled, signal);
  }
  ::signal(SIGPIPE, SIG_IGN);
  if (::pthread_sigmask(SIG_BLOCK, &handled, nullptr) != 0)
    return fail(ErrorCode::kInternal, "signals cannot be blocked");
  made->signals_ = UniqueFd(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  made->wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->signals_ || !made->wake_) {
    return fail(ErrorCode::kExhausted, fmt::format("no descriptor is left: {}", std::strerror(errno)));
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (made->settings_.end_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, parent_death_signal());
    if (::getppid() != made->parent_) return fail(ErrorCode::kCancelled, "the parent has ended");
  }
  LOCKSTEP_TRY(made->connection_, Connection::make(made->settings_.coordinator, made->settings_.coordinator_ca));
  made->out_ = std::make_unique<Output>(STDOUT_FILENO, made->wake_.get());
  made->err_ = std::make_unique<Output>(STDERR_FILENO, made->wake_.get());
  Agent* const self = made.get();
  Processes::Events events;
  events.on_started = [self](int rank) { self->state_.on_started(rank, now_()); };
  events.on_worker_message = [self](int rank, const rv::WorkerMessage& message) {
    self->state_.on_worker_message(rank, message, now_());
  };
  events.on_exit = [self](const rv::ProcessEnd& end) {
    if (!end.message.empty()) self->say(end.message);
    self->state_.on_exit(end, now_());
  };
  made->processes_ =
      std::make_unique<Processes>(std::move(command), std::move(environment), interface_of(made->settings_.pod_ip),
                                  *made->out_, *made->err_, std::move(events));
  return made;
}

void Agent::say(const std::string& sentence) {
  err_->write("lockstep-agent: " + sentence + "\n");
}

void Agent::say_ranks(const rv::Go& go) {
  if (go.id.generation <= said_ranks_of_) return;  // processes that wait for a rank have none
  said_ranks_of_ = go.id.generation;
  const std::string ranks = go.ranks == 1 ? fmt::format("rank {}", go.first_rank)
                                          : fmt::format("ranks {} to {}", go.first_rank, go.first_rank + go.ranks - 1);
  say(fmt::format("generation {}: {} of {}", go.id.generation, ranks, go.world_size));
}

std::string Agent::token() const {
  // Read again for each HELLO: the kubelet replaces the token before it expires.
  std::string text(16 * 1024, '\0');
  const UniqueFd file(settings_.token_file.empty() ? -1 : ::open(settings_.token_file.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t length = file ? ::read(file.get(), text.data(), text.size()) : 0;
  text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

int Agent::run() {
  while (true) {
    carry_out(now_());
    if (exit_code_) return *exit_code_;

    std::vector<pollfd> polls;
    polls.push_back({signals_.get(), POLLIN, 0});
    polls.push_back({wake_.get(), POLLIN, 0});
    polls.push_back({connection_->fd(), connection_->events(), 0});
    dials_.add_polls(polls);
    const std::size_t first = polls.size();
    processes_->add_polls(polls);
    const MonotonicTime deadline = std::min({state_.deadline(), connection_->deadline(), dials_.deadline()});
    int timeout = -1;
    if (deadline != MonotonicTime::max()) {
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(deadline - now_()).count();
      timeout = static_cast<int>(std::clamp<std::int64_t>(wait, 0, 60'000));
    }
    if (::poll(polls.data(), polls.size(), timeout) < 0 && errno != EINTR) {
      say(fmt::format("poll: {}", std::strerror(errno)));
      return 1;
    }
    const MonotonicTime now = now_();
    processes_->handle(polls, first);
    if (polls[1].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t length = ::read(wake_.get(), &count, sizeof count);
    }
    if (polls[0].revents != 0) read_signals(now);
    if (polls[2].revents != 0 || now >= connection_->deadline()) step_connection(now);
    if (const auto dialled = dials_.step(now)) state_.on_dialled(dialled->generation, dialled->problem);
    if (state_.heartbeat_due(now)) {
      for (const auto& [rank, state] : processes_->states()) state_.on_process_state(rank, state);
    }
    state_.on_tick(now);
  }
}

void Agent::read_signals(MonotonicTime now) {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    on_signal(static_cast<int>(info.ssi_signo), now);
  }
}

void Agent::on_signal(int signal, MonotonicTime now) {
  if (signal == SIGCHLD) return reap(now);
  if (signal == parent_death_signal()) {
    if (::getppid() == parent_) return;  // a thread of the parent ended, not the parent
    say("the process that started the agent has ended");
    return state_.on_terminate(128 + SIGTERM, Duration::zero(), now);
  }
  if (signal == SIGTERM || signal == SIGINT) {
    // A second signal ends the processes at once.
    const Duration grace = std::exchange(terminated_, true) ? Duration::zero() : settings_.stop_grace;
    end_signal_ = signal;
    return state_.on_terminate(128 + signal, grace, now);
  }
  processes_->signal(signal, false);
}

void Agent::reap(MonotonicTime now) {
  if (processes_->reap()) state_.on_no_process_left(now);
}

void Agent::step_connection(MonotonicTime now) {
  Connection::Happened happened = connection_->step(now);
  if (happened.opened) state_.on_connected(now);
  for (const rv::CoordinatorToAgent& message : happened.messages) {
    if (const auto* refused = std::get_if<rv::Refused>(&message); refused != nullptr && refused->message != last_why_) {
      last_why_ = refused->message;
      say("the coordinator refuses this pod: " + last_why_);
    }
    state_.on_message(message, now);
    if (state_.welcomed() && std::holds_alternative<rv::Welcome>(message)) {
      connection_->welcomed();
      last_why_.clear();
      if (lost_at_) {
        const auto away = std::chrono::duration<double>(now - *std::exchange(lost_at_, std::nullopt));
        say(fmt::format("connected to the coordinator again after {:.1f} s", away.count()));
      }
    }
  }
  if (happened.closed) disconnected(happened.why, now);
  // After a close by the coordinator its refusal is in the log already; other reasons are logged once.
  if (!happened.why.empty() && !happened.closed && happened.why != last_why_) {
    last_why_ = happened.why;
    say("the coordinator cannot be reached, trying again: " + last_why_);
  }
}

void Agent::disconnected(const std::string& why, MonotonicTime now) {
  if (state_.welcomed()) {
    lost_at_ = now;
    if (last_why_.empty()) say("the connection to the coordinator is lost, trying again: " + why);
  }
  state_.on_disconnected(now);
}

void Agent::carry_out(MonotonicTime now) {
  for (auto actions = state_.take_actions(); !actions.empty(); actions = state_.take_actions()) {
    bool reap_again = false;
    for (rv::MemberAction& action : actions) {
      if (auto* out = std::get_if<rv::SendToCoordinator>(&action)) {
        if (auto* hello = std::get_if<rv::Hello>(&out->message)) hello->token = token();
        connection_->send(out->message);
      } else if (const auto* prepare = std::get_if<rv::PrepareSockets>(&action)) {
        Offer offer = make_offer(settings_.pod_ip, prepare->propose, settings_.member.pod_uid);
        listeners_ = std::move(offer.listeners);
        state_.on_prepared(prepare->propose.id, offer.prepared, now);
      } else if (std::holds_alternative<rv::DropSockets>(action)) {
        listeners_.clear();
      } else if (const auto* start = std::get_if<rv::StartProcesses>(&action)) {
        end_signal_ = SIGTERM;
        say_ranks(start->go);
        processes_->start(start->go, start->only, std::exchange(listeners_, {}));
        reap_again = true;  // when none could be started there is no SIGCHLD to wait for
      } else if (const auto* ask = std::get_if<rv::AskHoldings>(&action)) {
        processes_->regroup(ask->id);
      } else if (const auto* go_on = std::get_if<rv::ContinueProcesses>(&action)) {
        say_ranks(go_on->go);
        processes_->join(go_on->go);
      } else if (const auto* yield = std::get_if<rv::AskYield>(&action)) {
        processes_->yield(yield->generation);
      } else if (const auto* dial = std::get_if<rv::DialAddresses>(&action)) {
        dials_.start(dial->generation, dial->peers ? dial->peers->addresses() : std::vector<std::string>());
      } else if (const auto* renumber = std::get_if<rv::RenumberProcesses>(&action)) {
        processes_->renumber(renumber->first_rank);
      } else if (const auto* abort = std::get_if<rv::AbortProcess>(&action)) {
        processes_->abort(abort->rank);
      } else if (const auto* hung = std::get_if<rv::KillProcess>(&action)) {
        processes_->kill(hung->rank);
      } else if (const auto* end = std::get_if<rv::EndProcesses>(&action)) {
        processes_->signal(end_signal_, end->ask);
        reap_again = true;
      } else if (std::holds_alternative<rv::KillProcesses>(action)) {
        processes_->kill();
        reap_again = true;
      } else if (const auto* closing = std::get_if<rv::CloseConnection>(&action)) {
        connection_->close(now);
        disconnected(closing->why, now);
        if (last_why_.empty()) last_why_ = closing->why;
      } else if (const auto* leave = std::get_if<rv::ExitAgent>(&action)) {
        exit_code_ = leave->code;
      }
    }
    if (reap_again) reap(now);
  }
}

}  // namespace lockstep::trainer::agent
