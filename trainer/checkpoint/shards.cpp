#include "trainer/checkpoint/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "trainer/checkpoint/files.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep::trainer::checkpoint {

namespace {

constexpr const char* kEnd = ".safetensors";

// In their order, each list as long as fits.
std::vector<std::vector<NamedTensor>> split(const std::vector<NamedTensor>& tensors, std::uint64_t shard_bytes) {
  std::vector<std::vector<NamedTensor>> shards(1);
  std::uint64_t bytes = 0;
  for (const NamedTensor& tensor : tensors) {
    if (!shards.back().empty() && bytes + tensor.bytes.size() > shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += tensor.bytes.size();
    shards.back().push_back(tensor);
  }
  return shards;
}

Result<FileDigest> write_index(const std::string& folder, const std::string& base, const nlohmann::json& index) {
  LOCKSTEP_TRY(const auto file, NewFile::create(folder, base + kEnd + ".index.json"));
  LOCKSTEP_CHECK_OK(file->append(index.dump(2) + "\n"));  // the headers were written, so all names are UTF-8
  return file->commit();
}

}  // namespace

Result<std::vector<FileDigest>> write_shards(const std::string& folder, const std::string& base,
                                             const std::vector<NamedTensor>& tensors, std::uint64_t shard_bytes) {
  LOCKSTEP_CHECK_OK(validate(tensors));
  const auto shards = split(tensors, shard_bytes);
  std::vector<FileDigest> files;
  nlohmann::json places = nlohmann::json::object();
  std::uint64_t bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        shards.size() == 1 ? base + kEnd : fmt::format("{}-{:05}-of-{:05}{}", base, i + 1, shards.size(), kEnd);
    LOCKSTEP_TRY(FileDigest file, write_safetensors(folder, name, shards[i]));
    files.push_back(std::move(file));
    for (const NamedTensor& tensor : shards[i]) {
      places[stored_name(tensor)] = name;
      bytes += tensor.bytes.size();
    }
  }
  if (shards.size() == 1) return files;
  LOCKSTEP_TRY(FileDigest index,
               write_index(folder, base, {{"metadata", {{"total_size", bytes}}}, {"weight_map", places}}));
  files.push_back(std::move(index));
  return files;
}

std::vector<FileDigest> shards_of(const Manifest& manifest, const std::string& base) {
  std::vector<FileDigest> shards;
  std::copy_if(manifest.files.begin(), manifest.files.end(), std::back_inserter(shards), [&](const FileDigest& file) {
    const bool whole = file.name == base + kEnd;
    return whole || (file.name.starts_with(base + "-") && file.name.ends_with(kEnd));
  });
  return shards;
}

}  // namespace lockstep::trainer::checkpoint
