// A worker of a job that hangs on demand: tests/e2e/local/test_hangs.py runs it under `lockstep run`. It makes steps
// like the trainer (loads, computes, reduces a large buffer and a small one) and tells its agent its activity. A file
// "<rank>" in the folder HANG_FOLDER, which it removes, says where it should hang:
//
//   loading, computing              stopped (SIGSTOP) there
//   reduce-scatter, all-gather      stopped when that half of the large collective is under way
//   skipping                        leaves that collective out and sleeps
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "operator/rendezvous/worker_contract.h"
#include "trainer/comm/ring_communicator.h"
#include "trainer/elastic/abort_report.h"
#include "trainer/elastic/agent_link.h"
#include "trainer/elastic/stop.h"
#include "trainer/elastic/world.h"

namespace lockstep::trainer::elastic {
namespace {

using rendezvous::Activity;
using std::chrono::milliseconds;

constexpr size_t kElements = size_t{1} << 20;  // 8 MiB: long enough to be met in either half
constexpr int kFirstSteps = 5;                 // by then the generation is watched

// The activity for the agent; the training thread writes, the link's thread reads.
struct Board {
  std::atomic<Activity::Doing> doing{Activity::Doing::kStarting};
  std::atomic<std::int64_t> beats{0}, step{0};
};

class Worker {
 public:
  Worker(World world, AgentLink& agent, comm::Communicator& communicator, Board& board)
      : world_(std::move(world)), agent_(agent), communicator_(communicator), board_(board), data_(kElements, 1.0) {}

  // Until something ends it.
  Status run() {
    // Steps continue from one generation to the next, like those of a job that loses nothing.
    for (std::int64_t step = 1000 * world_.generation + 1;; ++step) {
      if (where_.empty() && step % 1000 > kFirstSteps) where_ = told_where();
      work(Activity::Doing::kLoading, "loading");
      work(Activity::Doing::kForward, "computing");
      board_.doing = Activity::Doing::kWaiting;
      if (where_ == "skipping") {
        board_.doing = Activity::Doing::kOther;
        std::fprintf(stderr, "hangs: skipping\n");
        while (true) ::pause();
      }
      LOCKSTEP_CHECK_OK(reduce());
      std::int64_t word = 1;
      LOCKSTEP_TRY(auto ticket, communicator_.submit(comm::AllReduce{&word, 1, comm::DataType::kInt64}));
      LOCKSTEP_CHECK_OK(communicator_.wait(ticket));
      board_.step = step;
      if (step % 1000 == 1) agent_.up(false);
      if (world_.rank == 0) agent_.progress({.step = step});
    }
  }

 private:
  void work(Activity::Doing doing, const char* name) {
    board_.doing = doing;
    if (where_ == name) stop();
    const auto until = std::chrono::steady_clock::now() + milliseconds(5);
    while (std::chrono::steady_clock::now() < until) ++board_.beats;
  }

  [[noreturn]] void stop() const {
    std::fprintf(stderr, "hangs: %s\n", where_.c_str());
    while (true) ::kill(::getpid(), SIGSTOP);
  }

  Status reduce() {
    LOCKSTEP_TRY(auto ticket,
                 communicator_.submit(comm::AllReduce{data_.data(), data_.size(), comm::DataType::kFloat64}));
    const bool first = where_ == "reduce-scatter", second = where_ == "all-gather";
    const std::uint64_t before = communicator_.activity().received;
    for (comm::Activity now; (first || second) && (now = communicator_.activity()).sequence <= ticket.sequence;) {
      const bool over = now.sequence == ticket.sequence && now.stage == comm::Stage::kIdle;
      if (over) break;  // too late: the next step is another occasion
      const auto wanted = first ? comm::Stage::kReduceScatter : comm::Stage::kAllGather;
      if (now.stage == wanted && now.received > before) stop();
    }
    return communicator_.wait(ticket);
  }

  // The text of a file; nothing if there is none.
  std::string told_where() const {
    const char* folder = std::getenv("HANG_FOLDER");
    if (folder == nullptr) return "";
    const auto path = std::filesystem::path(folder) / std::to_string(world_.rank);
    std::string where;
    std::ifstream(path) >> where;
    std::error_code ignored;
    if (!where.empty()) std::filesystem::remove(path, ignored);
    return where;
  }

  const World world_;
  AgentLink& agent_;
  comm::Communicator& communicator_;
  Board& board_;
  std::vector<double> data_;
  std::string where_;
};

// Takes no place: steps without a generation are watched by nobody. Says that it cannot go on into the first
// generation, for which its agent then ends it and starts another.
Status stand_by(const World& world, StopToken& stop) {
  LOCKSTEP_TRY(const auto agent, AgentLink::open(world.agent_fd, stop));
  agent->up(false);
  while (true) ::pause();
}

Status run(StopToken& stop) {
  LOCKSTEP_TRY(World world, world_from_environment());
  if (world.standby) return stand_by(world, stop);
  LOCKSTEP_TRY(auto options, ring_options(world));
  LOCKSTEP_TRY(const auto communicator, comm::make_communicator(std::move(options)));
  Board board;
  LOCKSTEP_TRY(const auto agent, AgentLink::open(world.agent_fd, stop));
  agent->watch([&board, &communicator = *communicator, generation = world.generation] {
    const comm::Activity seen = communicator.activity();
    return Activity{.generation = generation,
                    .doing = board.doing,
                    .step = board.step,
                    .beats = board.beats,
                    .sequence = static_cast<std::int64_t>(seen.sequence),
                    .stage = static_cast<Activity::Stage>(seen.stage),
                    .sent = static_cast<std::int64_t>(seen.sent),
                    .received = static_cast<std::int64_t>(seen.received),
                    .waits_for_bytes_of = seen.waits_for_bytes_of,
                    .waits_for_room_at = seen.waits_for_room_at};
  });
  Worker worker(std::move(world), *agent, *communicator, board);
  const Status outcome = worker.run();
  agent->failure({rendezvous::FailureReport::Class::kCommunication, communicator->suspect(), outcome.error().message});
  return outcome;
}

}  // namespace
}  // namespace lockstep::trainer::elastic

int main() {
  const lockstep::trainer::elastic::AbortReport report;
  lockstep::trainer::elastic::StopToken stop;
  const lockstep::Status outcome = lockstep::trainer::elastic::run(stop);
  if (!outcome) std::fprintf(stderr, "hanging_worker: %s\n", outcome.error().message.c_str());
  return lockstep::rendezvous::kExitCommunication;
}
