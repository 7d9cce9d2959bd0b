#include "trainer/data/image_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <new>
#include <random>
#include <span>
#include <system_error>
#include <utility>

#include "operator/base/log.h"
#include "operator/base/unique_fd.h"
#include "trainer/data/crc32c.h"
#include "trainer/data/image_folder.h"

namespace lockstep::trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMagic = 0x3145'4741'4d49'534cU;  // "LSIMAGE1"
constexpr std::size_t kFolders = 1024;                    // so that none has millions of files
constexpr int kTries = 1000;                              // to lock a file that is locked for microseconds
constexpr auto kAbandoned = std::chrono::hours(1);        // a part as old as this is of a process that was killed

// What a file of the folder begins with; the JPEG follows.
struct Header {
  std::uint64_t magic = kMagic;
  std::uint64_t version = 0;
  std::uint64_t number = 0;
  std::int64_t label = 0;
  std::uint64_t bytes = 0;  // of the JPEG
  std::uint64_t crc = 0;    // CRC-32C of the header with 0 here, and of the JPEG
};

std::uint64_t checksum(Header header, std::span<const std::byte> jpeg) {
  header.crc = 0;
  const std::uint64_t head = crc32c(std::as_bytes(std::span(&header, 1)));
  return head << 32 | crc32c(jpeg);
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

bool read_all(int fd, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::read(fd, to.data(), to.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

// Process ids do not do: containers that share a folder have the same.
std::uint64_t fresh_token() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

Error cannot_use(const std::string& folder, int number) {
  const ErrorCode code = number == EACCES || number == EPERM || number == EROFS ? ErrorCode::kForbidden
                         : number == ENOSPC || number == EDQUOT                 ? ErrorCode::kExhausted
                         : number == ENOENT                                     ? ErrorCode::kNotFound
                         : number == ENOTDIR || number == ENAMETOOLONG          ? ErrorCode::kInvalid
                                                                                : ErrorCode::kUnavailable;
  return fail(code, fmt::format("cannot keep images in '{}': {}", folder, std::strerror(number)));
}

}  // namespace

// The files of one version of a data set: FOLDER/lockstep-images/VERSION/NUMBER % 1024/NUMBER. The processes that share
// the folder add up the bytes of all versions in the file FOLDER/lockstep-images/used, under its lock.
class ImageCache::Folder {
 public:
  static Result<std::unique_ptr<Folder>> open(const ImageCacheOptions& options, std::uint64_t version) {
    std::unique_ptr<Folder> folder(new Folder(options, version));
    LOCKSTEP_CHECK_OK(folder->prepare());
    return folder;
  }
  std::string path_of(std::size_t number) const {
    return fmt::format("{}/{:03x}/{}", root_, number % kFolders, number);
  }

  // Whether the image is there. One whose bytes do not fit their checksum is removed.
  bool read(std::size_t number, ImageExample& to) {
    const std::string path = path_of(number);
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) return false;
    Header header;
    struct stat status {};
    const bool begins = ::fstat(fd.get(), &status) == 0 &&
                        read_all(fd.get(), std::as_writable_bytes(std::span(&header, 1))) && header.magic == kMagic &&
                        header.version == version_ && header.number == number && header.bytes <= kMaxImageBytes &&
                        static_cast<std::uint64_t>(status.st_size) == sizeof header + header.bytes;
    if (begins) {
      to.encoded.resize(header.bytes);
      const auto jpeg = std::as_writable_bytes(std::span(to.encoded));
      if (read_all(fd.get(), jpeg) && header.crc == checksum(header, jpeg)) {
        to.label = header.label;
        return true;
      }
    }
    if (::unlink(path.c_str()) == 0) give_back(static_cast<std::uint64_t>(status.st_size));
    return false;
  }

  // Keeps the image if there is room for it.
  void write(std::size_t number, const ImageExample& image) {
    if (closed_.load()) return;
    const auto jpeg = std::as_bytes(std::span(image.encoded));
    Header header{.version = version_, .number = number, .label = image.label, .bytes = jpeg.size()};
    header.crc = checksum(header, jpeg);
    const std::uint64_t bytes = sizeof header + jpeg.size();
    if (!claim(bytes)) return;  // a smaller one may fit
    const std::string part = fmt::format("{}/parts/{:016x}-{}", root_, token_, parts_.fetch_add(1));
    const UniqueFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    const bool written = fd && write_all(fd.get(), std::as_bytes(std::span(&header, 1))) && write_all(fd.get(), jpeg);
    const bool linked = written && ::link(part.c_str(), path_of(number).c_str()) == 0;
    const int number_of_error = errno;
    if (fd) ::unlink(part.c_str());
    if (linked) return;
    give_back(bytes);
    if (written && number_of_error == EEXIST) return;  // another process was first
    if (closed_.exchange(true)) return;
    log::warn("no more images are kept on the local disk",
              {{"folder", root_}, {"why", std::strerror(number_of_error)}});
  }

 private:
  Folder(const ImageCacheOptions& options, std::uint64_t version)
      : all_(options.folder + "/lockstep-images"),
        root_(fmt::format("{}/{:016x}", all_, version)),
        most_(options.folder_bytes),
        version_(version) {}

  Status prepare() {
    std::error_code error;
    fs::create_directories(root_ + "/parts", error);
    for (std::size_t i = 0; i < kFolders && !error; ++i)
      fs::create_directory(fmt::format("{}/{:03x}", root_, i), error);
    if (error) return cannot_use(root_, error.value());
    used_ = UniqueFd(::open((all_ + "/used").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!used_) return cannot_use(root_, errno);
    sweep();
    return {};
  }

  bool claim(std::uint64_t bytes) {
    return count([&](std::uint64_t& used) {
      if (bytes > most_ || used > most_ - bytes) return false;
      used += bytes;
      return true;
    });
  }
  void give_back(std::uint64_t bytes) {
    count([&](std::uint64_t& used) {
      used -= std::min(used, bytes);
      return true;
    });
  }
  // Changes the number of bytes in `used_`. False: `change` says so, another process holds the lock, or the file cannot
  // be written.
  bool count(const std::function<bool(std::uint64_t&)>& change) {
    const std::lock_guard guard(counting_);  // the lock of the file is one for all threads of a process
    bool locked = false;  // without a long wait: a process may have been stopped while it held the lock
    for (int i = 0; i < kTries && !locked; ++i) {
      if (i > 0) ::sched_yield();
      locked = ::flock(used_.get(), LOCK_EX | LOCK_NB) == 0;
    }
    if (!locked) return false;
    std::uint64_t used = 0;  // a new file is empty
    const ssize_t got = ::pread(used_.get(), &used, sizeof used, 0);
    bool changed = (got == 0 || got == sizeof used) && change(used);
    if (changed) changed = ::pwrite(used_.get(), &used, sizeof used, 0) == sizeof used;
    ::flock(used_.get(), LOCK_UN);
    return changed;
  }

  // Their bytes stay counted: what a killed process had claimed is not known.
  void sweep() const {
    std::error_code error;
    for (fs::directory_iterator it(root_ + "/parts", error), end; !error && it != end; it.increment(error)) {
      std::error_code gone;
      const auto written = it->last_write_time(gone);
      if (!gone && written < fs::file_time_type::clock::now() - kAbandoned) fs::remove(it->path(), gone);
    }
  }

  const std::string all_;
  const std::string root_;
  const std::uint64_t most_;
  const std::uint64_t version_;
  const std::uint64_t token_ = fresh_token();  // of this process, in names of files
  std::mutex counting_;
  UniqueFd used_;  // a file with the bytes of all others, by counting_ and its lock
  std::atomic<std::uint64_t> parts_{0};
  std::atomic<bool> closed_{false};  // a write failed: nothing more is kept
};

ImageCache::ImageCache(std::shared_ptr<const ImageStore> storage, const ImageCacheOptions& options)
    : storage_(std::move(storage)), memory_bytes_(options.memory_bytes), images_(memory_bytes_ > 0 ? count() : 0) {}

ImageCache::~ImageCache() = default;

Result<std::shared_ptr<ImageCache>> ImageCache::over(std::shared_ptr<const ImageStore> storage,
                                                     const ImageCacheOptions& options) {
  std::shared_ptr<ImageCache> cache(new ImageCache(std::move(storage), options));
  if (!options.folder.empty()) {
    LOCKSTEP_TRY(cache->folder_, Folder::open(options, cache->version()));
  }
  return cache;
}

std::shared_ptr<const ImageExample> ImageCache::in_memory(std::size_t number) const {
  if (memory_bytes_ == 0) return nullptr;
  const std::lock_guard guard(mutex_);
  return images_[number];
}

bool ImageCache::keep_in_memory(std::size_t number, const ImageExample& image) const {
  const std::uint64_t bytes = sizeof image + image.encoded.size();
  if (memory_bytes_ < bytes) return false;
  {
    const std::lock_guard guard(mutex_);
    if (images_[number]) return true;
    if (used_ > memory_bytes_ - bytes) return false;
    used_ += bytes;
  }
  std::shared_ptr<const ImageExample> kept;
  try {
    kept = std::make_shared<const ImageExample>(ImageExample{.encoded = image.encoded, .label = image.label});
  } catch (const std::bad_alloc&) {  // the image need not be kept
  }
  const std::lock_guard guard(mutex_);
  if (images_[number] || !kept) {
    used_ -= bytes;  // another thread was first, or there is no memory
  } else {
    images_[number] = std::move(kept);
  }
  return true;
}

Status ImageCache::read(std::size_t number, PatientReader& reader, const std::atomic<bool>& abort,
                        StoredImage& to) const {
  if (const auto image = in_memory(number)) {
    to.example = *image;
    ++from_memory_;
    return {};
  }
  bool found = false;
  if (folder_) {
    LOCKSTEP_CHECK_OK(reader.attempt("reading", folder_->path_of(number), abort, [&]() -> Status {
      found = folder_->read(number, to.example);
      return {};
    }));
  }
  if (found) {
    ++from_folder_;
    keep_in_memory(number, to.example);
    return {};
  }
  LOCKSTEP_CHECK_OK(storage_->read(number, reader, abort, to));
  ++from_storage_;
  if (keep_in_memory(number, to.example) || !folder_) return {};
  return reader.attempt("writing", folder_->path_of(number), abort, [&]() -> Status {
    folder_->write(number, to.example);
    return {};
  });
}

CacheReads ImageCache::reads() const {
  return {.memory = from_memory_.load(), .folder = from_folder_.load(), .storage = from_storage_.load()};
}

}  // namespace lockstep::trainer::data
