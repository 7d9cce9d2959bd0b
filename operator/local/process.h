// Processes of one machine that cannot outlive this one unseen. Each is watched by a pidfd, leads a session of its own
// and adopts its orphans. The kernel kills it when the thread that started it ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/result.h"
#include "operator/local/mounts.h"

namespace lockstep::local {

struct ProcessSpec {
  std::string program;                   // absolute path
  std::vector<std::string> argv;         // argv[0] too
  std::vector<std::string> environment;  // "NAME=value"
  std::string working_dir;               // inside the mounts; "" is the caller's
  std::vector<Mount> mounts;
  std::string scratch;  // see MountPlan::make(); only if there are mounts
};

struct Process {
  pid_t pid = -1;
  int pidfd = -1;   // readable once it has ended; the caller closes it
  int output = -1;  // its standard output and error; non-blocking; the caller closes it
};

// How a process ended. `exit_code` is 128 + signal if a signal killed it.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;
};

// Starts it and returns when its program runs. The calling thread must outlive the process. Errors are one sentence:
// kNotFound: the program or the working folder does not exist; kForbidden, kExhausted, kInternal.
Result<Process> start_process(const ProcessSpec& spec);

// Reaps a process that has ended (its pidfd is readable); empty if it still runs.
std::optional<ProcessEnd> reap(pid_t pid);

// Makes this process adopt the orphans of its descendants until it ends; idempotent.
void adopt_orphans();
// Children of `parent` by /proc; empty if it has none or has ended.
std::vector<pid_t> children_of(pid_t parent);
// Kills (SIGKILL) and reaps every child of this process that `spare` does not name, and their orphans, until none is
// left. Call adopt_orphans() first. Returns how many were killed.
int kill_children(const std::function<bool(pid_t)>& spare);

// The value of a variable in the environment that a process was started with; empty when unreadable.
std::optional<std::string> environment_of(pid_t pid, std::string_view name);

// Looks `command` up like a shell: a name with a slash as it is, else in `folders`, then in PATH.
std::optional<std::string> find_program(const std::string& command, const std::vector<std::string>& folders);

}  // namespace lockstep::local
