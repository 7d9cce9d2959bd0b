// Writes checkpoints beside training, in two phases. write() copies the state at a step boundary and returns; the
// writer's thread puts the files into step-S.gG/ (temporary name, fsync, rename). confirm(S + 1) says that a collective
// of a later step succeeded, which proves that this gang was the only one; only then is manifest.json written.
//
//   if (due) writer->write(contents, Busy::kSkip, deadline);
//   ... step S + 1 ...; writer->confirm(S + 1);
//   while (auto outcome = writer->poll()) report(*outcome);
//   at the end: one more collective; writer->confirm(S + 1); writer->flush(deadline);
//
// A folder that has a manifest is never written again. When a write fails, the writer removes its folder and leaves
// earlier checkpoints untouched. Only create() and the writer's thread use the storage: storage that hangs delays no
// other call beyond its deadline.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/shards.h"
#include "trainer/checkpoint/tensor.h"

namespace lockstep::trainer::checkpoint {

struct WriterOptions {
  std::string directory;  // created if it does not exist
  std::string job_uid;    // empty for a run by hand
  Identity identity;
  std::int64_t generation = 0;
  int keep = 3;  // finished checkpoints that stay after a new one is published; 0, or among others: all
  // True: other processes may be writing the same versions of the same state, and any of them may die meanwhile. Each
  // writes into the same folder, and replaces each file, the manifest last, by an equal one in one rename. None removes
  // a folder, in which another may be writing. False: a folder that exists was left behind by a dead writer, and is
  // recreated.
  bool among_others = false;
  std::uint64_t shard_bytes = kShardBytes;  // a list of tensors above it has several files (shards.h)
};

// What a checkpoint is to hold.
struct Contents {
  std::int64_t step = 0;
  DataCursor cursor;
  std::string metadata = "{}";  // a JSON object
  std::int64_t keep_step = -1;  // the newest checkpoint of this step stays, besides options.keep; -1: none does
  State state;                  // copied by write()
};

// A checkpoint that a run may start from.
struct Published {
  std::string name;
  std::int64_t step = 0;
  std::int64_t generation = 0;
  std::string digest;
  double seconds = 0;  // from write() to the manifest on disk
};

// If a write is still in flight: leave this one out, or wait for the old one.
enum class Busy { kSkip, kWait };

class Writer {
 public:
  // kInvalid: bad options; kExhausted, kForbidden, kUnavailable: the directory cannot be created or read.
  static Result<std::unique_ptr<Writer>> create(WriterOptions options);
  // Drops what is not published: removes the folder of an unconfirmed checkpoint. Joins the thread, which may wait for
  // the storage without end: close() comes first where that must not hold the process up.
  virtual ~Writer() = default;

  // The same, within `deadline`, but for the join. False: the thread still waits for the storage. Then the caller ends
  // the process without destroying the writer (std::_Exit), or tries again. No other call comes after it.
  virtual bool close(Duration deadline) = 0;

  // Takes a copy of the state (one in flight: memory for one more state) and returns true; false: left out because one
  // is in flight and `busy` is kSkip. kDeadlineExceeded with kWait: the old one was still not published after a wait
  // of `deadline` (it may lack its confirm). kDeadlineExceeded with kSkip: the storage has not answered for `deadline`.
  // kInvalid: the contents contradict each other. Only one thread may call write() and confirm().
  virtual Result<bool> write(const Contents& contents, Busy busy, Duration deadline) = 0;

  // Later writes are of `generation`. A checkpoint in flight keeps the generation that it was written in, and a later
  // step of the new one may confirm it. To be called by the thread that calls write().
  virtual void set_generation(std::int64_t generation) = 0;

  // A collective of `step` succeeded: checkpoints of earlier steps may be published. Does not block.
  virtual void confirm(std::int64_t step) = 0;

  // The next result of a write since the last call, oldest first; nothing if there is none. kExhausted: the disk is
  // full (the message says which file and that the last good checkpoint stays). kAlreadyExists: that step and
  // generation is published already, and stays as it is. Any thread.
  virtual std::optional<Result<Published>> poll() = 0;

  // Waits until nothing is in flight and returns the newest result since create() (also if poll() has returned it);
  // nothing if nothing was ever written. kDeadlineExceeded: still in flight. Any thread.
  virtual Result<std::optional<Published>> flush(Duration deadline) = 0;
};

}  // namespace lockstep::trainer::checkpoint
