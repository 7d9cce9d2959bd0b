#include "trainer/pack/data_set_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "trainer/data/tfrecord.h"

namespace lockstep::trainer::pack {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

Error failed(const char* what, const std::string& path, int number) {
  const ErrorCode code = number == ENOSPC || number == EDQUOT                          ? ErrorCode::kExhausted
                         : number == EACCES || number == EPERM || number == EROFS      ? ErrorCode::kForbidden
                         : number == ENOENT || number == ENOTDIR                       ? ErrorCode::kNotFound
                         : number == EEXIST || number == ENOTEMPTY || number == EISDIR ? ErrorCode::kAlreadyExists
                                                                                       : ErrorCode::kUnavailable;
  return fail(code, fmt::format("cannot {} '{}': {}", what, path, std::strerror(number)));
}

// `flush`: fsync, or syncfs for all files of its file system.
Status flush_folder(const std::string& path, int (*flush)(int)) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return failed("open", path, errno);
  const int number = flush(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (number != 0) return failed("write", path, number);
  return {};
}

Error taken(const std::string& out) {
  return fail(ErrorCode::kAlreadyExists,
              fmt::format("'{}' exists and is not an empty folder; choose a name that is free", out));
}

// The folder takes this name by a rename, which some names cannot be.
Status check_name(const std::string& name) {
  const std::string last = fs::path(name).filename().string();
  if (last.empty() || last == "." || last == "..") {
    return fail(ErrorCode::kInvalid, fmt::format("'{}' is no name for a new folder", name));
  }
  struct stat there {
  }, parent{};
  if (::lstat(name.c_str(), &there) != 0) return {};  // it is new
  if (S_ISLNK(there.st_mode)) {
    return fail(ErrorCode::kInvalid, fmt::format("'{}' is a symbolic link; name the folder itself", name));
  }
  if (::stat((name + "/..").c_str(), &parent) == 0 && parent.st_dev != there.st_dev) {
    return fail(ErrorCode::kInvalid,
                fmt::format("'{0}' is a mount point; name a folder inside it: '{0}/images'", name));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<DataSetWriter>> DataSetWriter::create(const std::string& out, std::uint64_t shard_bytes) {
  std::string name = fs::path(out).lexically_normal().string();
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  std::error_code error;
  LOCKSTEP_CHECK_OK(check_name(name));
  const bool exists = fs::exists(name, error);
  if (exists && !(fs::is_directory(name, error) && fs::is_empty(name, error))) return taken(out);
  if (error) return failed("look at", name, error.value());
  std::string folder = name + ".partial-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return failed("create the folder", folder, errno);
  const ::mode_t mask = ::umask(0);
  ::umask(mask);
  if (::chmod(folder.c_str(), 0777 & ~mask) != 0) return failed("create the folder", folder, errno);
  return std::unique_ptr<DataSetWriter>(new DataSetWriter(name, folder, shard_bytes));
}

DataSetWriter::~DataSetWriter() {
  for (auto& [name, split] : splits_) {
    if (split.open.fd >= 0) ::close(split.open.fd);
  }
  std::error_code ignored;  // the name says that it is partial
  if (!finished_) fs::remove_all(folder_, ignored);
}

Status DataSetWriter::begin_shard(const std::string& split, Split& of) {
  Shard& shard = of.open;
  shard.path = fmt::format("{}/{}-{:05}", folder_, split, of.paths.size());
  shard.fd = ::open(shard.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (shard.fd < 0) return failed("create", shard.path, errno);
  shard.bytes = 0;
  of.paths.push_back(shard.path);
  ++files_;
  return {};
}

Status DataSetWriter::flush(Shard& shard) {
  std::span<const std::byte> left = shard.buffer;
  while (!left.empty()) {
    const ssize_t written = ::write(shard.fd, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("write", shard.path, errno);
    left = left.subspan(static_cast<std::size_t>(written));
  }
  shard.buffer.clear();
  return {};
}

Status DataSetWriter::close(Shard& shard) {
  LOCKSTEP_CHECK_OK(flush(shard));
  if (::fdatasync(shard.fd) != 0) return failed("write", shard.path, errno);
  return flush_and_close(shard);
}

// What it has written may be lost until the file system is flushed.
Status DataSetWriter::flush_and_close(Shard& file) {
  LOCKSTEP_CHECK_OK(flush(file));
  const int fd = std::exchange(file.fd, -1);
  if (::close(fd) != 0) return failed("write", file.path, errno);
  return {};
}

Status DataSetWriter::add(const std::string& split, std::span<const std::byte> payload) {
  Split& to = splits_[split];
  if (to.open.fd < 0) LOCKSTEP_CHECK_OK(begin_shard(split, to));
  const std::size_t before = to.open.buffer.size();
  data::append_record(payload, to.open.buffer);
  const std::size_t added = to.open.buffer.size() - before;
  bytes_ += added;
  to.open.bytes += added;
  if (to.open.buffer.size() >= kBufferBytes) LOCKSTEP_CHECK_OK(flush(to.open));
  if (to.open.bytes >= shard_bytes_) return close(to.open);
  return {};
}

Status DataSetWriter::write_file(const std::string& name, std::span<const std::byte> content,
                                 Status (*end)(Shard&)) const {
  Shard file{.path = folder_ + "/" + name};
  file.fd = ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.fd < 0) return failed("create", file.path, errno);
  file.buffer.assign(content.begin(), content.end());
  Status closed = end(file);
  if (file.fd >= 0) ::close(file.fd);
  return closed;
}

Status DataSetWriter::add_file(const std::string& folder, const std::string& name, std::span<const std::byte> content) {
  const std::string path = folder_ + "/" + folder;
  if (folders_.insert(folder).second && ::mkdir(path.c_str(), 0777) != 0) return failed("create", path, errno);
  LOCKSTEP_CHECK_OK(write_file(folder + "/" + name, content, flush_and_close));
  bytes_ += content.size();
  ++files_;
  return {};
}

Status DataSetWriter::finish(const std::vector<std::string>& classes) {
  for (auto& [name, split] : splits_) {
    if (split.open.fd >= 0) LOCKSTEP_CHECK_OK(close(split.open));
    for (const std::string& path : split.paths) {
      const std::string whole = fmt::format("{}-of-{:05}.tfrecord", path, split.paths.size());
      if (::rename(path.c_str(), whole.c_str()) != 0) return failed("rename", path, errno);
    }
  }
  const std::string names = fmt::format("{}\n", fmt::join(classes, "\n"));
  LOCKSTEP_CHECK_OK(write_file("classes.txt", std::as_bytes(std::span(names)), close));
  LOCKSTEP_CHECK_OK(flush_folder(folder_, folders_.empty() ? ::fsync : ::syncfs));
  // It replaces an empty folder and nothing else.
  if (::rename(folder_.c_str(), out_.c_str()) != 0) {
    const int number = errno;
    return number == ENOTEMPTY || number == EEXIST || number == ENOTDIR ? taken(out_) : failed("create", out_, number);
  }
  finished_ = true;
  const fs::path parent = fs::path(out_).parent_path();
  return flush_folder(parent.empty() ? "." : parent.string(), ::fsync);
}

}  // namespace lockstep::trainer::pack
