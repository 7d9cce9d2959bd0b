// Finds, verifies, loads and prunes the checkpoints of a directory. Errors are one sentence that names the file.
#pragma once

#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/tensor.h"

namespace lockstep::trainer::checkpoint {

struct Listed {
  std::string name;  // folder inside the directory
  Manifest manifest;
};

// The finished checkpoints of `directory`, newest first: by lineage, then generation, then step. Reads manifests and
// file sizes only. Leaves out and logs what is unfinished, truncated or unreadable. A directory that does not exist
// holds none. kUnavailable: it exists and cannot be read.
Result<std::vector<Listed>> list_valid(const std::string& directory);

// The manifest of directory/name after checking that its files are there with their sizes and SHA-256.
// kNotFound: no such folder, or it was never finished. kCorrupt: a file is missing, truncated or changed.
// kInvalid: a format of a later release.
Result<Manifest> verify(const std::string& directory, const std::string& name);

// Fills the buffers from directory/name and returns its manifest. Reads each file once. Before the first byte of a
// buffer changes it checks the files' sizes, and that the checkpoint is of `expected` (an empty numerics_id accepts
// any). It then also checks name, type and shape of every tensor, both ways. It checks the SHA-256 of each file while
// it reads it. kInvalid: the checkpoint is of another model, configuration, seed or numerics; the buffers are as they
// were. kCorrupt: as in verify(); the buffers may hold garbage. `name` is a folder name, never a path.
//
// A checkpoint of format 1 has the names and the order of memory; one of format 2 has the stored forms of the buffers.
// Both load.
Result<Manifest> load(const std::string& directory, const std::string& name, const Identity& expected,
                      const StateBuffers& buffers);

// Only the parameters, for evaluation and generation: seed and numerics are not compared.
Result<Manifest> load_parameters(const std::string& directory, const std::string& name, const Identity& expected,
                                 const std::vector<NamedBuffer>& parameters);

// Removes checkpoints that no run will start from. They are older than `newest` (the one that the record names):
// unfinished folders, and finished ones beyond the keep - 1 youngest of these. The newest checkpoint of `keep_step`
// stays as well; -1: none does. Touches only folders of generations <= own_generation or of an earlier lineage, and
// never `newest` itself or anything younger. Removes each manifest first, so an interrupted removal leaves no half
// checkpoint that looks whole. Returns the names removed. kInvalid: keep is below 1; kNotFound or kCorrupt: `newest` is
// no finished checkpoint, and nothing was removed.
Result<std::vector<std::string>> collect(const std::string& directory, int keep, std::int64_t own_generation,
                                         const std::string& newest, std::int64_t keep_step = -1);

}  // namespace lockstep::trainer::checkpoint
