#include "trainer/checkpoint/writer.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "operator/base/log.h"
#include "operator/base/thread.h"
#include "operator/base/timestamp.h"
#include "trainer/checkpoint/files.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/shards.h"

namespace lockstep::trainer::checkpoint {
namespace {

// One write in progress: the contents, with its own copy of their bytes.
struct Work {
  std::int64_t step = 0;
  std::int64_t generation = 0;
  DataCursor cursor;
  std::string metadata;
  std::int64_t keep_step = -1;
  State state;  // its spans are into `bytes`
  std::unique_ptr<std::byte[]> bytes;
  std::string name;
  MonotonicTime since;
};

// Copies the bytes of every tensor into one block, and points the tensors there.
Status copy_state(const State& from, Work& work) {
  size_t total = 0;
  for (const auto* list : {&from.parameters, &from.optimizer}) {
    for (const NamedTensor& tensor : *list) total += tensor.bytes.size();
  }
  work.bytes.reset(new (std::nothrow) std::byte[total]);
  if (!work.bytes) return fail(ErrorCode::kExhausted, fmt::format("no memory for a copy of {} bytes of state", total));
  work.state = from;
  std::byte* at = work.bytes.get();
  for (auto* list : {&work.state.parameters, &work.state.optimizer}) {
    for (NamedTensor& tensor : *list) {
      if (!tensor.bytes.empty()) std::memcpy(at, tensor.bytes.data(), tensor.bytes.size());
      tensor.bytes = {at, tensor.bytes.size()};
      at += tensor.bytes.size();
    }
  }
  return {};
}

class FolderWriter final : public Writer {
 public:
  FolderWriter(WriterOptions options, std::int64_t lineage, std::string last_good)
      : options_(std::move(options)),
        lineage_(lineage),
        last_good_(std::move(last_good)),
        generation_(options_.generation) {
    thread_ = start_without_signals([this] { run(); });  // SIGXFSZ would end the process; so it is an error of write()
  }

  ~FolderWriter() override {
    {
      const std::lock_guard guard(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Result<bool> write(const Contents& contents, Busy busy, Duration deadline) override {
    std::unique_lock lock(mutex_);
    if (work_ && busy == Busy::kSkip) {
      if (busy_since_ && std::chrono::steady_clock::now() - *busy_since_ > deadline) return late(deadline);
      return false;
    }
    if (!changed_.wait_for(lock, deadline, [&] { return !work_; })) {
      return late(deadline);
    }
    auto work = std::make_unique<Work>();
    work->step = contents.step;
    work->cursor = contents.cursor;
    work->metadata = contents.metadata;
    work->keep_step = contents.keep_step;
    work->generation = generation_;
    work->name = folder_name(contents.step, generation_);
    work->since = std::chrono::steady_clock::now();
    if (contents.step < 0) return fail(ErrorCode::kInvalid, fmt::format("a checkpoint of step {}", contents.step));
    LOCKSTEP_TRY(const std::string unused, encode(Manifest{.metadata = contents.metadata}));
    std::vector<NamedTensor> all = contents.state.parameters;
    all.insert(all.end(), contents.state.optimizer.begin(), contents.state.optimizer.end());
    LOCKSTEP_CHECK_OK(validate(all));
    LOCKSTEP_CHECK_OK(copy_state(contents.state, *work));
    busy_since_ = work->since;
    work_ = std::move(work);
    changed_.notify_all();
    return true;
  }

  void set_generation(std::int64_t generation) override {
    const std::lock_guard guard(mutex_);
    generation_ = generation;
  }

  void confirm(std::int64_t step) override {
    const std::lock_guard guard(mutex_);
    confirmed_ = std::max(confirmed_, step);
    changed_.notify_all();
  }

  bool close(Duration deadline) override {
    std::unique_lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    return changed_.wait_for(lock, deadline, [&] { return ended_; });
  }

  std::optional<Result<Published>> poll() override {
    const std::lock_guard guard(mutex_);
    if (endings_.empty()) return std::nullopt;
    std::optional<Result<Published>> ending = std::move(endings_.front());
    endings_.pop_front();
    return ending;
  }

  Result<std::optional<Published>> flush(Duration deadline) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, deadline, [&] { return !work_; })) {
      return late(deadline);
    }
    if (!newest_) return std::optional<Published>();
    if (!*newest_) return newest_->error();
    return std::optional<Published>(newest_->value());
  }

 private:
  std::string folder(const std::string& name) const { return options_.directory + "/" + name; }

