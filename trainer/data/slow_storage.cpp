#include "trainer/data/slow_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::trainer::data {

MonotonicTime AnswerTimes::next(MonotonicTime now, std::uint64_t bytes) {
  free_ = std::max(free_, now);
  if (figures_.bytes_per_second > 0) {
    const std::chrono::duration<double> passing(static_cast<double>(bytes) / figures_.bytes_per_second);
    free_ += std::chrono::duration_cast<Duration>(passing);
  }
  return free_ + figures_.latency;
}

struct SlowStorage::Shared {
  Shared(const StorageFigures& figures, Clock& of) : clock(of), times(figures) {}

  // Waits for the answer to a request for `bytes`.
  void wait(std::uint64_t bytes) {
    std::unique_lock lock(mutex);
    if (!begun) return;
    const MonotonicTime answer = times.next(clock.now(), bytes);
    while (clock.now() < answer) clock.wait_until(lock, never, answer);
  }

  Clock& clock;
  std::mutex mutex;
  std::condition_variable never;  // nobody notifies it
  bool begun = false;             // by mutex
  AnswerTimes times;              // by mutex
};

namespace {

class SlowFile final : public DataFile {
 public:
  SlowFile(std::unique_ptr<DataFile> inner, std::function<void(std::uint64_t)> wait)
      : inner_(std::move(inner)), wait_(std::move(wait)) {}
  const std::string& path() const override { return inner_->path(); }
  FileState state() const override { return inner_->state(); }
  Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    wait_(to.size());
    return inner_->read(offset, to);
  }
  Status unchanged() const override { return inner_->unchanged(); }

 private:
  const std::unique_ptr<DataFile> inner_;
  const std::function<void(std::uint64_t)> wait_;
};

struct Stored {
  FileState state;
  std::vector<std::byte> bytes;
};

class StoredFile final : public DataFile {
 public:
  StoredFile(std::string path, std::shared_ptr<const Stored> stored)
      : path_(std::move(path)), stored_(std::move(stored)) {}
  const std::string& path() const override { return path_; }
  FileState state() const override { return stored_->state; }
  Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    const std::uint64_t size = stored_->bytes.size();
    if (offset > size || to.size() > size - offset) {
      return fail(ErrorCode::kUnavailable, fmt::format("data '{}' ends at offset {}", path_, size));
    }
    std::memcpy(to.data(), stored_->bytes.data() + offset, to.size());
    return {};
  }
  Status unchanged() const override { return {}; }

 private:
  const std::string path_;
  const std::shared_ptr<const Stored> stored_;
};

struct Memory {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Stored>> files;  // by mutex
  std::uint64_t bytes = 0;  // of the files and of those that are being read; by mutex
};

}  // namespace

SlowStorage::SlowStorage(const StorageFigures& figures, Clock& clock)
    : shared_(std::make_shared<Shared>(figures, clock)) {}

OpenFile SlowStorage::over(OpenFile open) const {
  return [shared = shared_, open = std::move(open)](const std::string& path) -> Result<std::unique_ptr<DataFile>> {
    shared->wait(0);
    LOCKSTEP_TRY(auto file, open(path));
    return std::unique_ptr<DataFile>(
        std::make_unique<SlowFile>(std::move(file), [shared](std::uint64_t bytes) { shared->wait(bytes); }));
  };
}

void SlowStorage::begin() {
  const std::lock_guard guard(shared_->mutex);
  shared_->begun = true;
}

OpenFile in_memory(OpenFile open, std::uint64_t most_bytes) {
  const auto memory = std::make_shared<Memory>();
  return [memory, open = std::move(open), most_bytes](const std::string& path) -> Result<std::unique_ptr<DataFile>> {
    const auto stored_file = [&](std::shared_ptr<const Stored> stored) {
      return std::unique_ptr<DataFile>(std::make_unique<StoredFile>(path, std::move(stored)));
    };
    {
      const std::lock_guard guard(memory->mutex);
      const auto found = memory->files.find(path);
      if (found != memory->files.end()) return stored_file(found->second);
    }
    LOCKSTEP_TRY(const auto file, open(path));
    const std::uint64_t size = file->size();
    {
      const std::lock_guard guard(memory->mutex);
      if (size > most_bytes - memory->bytes) {
        return fail(ErrorCode::kExhausted,
                    fmt::format("the data has more than {} MiB, up to '{}', and is not read into "
                                "memory",
                                most_bytes >> 20, path));
      }
      memory->bytes += size;
    }
    auto stored = std::make_shared<Stored>(Stored{.state = file->state(), .bytes = std::vector<std::byte>(size)});
    const Status read = file->read(0, stored->bytes);
    const std::lock_guard guard(memory->mutex);
    if (!read) {
      memory->bytes -= size;
      return read.error();
    }
    memory->files[path] = stored;
    return stored_file(std::move(stored));
  };
}

}  // namespace lockstep::trainer::data
