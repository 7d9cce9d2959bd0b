#include "operator/local/mounts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;

bool write_file(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t written = write(fd, text.data(), text.size());
  const int error = errno;
  close(fd);
  errno = error;
  return written == static_cast<ssize_t>(text.size());
}

int bind(const std::string& from, const std::string& to) {
  return mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr);
}

// A remount must repeat the flags of the file system: a user namespace cannot remove them.
int make_read_only(const char* path) {
  struct statvfs info {};
  if (statvfs(path, &info) != 0) return -1;
  unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY;
  if ((info.f_flag & ST_NOSUID) != 0) flags |= MS_NOSUID;
  if ((info.f_flag & ST_NODEV) != 0) flags |= MS_NODEV;
  if ((info.f_flag & ST_NOEXEC) != 0) flags |= MS_NOEXEC;
  if ((info.f_flag & ST_NOATIME) != 0) flags |= MS_NOATIME;
  if ((info.f_flag & ST_RELATIME) != 0) flags |= MS_RELATIME;
  return mount(nullptr, path, nullptr, flags, nullptr);
}

}  // namespace

Result<MountPlan> MountPlan::make(const std::vector<Mount>& mounts, const std::string& scratch) {
  MountPlan plan;
  plan.scratch_ = scratch;
  plan.uid_map_ = std::to_string(geteuid()) + " " + std::to_string(geteuid()) + " 1\n";
  plan.gid_map_ = std::to_string(getegid()) + " " + std::to_string(getegid()) + " 1\n";
  std::error_code error;
  struct Wanted {
    fs::path source, target;
    bool read_only, exists;
  };
  std::vector<Wanted> wanted;
  for (const Mount& mount : mounts) {
    const fs::path target = fs::weakly_canonical(mount.target, error);
    if (error || !fs::path(mount.target).is_absolute() || target == "/") {
      return fail(ErrorCode::kInvalid, "a volume cannot be mounted at \"" + mount.target + "\"");
    }
    const fs::path source = fs::weakly_canonical(mount.source, error);
    if (!error && source == target && !mount.read_only) continue;  // it is mounted already
    wanted.push_back({source, target, mount.read_only, fs::is_directory(target, error)});
    if (!wanted.back().exists && fs::exists(target, error)) {
      return fail(ErrorCode::kInvalid, "a volume cannot be mounted at \"" + mount.target + "\": it is a file");
    }
  }
  if (wanted.empty()) return plan;
  // Outer before inner, so that an inner one is not hidden.
  std::sort(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) { return a.target < b.target; });

  // Folders that the new root must have of its own, because something in them is missing on the machine.
  std::set<fs::path> own;
  for (const Wanted& one : wanted) {
    const bool inside_another = std::any_of(wanted.begin(), wanted.end(), [&](const Wanted& other) {
      const fs::path rest = one.target.lexically_relative(other.target);
      return rest != "." && !rest.empty() && *rest.begin() != "..";
    });
    if (one.exists || inside_another) continue;
    for (fs::path up = one.target.parent_path(); own.insert(up).second && up != "/"; up = up.parent_path()) {
    }
  }
  plan.own_root_ = !own.empty();
  const std::string root = plan.own_root_ ? scratch : "";
  const auto at = [&](const fs::path& path) { return path == "/" && !root.empty() ? root : root + path.string(); };
  for (const fs::path& folder : own) {  // sorted: parents first
    if (folder != "/") plan.steps_.push_back({Step::Kind::kFolder, at(folder), ""});
    for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, error)) {
      const fs::path& path = entry.path();
      if (own.count(path) > 0) continue;
      if (entry.is_symlink(error)) {
        const fs::path says = fs::read_symlink(path, error);
        plan.steps_.push_back({Step::Kind::kLink, at(path), says.string()});
        continue;
      }
      plan.steps_.push_back({entry.is_directory(error) ? Step::Kind::kFolder : Step::Kind::kFile, at(path), ""});
      plan.steps_.push_back({Step::Kind::kShow, at(path), path.string()});
    }
  }
  for (const Wanted& one : wanted) {
    if (!one.exists) plan.steps_.push_back({Step::Kind::kFolder, at(one.target), ""});
    plan.steps_.push_back({Step::Kind::kBind, at(one.target), one.source.string()});
    if (one.read_only) plan.steps_.push_back({Step::Kind::kReadOnly, at(one.target), ""});
  }
  return plan;
}

int MountPlan::enter(const char** what) const {
  *what = "a mount namespace";
  // Root of the machine needs no user namespace; root inside a container without CAP_SYS_ADMIN does.
  if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0) {
    *what = "a user namespace";
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return -1;
    if (!write_file("/proc/self/setgroups", "deny") && errno != ENOENT) return -1;
    if (!write_file("/proc/self/uid_map", uid_map_) || !write_file("/proc/self/gid_map", gid_map_)) return -1;
  }
  *what = "private mounts";
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return -1;
  if (own_root_) {
    *what = "a root of its own";
    if (mount("tmpfs", scratch_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=16m") != 0) return -1;
  }
  for (const Step& step : steps_) {
    *what = step.path.c_str();
    switch (step.kind) {
      case Step::Kind::kFolder:
        if (mkdir(step.path.c_str(), 0755) != 0 && errno != EEXIST) return -1;
        break;
      case Step::Kind::kFile: {
        const int fd = open(step.path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (fd < 0) return -1;
        close(fd);
        break;
      }
      case Step::Kind::kLink:
        if (symlink(step.from.c_str(), step.path.c_str()) != 0 && errno != EEXIST) return -1;
        break;
      case Step::Kind::kShow:
        // Folders that the machine hides from this user stay hidden.
        if (bind(step.from, step.path) != 0 && errno != EACCES && errno != EPERM && errno != ENOENT) return -1;
        break;
      case Step::Kind::kBind:
        if (bind(step.from, step.path) != 0) return -1;
        break;
      case Step::Kind::kReadOnly:
        if (make_read_only(step.path.c_str()) != 0) return -1;
        break;
    }
  }
  if (own_root_) {
    *what = "the change of the root";
    if (chdir(scratch_.c_str()) != 0 || syscall(SYS_pivot_root, ".", ".") != 0) return -1;
    if (umount2(".", MNT_DETACH) != 0 || chdir("/") != 0) return -1;
  }
  return 0;
}

Status mounts_permitted() {
  const pid_t child = fork();
  if (child == 0) {
    const bool fine = (geteuid() == 0 && unshare(CLONE_NEWNS) == 0) || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    _exit(fine && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 ? 0 : 1);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return fail(ErrorCode::kForbidden,
              "this kernel does not let this user mount folders (user namespaces are off): see the settings "
              "user.max_user_namespaces and kernel.unprivileged_userns_clone of sysctl");
}

}  // namespace lockstep::local
