// Whichever of guard and child is killed, none of their processes stays. The test forks a guard of its own each time.
#include "operator/local/guard.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>

#include "operator/local/process.h"

namespace lockstep::local {
namespace {

// A guard in a process of its own around `work`, which gets a pipe to write to. The pipe ends when the last process
// that holds it has ended.
class Guarded {
 public:
  explicit Guarded(const std::function<int(int pipe)>& work) {
    EXPECT_EQ(pipe(pipe_.data()), 0);
    guard_ = fork();
    if (guard_ == 0) {
      close(pipe_[0]);
      _exit(run_guarded([&] {
        write_number(getpid());
        return work(pipe_[1]);
      }));
    }
    close(pipe_[1]);
    child_ = read_number();
  }
  ~Guarded() { close(pipe_[0]); }

  pid_t guard() const { return guard_; }
  pid_t child() const { return child_; }
  pid_t read_number() {
    pid_t number = -1;
    EXPECT_EQ(read(pipe_[0], &number, sizeof number), static_cast<ssize_t>(sizeof number));
    return number;
  }
  void write_number(pid_t number) const { EXPECT_GT(write(pipe_[1], &number, sizeof number), 0); }
  // The guard's exit status.
  int wait() {
    int status = 0;
    EXPECT_EQ(waitpid(guard_, &status, 0), guard_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  bool all_gone() {
    pollfd end{pipe_[0], POLLIN, 0};
    char byte = 0;
    return poll(&end, 1, 5000) == 1 && read(pipe_[0], &byte, 1) == 0;
  }

 private:
  std::array<int, 2> pipe_{};
  pid_t guard_ = -1, child_ = -1;
};

// Leaves a grandchild in a session of its own, which only adoption can find.
void leave_a_daemon() {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      while (true) pause();
    }
    _exit(0);
  }
  wait(nullptr);
}

int wait_for_signal() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM}) sigaddset(&set, number);
  return sigwaitinfo(&set, nullptr);
}

TEST(Guard, the_exit_status_of_the_work_is_its_own) {
  Guarded guarded([](int) { return 42; });
  EXPECT_EQ(guarded.wait(), 42);
}

TEST(Guard, signals_reach_the_work) {
  Guarded guarded([](int) { return wait_for_signal(); });
  kill(guarded.guard(), SIGINT);
  EXPECT_EQ(guarded.wait(), SIGINT);
}

TEST(Guard, orphans_of_the_work_are_killed) {
  Guarded guarded([](int) {
    leave_a_daemon();
    return 0;
  });
  EXPECT_EQ(guarded.wait(), 0);
  EXPECT_TRUE(guarded.all_gone());
}

TEST(Guard, a_killed_child_takes_its_descendants_with_it) {
  Guarded guarded([](int pipe) {
    leave_a_daemon();
    const pid_t done = 1;
    EXPECT_GT(write(pipe, &done, sizeof done), 0);
    return wait_for_signal();
  });
  guarded.read_number();
  kill(guarded.child(), SIGKILL);
  EXPECT_EQ(guarded.wait(), 128 + SIGKILL);
  EXPECT_TRUE(guarded.all_gone());
}

TEST(Guard, a_killed_guard_asks_the_work_to_end) {
  Guarded guarded([](int pipe) {
    const pid_t done = 1;
    EXPECT_GT(write(pipe, &done, sizeof done), 0);
    return wait_for_signal();
  });
  guarded.read_number();
  kill(guarded.guard(), SIGKILL);
  EXPECT_EQ(guarded.wait(), 1000 + SIGKILL);
  EXPECT_TRUE(guarded.all_gone());
}

}  // namespace
}  // namespace lockstep::local
