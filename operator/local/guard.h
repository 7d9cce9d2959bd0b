// A guard around a process that starts others: whichever of the two is killed, none of their processes stays behind.
//
// The guard is the process that the user started; the work runs in its child, in a process group of its own. The guard
// passes signals on. When the child dies, the guard adopts the processes that it left and kills them. The child gets
// SIGTERM when the guard dies. Between them, even `kill -9` of either ends everything.
#pragma once

#include <functional>

namespace lockstep::local {

// Runs `work` in a child and returns its exit code, or 128 + the signal that ended it. Call it before any thread
// exists. In the child SIGINT, SIGTERM, SIGHUP and SIGQUIT are blocked: read them with sigwaitinfo() or a signalfd.
// Prints to standard error if a signal killed the child.
int run_guarded(const std::function<int()>& work);

}  // namespace lockstep::local
