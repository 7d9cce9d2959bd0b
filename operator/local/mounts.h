// Mounts folders at the paths that a job file asks for, for one process and its children alone. They get a mount
// namespace, and a user namespace if the caller is not root. Nothing on the machine changes. If a path does not exist,
// the process gets a root of its own. That shows the machine's folders and has the missing ones in memory.
#pragma once

#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::local {

struct Mount {
  std::string source;  // existing folder or file, absolute
  std::string target;  // its path in the namespace, absolute
  bool read_only = false;

  bool operator==(const Mount&) const = default;
};

// The steps of a child process between fork and exec, planned before the fork, where memory may be allocated.
class MountPlan {
 public:
  // Reads the folders of this machine along the targets. `scratch`: an existing empty folder for the new root; only
  // used inside the namespace. kInvalid: a relative target, "/", or a target inside another that cannot hold it.
  static Result<MountPlan> make(const std::vector<Mount>& mounts, const std::string& scratch);

  bool empty() const { return steps_.empty(); }
  // In the child, before exec: enters the namespaces and takes the steps. Only system calls. Returns 0, or -1 with
  // errno set and the step that failed in `what`.
  int enter(const char** what) const;

 private:
  struct Step {
    enum class Kind { kFolder, kFile, kLink, kShow, kBind, kReadOnly } kind;  // kShow: the machine's own
    std::string path;
    std::string from;  // of a bind, or the text of a link
  };
  bool own_root_ = false;
  std::string scratch_;
  std::vector<Step> steps_;
  std::string uid_map_, gid_map_;
};

// Tests in a child process whether the kernel lets this user create such namespaces. Blocks for milliseconds.
// kForbidden with a sentence that names the setting to change.
Status mounts_permitted();

}  // namespace lockstep::local
