// A file of a data set, wherever it is stored, and reading it with patience.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "operator/base/clock.h"
#include "operator/base/result.h"

namespace lockstep::trainer::data {

// What changes when a file is written to.
struct FileState {
  std::uint64_t size = 0;
  std::int64_t modified = 0;  // ns since 1970

  friend bool operator==(const FileState&, const FileState&) = default;
};

// `key`, mixed with a file's path and state: another one as soon as either differs.
std::uint64_t mix_in(std::uint64_t key, std::string_view path, const FileState& state);

// Any number of threads.
class DataFile {
 public:
  virtual ~DataFile() = default;

  virtual const std::string& path() const = 0;
  // At the opening.
  virtual FileState state() const = 0;
  std::uint64_t size() const { return state().size; }
  // Fills `to` with the bytes from `offset` on. kUnavailable: the storage does not answer, or the file is shorter than
  // it was; either may pass. The sentence names file and offset.
  virtual Status read(std::uint64_t offset, std::span<std::byte> to) const = 0;
  // Compares the state with that at the opening. As was_written_to(), if it differs: the bytes that were read prove
  // nothing then. kUnavailable: the storage does not answer.
  virtual Status unchanged() const = 0;
};

// Says that `path` cannot be read because of `number`, a value of errno. kNotFound, kForbidden, kExhausted
// (descriptors), kInvalid (the path cannot be that of a file) or kUnavailable, which alone may pass.
Error cannot_read_data(const std::string& path, int number);
// The same of the bytes from `offset` on.
Error cannot_read_data(const std::string& path, int number, std::uint64_t offset);

// kInvalid: says so of the file.
Error was_written_to(const std::string& path);

// A regular file of a mounted file system. It cannot be opened: as cannot_read_data(). kInvalid: it is a folder, a pipe
// or a device, which is refused without waiting for it; the sentence names it.
Result<std::unique_ptr<DataFile>> open_data_file(const std::string& path);

// The seam to storage: as open_data_file(). Any number of threads.
using OpenFile = std::function<Result<std::unique_ptr<DataFile>>(const std::string& path)>;

// Repeats calls that failed because the storage does not answer. Any number of threads.
class PatientReader {
 public:
  // A call that fails is given up when the storage has not answered for `patience`.
  explicit PatientReader(Duration patience) : patience_(patience) {}

  // As DataFile::read(). kCancelled: `abort` became true.
  Status read(const DataFile& file, std::uint64_t offset, std::span<std::byte> to, const std::atomic<bool>& abort);
  // As DataFile::unchanged(). kCancelled: `abort` became true.
  Status unchanged(const DataFile& file, const std::atomic<bool>& abort);
  // Calls `work` until its error is not kUnavailable, and returns its result. `verb` says what it does to `path`, for
  // sentences: "opening". kCancelled: `abort` became true.
  Status attempt(const char* verb, const std::string& path, const std::atomic<bool>& abort,
                 const std::function<Status()>& work);
  // kDeadlineExceeded: a call has neither succeeded nor failed for longer than the patience, so its thread hangs in the
  // kernel, where no abort reaches it. The sentence names what it does, and the file.
  Status answers() const;
  // Call it after an `abort` became true.
  void wake();

 private:
  struct Call {
    const char* verb = "";
    const std::string* path = nullptr;
    std::optional<std::uint64_t> offset;        // of a read
    std::chrono::steady_clock::time_point end;  // of the patience

    std::string in_words() const;
  };
  Status until_it_ends(Call call, const std::atomic<bool>& abort, const std::function<Status()>& work);

  const Duration patience_;
  mutable std::mutex mutex_;  // held between a look at an abort and the wait
  std::condition_variable woken_;
  std::list<Call> calls_;  // that have not returned, the oldest first; by mutex_
};

}  // namespace lockstep::trainer::data
