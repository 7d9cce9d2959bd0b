/* The process that holds a pod's namespaces open: sleeps until it is asked to end, and collects orphans meanwhile. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int number) {
  (void)number;
  _exit(0);
}

static void collect(int number) {
  (void)number;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

int main(void) {
  signal(SIGTERM, leave);
  signal(SIGINT, leave);
  signal(SIGCHLD, collect);
  for (;;) pause();
}