  Error late(Duration deadline) const {
    return fail(ErrorCode::kDeadlineExceeded,
                fmt::format("checkpoint {} is still being written after {:.0f} s, or waits for its confirmation",
                            folder(work_->name), std::chrono::duration<double>(deadline).count()));
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return closing_ || work_; });
      if (!work_) {
        ended_ = true;
        changed_.notify_all();
        return;
      }
      Work& work = *work_;  // only this thread resets it
      lock.unlock();
      auto manifest = write_files(work);
      lock.lock();
      bool confirmed = false;
      if (manifest) {
        busy_since_.reset();
        changed_.wait(lock, [&] { return closing_ || confirmed_ > work.step; });
        confirmed = confirmed_ > work.step;
        busy_since_ = std::chrono::steady_clock::now();
      }
      lock.unlock();
      Result<Published> ending =
          confirmed  ? publish(work, *manifest)
          : manifest ? Result<Published>(fail(
                           ErrorCode::kCancelled,
                           fmt::format("checkpoint {} was dropped: no later step confirmed it", folder(work.name))))
                     : Result<Published>(manifest.error());
      const bool foreign = !ending && ending.error().code == ErrorCode::kAlreadyExists;
      if (!ending && !foreign && !options_.among_others) {
        if (const Status removed = remove_checkpoint_folder(folder(work.name)); !removed) {
          log::warn("cannot remove a failed checkpoint", {{"why", removed.error().message}});
        }
      }
      lock.lock();
      newest_ = ending;
      endings_.push_back(std::move(ending));
      if (endings_.size() > kMostEndings) endings_.pop_front();
      work_.reset();
      changed_.notify_all();
    }
  }

  Result<Manifest> write_files(const Work& work) {
    auto manifest = try_write_files(work);
    if (!manifest) return explain(manifest.error());
    return manifest;
  }

  Error explain(const Error& error) const {
    const std::string rest = last_good_.empty() ? "; there is no earlier checkpoint"
                                                : "; the last good checkpoint, " + last_good_ + ", stays";
    return fail(error.code, "a checkpoint could not be saved: " + error.message + rest);
  }

  Result<Manifest> try_write_files(const Work& work) {
    const std::string path = folder(work.name);
    if (::access((path + "/" + kManifestFile).c_str(), F_OK) == 0) {
      return fail(
          ErrorCode::kAlreadyExists,
          fmt::format("checkpoint {} exists already, from another run: choose another directory or continue from it",
                      path));
    }
    // Removes what an earlier process left unfinished.
    if (!options_.among_others) LOCKSTEP_CHECK_OK(remove_checkpoint_folder(path));
    if (::mkdir(path.c_str(), 0755) != 0 && (errno != EEXIST || !options_.among_others)) {
      return file_error("cannot create the folder " + path, errno);
    }
    Manifest manifest;
    manifest.step = work.step;
    manifest.generation = work.generation;
    manifest.lineage = lineage_;
    manifest.job_uid = options_.job_uid;
    manifest.identity = options_.identity;
    manifest.cursor = work.cursor;
    manifest.metadata = work.metadata;
    manifest.created_at = format_timestamp(std::chrono::system_clock::now());
    LOCKSTEP_TRY(manifest.digest, state_digest(work.state));
    LOCKSTEP_TRY(manifest.files, write_shards(path, kModel, work.state.parameters, options_.shard_bytes));
    LOCKSTEP_TRY(auto optimizer, write_shards(path, kOptimizer, work.state.optimizer, options_.shard_bytes));
    std::move(optimizer.begin(), optimizer.end(), std::back_inserter(manifest.files));
    LOCKSTEP_CHECK_OK(sync_folder(path));
    LOCKSTEP_CHECK_OK(sync_folder(options_.directory));
    return manifest;
  }

  Result<Published> publish(const Work& work, const Manifest& manifest) {
    if (const Status written = write_manifest(folder(work.name), manifest); !written) return explain(written.error());
    last_good_ = work.name;
    if (options_.keep > 0 && !options_.among_others) {
      const auto removed = collect(options_.directory, options_.keep, work.generation, work.name, work.keep_step);
      if (!removed) log::warn("cannot remove old checkpoints", {{"why", removed.error().message}});
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - work.since;
    return Published{work.name, work.step, work.generation, manifest.digest, took.count()};
  }

  static Status write_manifest(const std::string& path, const Manifest& manifest) {
    LOCKSTEP_TRY(const std::string text, encode(manifest));
    LOCKSTEP_TRY(const auto file, NewFile::create(path, kManifestFile));
    LOCKSTEP_CHECK_OK(file->append(text));
    LOCKSTEP_TRY(const FileDigest unused, file->commit());
    return sync_folder(path);
  }

  static constexpr size_t kMostEndings = 64;  // for a caller that never polls

  const WriterOptions options_;
  const std::int64_t lineage_;
  std::string last_good_;  // used by the thread alone

  std::mutex mutex_;
  std::condition_variable changed_;
  // Protected by mutex_.
  std::int64_t generation_;
  std::unique_ptr<Work> work_;
  std::optional<MonotonicTime> busy_since_;  // the thread uses the storage; empty: it waits for work or a confirmation
  std::int64_t confirmed_ = std::numeric_limits<std::int64_t>::min();
  bool closing_ = false;
  bool ended_ = false;  // the thread does nothing more
  std::deque<Result<Published>> endings_;
  std::optional<Result<Published>> newest_;

  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Writer>> Writer::create(WriterOptions options) {
  if (options.directory.empty()) return fail(ErrorCode::kInvalid, "no directory for checkpoints");
  if (options.keep < 0) return fail(ErrorCode::kInvalid, fmt::format("keep {} checkpoints", options.keep));
  if (options.generation < 0) return fail(ErrorCode::kInvalid, fmt::format("generation {}", options.generation));
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  if (error) return file_error("cannot create the checkpoint directory " + options.directory, error.value());
  LOCKSTEP_TRY(const auto there, list_valid(options.directory));
  // Generations count from the start of a job. Another job that continues in the same directory must not look older.
  std::int64_t lineage = 0;
  if (!there.empty()) {
    const Manifest& newest = there.front().manifest;
    lineage = newest.lineage + (newest.job_uid == options.job_uid ? 0 : 1);
  }
  std::string last_good = there.empty() ? "" : there.front().name;
  return std::unique_ptr<Writer>(std::make_unique<FolderWriter>(std::move(options), lineage, std::move(last_good)));
}

}  // namespace lockstep::trainer::checkpoint
