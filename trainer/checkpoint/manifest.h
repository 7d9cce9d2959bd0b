// manifest.json of a checkpoint folder: what it is a checkpoint of, and the proof that its files are whole. The writer
// writes it last, so a folder without one was never finished.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::trainer::checkpoint {

inline constexpr int kFormatVersion = 2;
// The first version: tensors have the names and the order of memory, whatever their stored form.
inline constexpr int kFormatOfMemory = 1;
inline constexpr const char* kManifestFile = "manifest.json";
// Names of files: "model.safetensors", and of a large state "model-00001-of-00003.safetensors" with the index
// "model.safetensors.index.json" (shards.h).
inline constexpr const char* kModel = "model";
inline constexpr const char* kOptimizer = "optimizer";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";

// What must agree between a checkpoint and the run that continues from it.
struct Identity {
  std::string model;       // its name: "mlp"
  std::string model_hash;  // of its configuration, any text
  std::uint64_t seed = 0;
  std::string numerics_id;  // of --deterministic; empty: results may differ in the last bits

  bool operator==(const Identity&) const = default;
};

// The position in the order of the data: the next sample is the index-th of the epoch.
struct DataCursor {
  std::int64_t epoch = 0;
  std::int64_t index = 0;

  bool operator==(const DataCursor&) const = default;
};

struct FileDigest {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;  // hexadecimal

  bool operator==(const FileDigest&) const = default;
};

struct Manifest {
  int format_version = kFormatVersion;
  std::int64_t step = 0;        // committed steps in the state
  std::int64_t generation = 0;  // that committed the last of them
  std::int64_t lineage = 0;     // grows when another job continues in the same directory
  std::string job_uid;
  Identity identity;
  DataCursor cursor;
  std::string digest;      // state_digest() of the state
  std::string created_at;  // RFC 3339, for people
  std::vector<FileDigest> files;
  std::string metadata = "{}";  // a JSON object of the user's

  bool operator==(const Manifest&) const = default;
};

// "step-120.g3".
std::string folder_name(std::int64_t step, std::int64_t generation);

struct StepAndGeneration {
  std::int64_t step = 0;
  std::int64_t generation = 0;
};
// Reads a name back; nothing for any other text.
std::optional<StepAndGeneration> parse_folder_name(std::string_view name);

// The manifest as JSON with a checksum of itself. metadata must be a JSON object (kInvalid).
Result<std::string> encode(const Manifest& manifest);
// Accepts any input. kCorrupt: not JSON, not a manifest, or its checksum does not fit; kInvalid: a newer format.
Result<Manifest> decode_manifest(std::string_view text);

}  // namespace lockstep::trainer::checkpoint
