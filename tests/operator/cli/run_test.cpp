// `lockstep run` as people use it, with shell scripts as training programs: exit statuses, recovery, and no process
// left behind after any kill. A `sleep` in a script is a program that stays until it is killed.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/operator/cli/command.h"

namespace lockstep::cli::run_test {
namespace {

using namespace std::chrono_literals;

// A job file that runs `script` in `nodes` workers, and the words of the command that runs it.
class Run : public testing::Test {
 protected:
  std::vector<std::string> words(const std::string& script, int nodes, std::vector<std::string> more = {},
                                 const std::string& spec = "") {
    path_ = testing::TempDir() + "lockstep-run-" + std::to_string(getpid()) + ".yaml";
    std::ofstream file(path_);
    file << "apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: test}\nspec:\n  image: none\n"
         << "  command: [sh, -c, '" << script << "']\n  nodes: " << nodes << "\n  rendezvous: {kind: Torch}\n"
         << spec;
    std::vector<std::string> result = {"run", path_, "--output", "out"};
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_;
};

TEST_F(Run, a_job_that_succeeds_ends_with_0_and_has_a_log_per_rank) {
  Command command(words("echo rank $RANK of $WORLD_SIZE", 3));
  ASSERT_EQ(command.wait(), 0) << command.out() << command.err();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(read_file(command.folder() + "/out/logs/rank-" + std::to_string(rank) + ".log"),
              "rank " + std::to_string(rank) + " of 3\n");
  }
  EXPECT_NE(command.out().find("test succeeded after"), std::string::npos) << command.out();
  EXPECT_TRUE(std::filesystem::exists(command.folder() + "/out/job.json"));
  EXPECT_TRUE(command.await_no_process());
}

TEST_F(Run, a_killed_worker_is_survived_and_listed) {
  // The first life waits to be killed; the second one ends well.
  Command command(
      words("[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 100; echo again", 2, {"--kill-worker", "1@0"}));
  ASSERT_EQ(command.wait(), 0) << command.out() << command.err();
  const std::string out = command.out();
  EXPECT_NE(out.find("killed rank 1 (process "), std::string::npos) << out;
  EXPECT_NE(out.find("with 1 restart"), std::string::npos) << out;
  EXPECT_NE(out.find("ProcessSignal"), std::string::npos) << out;
  EXPECT_EQ(read_file(command.folder() + "/out/logs/rank-1.log"), "again\n");
  EXPECT_TRUE(command.await_no_process());
}

TEST_F(Run, a_worker_without_a_known_rank_is_killed_once_its_rank_shows) {
  // As on a busy disk, where a program loads slowly: without its environment for a second after its start. No event
  // says that the runtime searched in vain, so the test takes a fixed time.
  Command command(
      words("[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec env -i WAIT=$RANK sh -c "
            "\"sleep 1; RANK=\\$WAIT exec sleep 100\"; echo again",
            2, {"--kill-worker", "1@0"}));
  ASSERT_EQ(command.wait(), 0) << command.out() << command.err();
  EXPECT_NE(command.out().find("killed rank 1 (process "), std::string::npos) << command.out();
  EXPECT_TRUE(command.await_no_process());
}

TEST_F(Run, a_program_written_for_torchrun_runs_unchanged_and_survives_a_kill) {
  Command command(words(std::string("exec ") + TORCHRUN_STYLE + " 20 50", 3, {"--kill-worker", "1@0"}));
  ASSERT_EQ(command.wait(), 0) << command.out() << command.err();
  EXPECT_NE(command.out().find("with 1 restart"), std::string::npos) << command.out();
  for (int rank = 0; rank < 3; ++rank) {
    const std::string log = read_file(command.folder() + "/out/logs/rank-" + std::to_string(rank) + ".log");
    EXPECT_NE(log.find("rank " + std::to_string(rank) + " of 3 gathered 20 steps\n"), std::string::npos) << log;
  }
  EXPECT_TRUE(command.await_no_process());
}

TEST_F(Run, the_exit_status_is_that_of_the_rank_that_failed) {
  Command command(words("[ $RANK = 1 ] && { echo the dog ate it >&2; exit 3; }; exec sleep 100", 2, {},
                        "  restart: {maxRestarts: 0}\n"));
  EXPECT_EQ(command.wait(), 3) << command.out() << command.err();
  EXPECT_NE(command.out().find("test failed after"), std::string::npos) << command.out();
  EXPECT_NE(command.out().find("the dog ate it"), std::string::npos) << command.out();
  EXPECT_TRUE(command.await_no_process());
}

TEST_F(Run, a_missing_command_is_named) {
  Command command(words("true", 1, {"--set", "spec.command=[\"lockstep-trainr\"]"}));
  EXPECT_EQ(command.wait(), 127);
  EXPECT_EQ(command.err(),
            "lockstep run: the command \"lockstep-trainr\" was found neither beside lockstep nor in PATH\n");
}

TEST_F(Run, an_interrupt_ends_everything) {
  Command command(words("exec sleep 100", 3));
  ASSERT_TRUE(command.await_output("Running")) << command.out() << command.err();
  // While a process starts another program, it has no environment for a moment.
  EXPECT_TRUE(eventually(10s, [&] { return command.processes().size() >= 3U + 3U + 2U; }));
  command.signal(SIGINT);
  EXPECT_EQ(command.wait(20s), 128 + SIGINT) << command.out() << command.err();
  EXPECT_NE(command.out().find("test was stopped after"), std::string::npos) << command.out();
  EXPECT_TRUE(command.await_no_process());
}

TEST_F(Run, a_second_interrupt_does_not_wait) {
  Command command(words("trap : TERM INT; while :; do sleep 1; done", 2));
  ASSERT_TRUE(command.await_output("Running")) << command.out() << command.err();
  command.signal(SIGINT);
  ASSERT_TRUE(command.await_output("stopping"));
  const auto start = std::chrono::steady_clock::now();
  command.signal(SIGINT);
  EXPECT_EQ(command.wait(20s), 128 + SIGINT);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_TRUE(command.await_no_process());
}

TEST_F(Run, a_killed_lockstep_leaves_no_process) {
  // With orphaned daemons that have sessions of their own.
  Command command(
      words("setsid sh -c \"sleep 100 & sleep 100\" & trap : TERM; echo up; while :; do sleep 1; done", 2, {"--logs"}));
  ASSERT_TRUE(command.await_output("[0] up")) << command.out() << command.err();
  command.signal(SIGKILL);
  EXPECT_EQ(command.wait(), 1000 + SIGKILL);
  EXPECT_TRUE(command.await_no_process(20s));
}

TEST_F(Run, a_port_in_use_is_a_reason) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  Command command(words("true", 1, {"--set", "spec.rendezvous.port=" + port, "--set", "spec.restart.maxRestarts=0"}));
  EXPECT_EQ(command.wait(), 1) << command.out() << command.err();
  EXPECT_NE(command.out().find("PortInUse"), std::string::npos) << command.out();
  EXPECT_NE(command.out().find("port " + port), std::string::npos) << command.out();
  EXPECT_TRUE(command.await_no_process());
  close(fd);
}

TEST_F(Run, a_rank_to_be_killed_must_exist) {
  Command command(words("true", 2, {"--kill-worker", "2@5"}));
  EXPECT_EQ(command.wait(), 1);
  EXPECT_EQ(command.err(), "lockstep run: --kill-worker 2@5: the job has ranks 0 to 1\n");
}

TEST_F(Run, json_output_ends_with_the_result) {
  Command command(words("true", 1, {"--json"}));
  ASSERT_EQ(command.wait(), 0) << command.out() << command.err();
  const std::string out = command.out();
  const std::string last = out.substr(out.rfind('\n', out.size() - 2) + 1);
  EXPECT_TRUE(last.starts_with("{\"result\":")) << out;
}

}  // namespace
}  // namespace lockstep::cli::run_test
