#include "trainer/comm/shared_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

#include "operator/base/unique_fd.h"
#include "trainer/comm/wire.h"

namespace lockstep::trainer::comm {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(SegmentHeader) <= 4096);

std::string segment_name(const std::string& tag, std::uint64_t generation, std::uint32_t rank) {
  return fmt::format("lockstep-{}-g{}-r{}", tag, generation, rank);
}

// A process that was killed between creating its segment and unlinking it leaves the file behind.
void remove_left_overs(const std::string& dir, const std::string& tag, std::uint64_t generation, std::uint32_t rank) {
  DIR* listing = ::opendir(dir.c_str());
  if (listing == nullptr) return;
  const std::string prefix = fmt::format("lockstep-{}-g", tag);
  while (const dirent* entry = ::readdir(listing)) {
    const std::string name = entry->d_name;
    if (name.rfind(prefix, 0) != 0) continue;
    char* end = nullptr;
    const std::uint64_t theirs = std::strtoull(name.c_str() + prefix.size(), &end, 10);
    if (theirs < generation || (theirs == generation && std::string(end) == fmt::format("-r{}", rank))) {
      ::unlink((dir + "/" + name).c_str());
    }
  }
  ::closedir(listing);
}

Error system_error(const std::string& what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == ENOMEM || error == EMFILE || error == ENFILE;
  return fail(full ? ErrorCode::kExhausted : ErrorCode::kUnavailable,
              fmt::format("{}: {}", what, std::strerror(error)));
}

}  // namespace

std::uint64_t memory_id(const std::string& dir) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat status {};
  if (!std::getline(file, boot) || boot.empty() || ::stat(dir.c_str(), &status) != 0) return 0;
  const auto digest = sha256(fmt::format("{} {}", boot, status.st_dev));
  std::uint64_t id = 0;
  std::memcpy(&id, digest.data(), sizeof id);
  return id;
}

Segment::Segment(std::string dir, std::string name, void* memory, size_t bytes, size_t capacity, bool owner)
    : dir_(std::move(dir)),
      name_(std::move(name)),
      memory_(memory),
      bytes_(bytes),
      capacity_(capacity),
      owner_(owner),
      linked_(owner) {}

Segment::~Segment() {
  unlink();
  ::munmap(memory_, bytes_);
}

void Segment::unlink() {
  if (owner_ && linked_) ::unlink((dir_ + "/" + name_).c_str());
  linked_ = false;
}

Result<std::unique_ptr<Segment>> Segment::create(const std::string& dir, const std::string& tag,
                                                 std::uint64_t generation, std::uint32_t rank, size_t capacity) {
  remove_left_overs(dir, tag, generation, rank);
  if (capacity != 0) capacity = std::bit_ceil(std::clamp(capacity, size_t{4096}, size_t{1} << 30));
  const size_t bytes = kRingOffset + capacity;
  const std::string name = segment_name(tag, generation, rank);
  const std::string path = dir + "/" + name;
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return system_error("making " + path, errno);
  // Reserved now: a full /dev/shm must be an error here, not SIGBUS at a later write.
  if (const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    ::unlink(path.c_str());
    return system_error(fmt::format("reserving {} bytes in {}", bytes, dir), error);
  }
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    ::unlink(path.c_str());
    return system_error("mapping " + path, error);
  }
  auto* header = new (memory) SegmentHeader;
  header->generation = generation;
  header->capacity = capacity;
  header->rank = rank;
  return std::unique_ptr<Segment>(new Segment(dir, name, memory, bytes, capacity, true));
}

Result<std::unique_ptr<Segment>> Segment::open(const std::string& dir, const std::string& name,
                                               std::uint64_t generation, std::uint32_t rank) {
  if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos) {
    return fail(ErrorCode::kCorrupt, "the offered shared-memory name is not a file name");
  }
  const std::string path = dir + "/" + name;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return system_error("opening " + path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return system_error("reading the size of " + path, errno);
  const auto bytes = static_cast<size_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || bytes < kRingOffset) {
    return fail(ErrorCode::kCorrupt, path + " is not a shared-memory segment of a rank");
  }
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return system_error("mapping " + path, errno);
  const auto& header = *static_cast<const SegmentHeader*>(memory);
  const size_t capacity = header.capacity;
  const bool fits =
      capacity == 0 ? bytes == kRingOffset : std::has_single_bit(capacity) && capacity == bytes - kRingOffset;
  if (header.magic != SegmentHeader::kMagic || header.generation != generation || header.rank != rank || !fits) {
    ::munmap(memory, bytes);
    return fail(ErrorCode::kCorrupt, path + " is not the shared-memory segment of that rank and generation");
  }
  return std::unique_ptr<Segment>(new Segment(dir, name, memory, bytes, capacity, false));
}

// Counters are stored and loaded with sequential consistency. One side moves the counter and asks whether the other
// sleeps; the other goes to sleep and asks whether the counter moved. At least one answer must be yes.

IoResult SharedSink::write(std::span<const iovec> pieces) {
  const size_t capacity = own_.capacity();
  const std::uint64_t written = own_.header().written.load(std::memory_order_relaxed);
  const std::uint64_t consumed = next_.header().consumed.load();
  if (consumed > written || written - consumed > capacity) {
    sane_ = false;
    return {.ended = true};
  }
  size_t room = capacity - static_cast<size_t>(written - consumed);
  std::uint64_t at = written;
  for (const iovec& piece : pieces) {
    const auto* from = static_cast<const std::byte*>(piece.iov_base);
    size_t left = std::min(piece.iov_len, room);
    room -= left;
    while (left > 0) {
      const size_t offset = at & (capacity - 1);
      const size_t n = std::min(left, capacity - offset);
      std::memcpy(own_.ring() + offset, from, n);
      from += n;
      at += n;
      left -= n;
    }
    if (room == 0) break;
  }
  if (at != written) own_.header().written.store(at);
  return {.bytes = static_cast<size_t>(at - written)};
}

IoResult SharedSource::peek(std::span<const std::byte>& out) {
  const size_t capacity = previous_.capacity();
  const std::uint64_t consumed = own_.header().consumed.load(std::memory_order_relaxed);
  const std::uint64_t written = previous_.header().written.load();
  out = {};
  if (consumed > written || written - consumed > capacity) return {.ended = true};
  const size_t offset = consumed & (capacity - 1);
  const size_t n = std::min(static_cast<size_t>(written - consumed), capacity - offset);
  out = {previous_.ring() + offset, n};
  return {.bytes = n};
}

IoResult SharedSource::read(std::span<std::byte> to) {
  std::span<const std::byte> there;
  IoResult result = peek(there);
  const size_t n = std::min(there.size(), to.size());
  if (n > 0) {
    std::memcpy(to.data(), there.data(), n);
    consume(n);
  }
  result.bytes = n;
  return result;
}

void SharedSource::consume(size_t bytes) {
  std::atomic<std::uint64_t>& consumed = own_.header().consumed;
  consumed.store(consumed.load(std::memory_order_relaxed) + bytes);
}

}  // namespace lockstep::trainer::comm
