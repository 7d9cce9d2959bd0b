// The processes of one generation on this pod: starts, signals and reaps them, and reads what they write. No thread:
// the agent's loop polls the descriptors of this class. The agent handles its own signals.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/unique_fd.h"
#include "operator/rendezvous/member_state.h"
#include "trainer/agent/output.h"

namespace lockstep::trainer::agent {

class Processes {
 public:
  struct Events {
    std::function<void(int rank)> on_started;
    std::function<void(int rank, const rendezvous::WorkerMessage&)> on_worker_message;
    std::function<void(const rendezvous::ProcessEnd&)> on_exit;
  };
  // `command` is argv; `environment` is the agent's own; `interface` holds the pod's address, empty if not known.
  Processes(std::vector<std::string> command, std::vector<std::string> environment, std::string interface, Output& out,
            Output& err, Events events);
  ~Processes();

  // One process for each local rank of `go` that is in `only`, or for all where that is empty; each gets its listener.
  // A process that cannot be started ends at once, with a sentence. Earlier processes of those ranks must be gone.
  void start(const rendezvous::Go& go, std::vector<int> only, std::vector<UniqueFd> listeners);
  // Sends `signal` to the group of every process that has not ended. With `ask`, AgentMessage::kStop as well.
  void signal(int signal, bool ask);
  // Asks every process to end its communicator and to report the state that it holds.
  void regroup(const rendezvous::GenerationId& id);
  // Tells every process its place in the generation of `go`.
  void join(const rendezvous::Go& go);
  // Asks every process to end the generation after a step on which its ranks agree.
  void yield(std::int64_t generation);
  // Gives the processes the ranks from `first_rank` on, in reports and in the prefixes of their lines.
  void renumber(int first_rank);
  // SIGABRT to the group of that rank, and SIGCONT: a stopped process handles no signal but SIGKILL.
  void abort(int rank);
  // SIGKILL to the group of that rank.
  void kill(int rank);
  // The states of the processes that have not ended, by /proc: R, S, D, T, ...; '?' if it has none.
  std::vector<std::pair<int, char>> states() const;
  // SIGKILL to the groups and to every adopted child. Orphans of these need another call.
  void kill();
  // Reaps all processes that have ended. True when the agent has no child left.
  bool reap();

  // Adds the descriptors to poll; handle() takes the same entries after poll().
  void add_polls(std::vector<pollfd>& polls) const;
  void handle(const std::vector<pollfd>& polls, std::size_t first);

 private:
  struct Worker;

  void signal(int rank, int signal);
  bool spawn(Worker& worker, const rendezvous::Go& go, int local_rank, const UniqueFd& listener,
             rendezvous::ProcessEnd& failed);
  void read_stream(Worker& worker, bool is_err, std::size_t most);
  void read_link(Worker& worker);
  void tell(Worker& worker, const rendezvous::AgentMessage& message);
  void write_link(Worker& worker);
  void finish(Worker& worker, int status);
  bool others_than_workers() const;

  const std::vector<std::string> command_, environment_;
  const std::string interface_;
  Output& out_;
  Output& err_;
  const Events events_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace lockstep::trainer::agent
