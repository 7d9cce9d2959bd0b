// Writes checkpoints beside training, in two phases. write() copies the state at a step boundary and returns; the
// writer's thread puts the files into step-S.gG/ (temporary name, fsync, rename). confirm(S + 1) says that a collective
// of a later step succeeded, which proves that this gang was the only one; only then is manifest.json written.
//
//   if (due) writer->write(snapshot, Busy::kSkip, {});
//   ... step S + 1 ...; writer->confirm(S + 1);
//   while (auto outcome = writer->poll()) report(*outcome);
//   at the end: one more collective; writer->confirm(S + 1); writer->flush(deadline);
//
// A folder that has a manifest is never written again. When a write fails, its folder is removed and what was
// there before is untouched.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/tensor.h"

namespace lockstep::trainer::checkpoint {

struct WriterOptions {
  std::string directory;  // made when it is not there
  std::string job_uid;    // empty for a run by hand
  Identity identity;
  std::int64_t generation = 0;
  int keep = 3;  // finished checkpoints that stay after a new one is published; 0: all
  // Other processes may be writing the same versions of the same state, and any of them may die of it: this one writes
  // its files into the same folder, where each file, the manifest last, takes the place of an equal one at once. False:
  // a folder that is there already was left behind, and is written anew.
  bool among_others = false;
};

struct Snapshot {
  std::int64_t step = 0;
  DataCursor cursor;
  std::string metadata = "{}";  // a JSON object
  State state;                  // copied by write()
};

// A checkpoint that may be started from.
struct Published {
  std::string name;
  std::int64_t step = 0;
  std::int64_t generation = 0;
  std::string digest;
  double seconds = 0;  // from write() to the manifest on disk
};

// When a write is still in flight: leave this one out, or wait for the old one.
enum class Busy { kSkip, kWait };

class Writer {
 public:
  // kInvalid: bad options; kExhausted, kForbidden, kUnavailable: the directory cannot be made or read.
  static Result<std::unique_ptr<Writer>> create(WriterOptions options);
  // Drops what is not published: an unconfirmed checkpoint's folder is removed. Joins the thread, which may be
  // inside one write to disk.
  virtual ~Writer() = default;

  // Takes a copy of the state (one in flight: memory for one more state) and returns true; false: left out because one
  // is in flight and `busy` is kSkip. kDeadlineExceeded: kWait, and the old one was still not published after
  // `deadline` (it may lack its confirm). kInvalid: the snapshot contradicts itself. kAlreadyExists: that step and
  // generation is published already. One calling thread for write() and confirm().
  virtual Result<bool> write(const Snapshot& snapshot, Busy busy, Duration deadline) = 0;

  // Checkpoints written from now on are of `generation`; one in flight stays of the generation that it was written in,
  // and a later step of the new one may confirm it. The thread that calls write().
  virtual void set_generation(std::int64_t generation) = 0;

  // A collective of `step` succeeded: checkpoints of earlier steps may be published. Does not block.
  virtual void confirm(std::int64_t step) = 0;

  // The next ending of a write since the last call, oldest first; nothing when there is none. kExhausted: the disk is
  // full (the message says which file and that the last good checkpoint stays). Any thread.
  virtual std::optional<Result<Published>> poll() = 0;

  // Waits until nothing is in flight and returns the newest ending since create() (also when poll() gave it already);
  // nothing when nothing was ever written. kDeadlineExceeded: still in flight. Any thread.
  virtual Result<std::optional<Published>> flush(Duration deadline) = 0;
};

}  // namespace lockstep::trainer::checkpoint
