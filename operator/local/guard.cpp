#include "operator/local/guard.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "operator/local/process.h"

namespace lockstep::local {

int run_guarded(const std::function<int()>& work) {
  sigset_t passed_on, watched, before;
  sigemptyset(&passed_on);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&passed_on, number);
  watched = passed_on;
  sigaddset(&watched, SIGCHLD);
  sigprocmask(SIG_BLOCK, &watched, &before);
  adopt_orphans();
  const pid_t guard = getpid();
  fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    fprintf(stderr, "lockstep: cannot start a process: %s\n", strerror(errno));
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return 1;
  }
  if (child == 0) {
    // A group of its own, so that a terminal's Ctrl-C comes once, from the guard; writing to the terminal stays
    // allowed.
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != guard) exit(128 + SIGTERM);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    sigprocmask(SIG_BLOCK, &passed_on, nullptr);
    exit(work());
  }
  int status = 0;
  while (true) {
    siginfo_t info{};
    const int number = sigwaitinfo(&watched, &info);
    if (number == SIGCHLD && waitpid(child, &status, WNOHANG) == child) break;
    if (number > 0 && number != SIGCHLD) kill(child, number);
  }
  const int left = kill_children([](pid_t) { return false; });
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  fprintf(stderr, "lockstep: the launcher was ended by signal %d (%s); %d process%s of its job %s killed\n",
          WTERMSIG(status), strsignal(WTERMSIG(status)), left, left == 1 ? "" : "es", left == 1 ? "was" : "were");
  return 128 + WTERMSIG(status);
}

}  // namespace lockstep::local
