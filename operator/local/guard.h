// A guard around a process that starts others: whichever of the two is killed, no process of theirs stays behind.
//
// The guard is the process that the user started; the work runs in its child, in a process group of its own. The
// guard passes signals on, adopts what the child leaves behind when it dies, and kills that. The child is told
// (SIGTERM) when the guard dies. Between them, even `kill -9` of either ends everything.
#pragma once

#include <functional>

namespace lockstep::local {

// Runs `work` in a child and returns its exit code, or 128 + the signal that ended it. Call before any thread exists.
// In the child SIGINT, SIGTERM, SIGHUP and SIGQUIT are blocked: read them with sigwaitinfo() or a signalfd. A child
// killed by a signal is announced on standard error.
int run_guarded(const std::function<int()>& work);

}  // namespace lockstep::local
