// A list of tensors in one file, or in several with an index, as the tools of Hugging Face name and read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/tensor.h"

namespace lockstep::trainer::checkpoint {

inline constexpr std::uint64_t kShardBytes = 5'000'000'000;  // of tensors in a file

// Writes folder/<base>.safetensors. If the tensors have more than `shard_bytes`, writes
// <base>-00001-of-0000N.safetensors and so on instead, each of at most `shard_bytes` or one tensor. Then
// <base>.safetensors.index.json says in which file each tensor is. Returns all files. kInvalid: as validate(); other
// errors are those of writing.
Result<std::vector<FileDigest>> write_shards(const std::string& folder, const std::string& base,
                                             const std::vector<NamedTensor>& tensors, std::uint64_t shard_bytes);

// The files of `manifest` that hold the tensors of <base>, in order.
std::vector<FileDigest> shards_of(const Manifest& manifest, const std::string& base);

}  // namespace lockstep::trainer::checkpoint
