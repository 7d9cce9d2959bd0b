// A process that is aborted prints where its training thread is, in every activity.
#include "trainer/elastic/abort_report.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>

#include "operator/base/unique_fd.h"
#include "trainer/elastic/stop.h"

namespace lockstep::trainer::elastic {
namespace {

struct Ended {
  int status = 0;
  std::string said;  // on standard error
};

// Runs `body` in a process that has the report, and passes its number to `disturb` once `body` has begun.
Ended run(void (*body)(), void (*disturb)(pid_t)) {
  int said[2], begun[2];
  EXPECT_EQ(::pipe(said), 0);
  EXPECT_EQ(::pipe(begun), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(said[1], STDERR_FILENO);
    ::close(said[0]);
    ::close(said[1]);
    ::alarm(60);
    {
      const AbortReport report;
      StopToken stop;
      const SigtermListener listener(stop);
      EXPECT_EQ(::write(begun[1], "b", 1), 1);
      body();
    }
    ::_exit(0);
  }
  UniqueFd here(said[0]), begins(begun[0]);
  ::close(said[1]);
  ::close(begun[1]);
  char byte = 0;
  EXPECT_EQ(::read(begins.get(), &byte, 1), 1);
  disturb(child);
  Ended ended;
  char chunk[4096];
  for (ssize_t n; (n = ::read(here.get(), chunk, sizeof chunk)) > 0;) ended.said.append(chunk, static_cast<size_t>(n));
  EXPECT_EQ(::waitpid(child, &ended.status, 0), child);
  return ended;
}

bool aborted(const Ended& ended) {
  return WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGABRT;
}

void sleep_for_ever() {
  while (true) ::pause();
}

// Returns when the process waits in the kernel; before, it may still be on its way there. Only its state in /proc shows
// it.
void wait_until_asleep(pid_t process) {
  for (int i = 0; i < 10'000; ++i, ::usleep(1000)) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string line;
    std::getline(file, line);
    if (line.find(") S ") != std::string::npos) return;
  }
  ADD_FAILURE() << "the process does not sleep";
}

TEST(AbortReport, a_thread_that_sleeps_is_shown_with_its_callers) {
  const Ended ended = run(sleep_for_ever, [](pid_t child) {
    wait_until_asleep(child);
    ::kill(child, SIGABRT);
  });
  EXPECT_TRUE(aborted(ended)) << ended.status;
  EXPECT_NE(ended.said.find("aborted by SIGABRT; the thread that trains is at\n  #0 "), std::string::npos)
      << ended.said;
  EXPECT_NE(ended.said.find("pause"), std::string::npos) << ended.said;
  EXPECT_NE(ended.said.find("  #2 "), std::string::npos) << ended.said;
}

// ThreadSanitizer holds signals back while a thread calls nothing.
#ifndef __SANITIZE_THREAD__
void compute_for_ever() {
  std::atomic<std::uint64_t> count{0};
  while (true) ++count;
}

TEST(AbortReport, a_thread_that_computes_is_shown) {
  const Ended ended = run(compute_for_ever, [](pid_t child) { ::kill(child, SIGABRT); });
  EXPECT_TRUE(aborted(ended)) << ended.status;
  EXPECT_NE(ended.said.find("  #0 "), std::string::npos) << ended.said;
}

TEST(AbortReport, a_stopped_process_reports_its_stack_after_sigcont) {
  const Ended ended = run(compute_for_ever, [](pid_t child) {
    ::kill(child, SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(status));
    ::kill(child, SIGABRT);
    ::kill(child, SIGCONT);
  });
  EXPECT_TRUE(aborted(ended)) << ended.status;
  EXPECT_NE(ended.said.find("  #0 "), std::string::npos) << ended.said;
}

#endif

TEST(AbortReport, a_thread_that_no_signal_reaches_does_not_delay_the_end) {
  const Ended ended = run(
      [] {
        sigset_t all;
        sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
        sleep_for_ever();
      },
      [](pid_t child) {
        wait_until_asleep(child);
        ::kill(child, SIGABRT);
      });
  EXPECT_TRUE(aborted(ended)) << ended.status;
  EXPECT_NE(ended.said.find("does not answer"), std::string::npos) << ended.said;
}

TEST(AbortReport, abort_works_as_usual_and_an_orderly_end_prints_nothing) {
  const Ended own = run([] { ::abort(); }, [](pid_t) {});
  EXPECT_TRUE(aborted(own)) << own.status;
  const Ended quiet = run([] {}, [](pid_t) {});
  EXPECT_TRUE(WIFEXITED(quiet.status) && WEXITSTATUS(quiet.status) == 0);
  EXPECT_EQ(quiet.said, "");
}

}  // namespace
}  // namespace lockstep::trainer::elastic
