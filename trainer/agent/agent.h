// PID 1 of a training pod: one loop. It polls signals, the connection to the coordinator and the pipes of the
// processes, and carries out what the member's state machine asks for.
#pragma once

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "operator/base/unique_fd.h"
#include "operator/rendezvous/member_state.h"
#include "trainer/agent/connection.h"
#include "trainer/agent/dials.h"
#include "trainer/agent/offer.h"
#include "trainer/agent/output.h"
#include "trainer/agent/processes.h"
#include "trainer/agent/settings.h"

namespace lockstep::trainer::agent {

class Agent {
 public:
  // Takes over the process's signals: call it once, before any thread is started. `command` is what to run.
  static Result<std::unique_ptr<Agent>> make(Settings settings, std::vector<std::string> command,
                                             std::vector<std::string> environment);
  // Runs until the agent has to leave; returns its exit code. No child process is left then.
  int run();

 private:
  explicit Agent(Settings settings);
  void carry_out(MonotonicTime now);
  void on_signal(int signal, MonotonicTime now);
  void read_signals(MonotonicTime now);
  void step_connection(MonotonicTime now);
  void disconnected(const std::string& why, MonotonicTime now);
  void reap(MonotonicTime now);
  std::string token() const;
  void say(const std::string& sentence);
  // Logs the ranks of this pod, once for each generation.
  void say_ranks(const rendezvous::Go& go);

  Settings settings_;
  pid_t parent_;
  UniqueFd signals_, wake_;
  std::unique_ptr<Output> out_, err_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Processes> processes_;
  rendezvous::MemberState state_;
  Dials dials_;
  std::vector<UniqueFd> listeners_;  // for the proposal in progress
  std::int64_t said_ranks_of_ = 0;   // generation
  int end_signal_ = SIGTERM;         // how processes are told to end
  bool terminated_ = false;
  std::string last_why_;                  // of a failed connection, to log it once
  std::optional<MonotonicTime> lost_at_;  // the connection of a member, until it is welcomed again
  std::optional<int> exit_code_;
};

}  // namespace lockstep::trainer::agent
