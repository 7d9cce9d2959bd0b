#include "trainer/checkpoint/reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "operator/base/log.h"
#include "trainer/checkpoint/files.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/shards.h"

namespace lockstep::trainer::checkpoint {
namespace {

constexpr std::uint64_t kMostManifestBytes = 16 << 20;

auto age(const Manifest& manifest) {
  return std::tie(manifest.lineage, manifest.generation, manifest.step);
}

// The names in `directory` that are checkpoint folders' names, finished or not.
Result<std::vector<std::string>> folder_names(const std::string& directory) {
  DIR* listing = ::opendir(directory.c_str());
  if (listing == nullptr) {
    if (errno == ENOENT) return std::vector<std::string>();
    return fail(ErrorCode::kUnavailable,
                file_error("cannot read the checkpoint directory " + directory, errno).message);
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing)) {
    if (parse_folder_name(entry->d_name)) names.emplace_back(entry->d_name);
  }
  ::closedir(listing);
  return names;
}

// kNotFound: never finished; kCorrupt.
Result<Manifest> read_manifest(const std::string& directory, const std::string& name) {
  const std::string folder = directory + "/" + name;
  const auto expected = parse_folder_name(name);
  if (!expected) {
    return fail(ErrorCode::kNotFound, fmt::format("'{}' is not the name of a checkpoint such as step-120.g3", name));
  }
  const std::string path = folder + "/" + kManifestFile;
  auto text = read_text(path, kMostManifestBytes);
  if (!text) {
    if (text.error().code == ErrorCode::kExhausted) {
      return fail(ErrorCode::kCorrupt, text.error().message);
    }
    if (text.error().code != ErrorCode::kNotFound) return text.error();
    struct stat status {};
    return fail(ErrorCode::kNotFound,
                ::stat(folder.c_str(), &status) == 0
                    ? fmt::format("checkpoint {} was never finished: it has no {}", folder, kManifestFile)
                    : fmt::format("there is no checkpoint {}", folder));
  }
  auto manifest = decode_manifest(*text);
  if (!manifest)
    return fail(manifest.error().code, fmt::format("{} cannot be used: {}", path, manifest.error().message));
  if (manifest->step != expected->step || manifest->generation != expected->generation) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} is of step {} and generation {}", path, manifest->step, manifest->generation));
  }
  for (const char* needed : {kModel, kOptimizer}) {
    if (shards_of(*manifest, needed).empty()) {
      return fail(ErrorCode::kCorrupt, fmt::format("{} does not list {}.safetensors", path, needed));
    }
  }
  for (const FileDigest& file : manifest->files) {
    if (file.name.empty() || file.name.find('/') != std::string::npos) {
      return fail(ErrorCode::kCorrupt, fmt::format("{} lists '{}', which is no file of it", path, file.name));
    }
  }
  return manifest;
}

Status check_sizes(const std::string& folder, const Manifest& manifest) {
  for (const FileDigest& file : manifest.files) {
    const std::string path = folder + "/" + file.name;
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      if (errno == ENOENT) return fail(ErrorCode::kCorrupt, fmt::format("checkpoint file {} is missing", path));
      return file_error("cannot read " + path, errno);
    }
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    if (bytes < file.bytes) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("checkpoint file {} is truncated: {} bytes of {}", path, bytes, file.bytes));
    }
    if (bytes != file.bytes) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("checkpoint file {} is too long: {} bytes of {}", path, bytes, file.bytes));
    }
  }
  return {};
}

Status check_sha256(const std::string& path, const std::string& is, const std::string& expected) {
  if (is == expected) return {};
  return fail(ErrorCode::kCorrupt, fmt::format("checkpoint file {} is corrupt: its SHA-256 is {}, the manifest says {}",
                                               path, is, expected));
}

Status check_contents(const std::string& folder, const FileDigest& file) {
  LOCKSTEP_TRY(const FileDigest now, digest_file(folder, file.name));
  return check_sha256(folder + "/" + file.name, now.sha256, file.sha256);
}

Status check_model(const std::string& folder, const Manifest& manifest, const Identity& expected) {
  const Identity& is = manifest.identity;
  if (is.model != expected.model) {
    return fail(ErrorCode::kInvalid, fmt::format("checkpoint {} is of the model '{}', this run trains '{}'", folder,
                                                 is.model, expected.model));
  }
  if (is.model_hash != expected.model_hash) {
    return fail(ErrorCode::kInvalid,
                fmt::format("checkpoint {} is of '{}' with another configuration ({}, this run has {})", folder,
                            is.model, is.model_hash, expected.model_hash));
  }
  return {};
}

Status check_run(const std::string& folder, const Manifest& manifest, const Identity& expected) {
  const Identity& is = manifest.identity;
  if (is.seed != expected.seed) {
    return fail(ErrorCode::kInvalid, fmt::format("checkpoint {} was trained with seed {}, this run has seed {}", folder,
                                                 is.seed, expected.seed));
  }
  if (!expected.numerics_id.empty() && is.numerics_id != expected.numerics_id) {
    return fail(ErrorCode::kInvalid,
                fmt::format("checkpoint {} was computed with the numerics '{}', this run is --deterministic with '{}'",
                            folder, is.numerics_id.empty() ? "any" : is.numerics_id, expected.numerics_id));
  }
  return {};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// A buffer, and where in a file its bytes are.
struct Placed {
  NamedBuffer buffer;
  TensorEntry entry;
};

// By shard, the buffers that it fills.
using Placement = std::vector<std::vector<Placed>>;

// The buffers as the files of an earlier format have them.
std::vector<NamedBuffer> in_format(std::vector<NamedBuffer> buffers, const Manifest& manifest) {
  if (manifest.format_version > kFormatOfMemory) return buffers;
  for (NamedBuffer& buffer : buffers) buffer.stored = {};
  return buffers;
}

// What is in the shards, and where.
struct Found {
  size_t shard = 0;
  TensorEntry entry;
};

Result<Placement> match_entries(const std::string& folder, const std::vector<FileDigest>& shards,
                                const std::vector<NamedBuffer>& buffers) {
  std::map<std::string, Found> by_name;
  std::uint64_t left = kMostHeaderBytes;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    LOCKSTEP_TRY(const auto entries, read_safetensors_entries(folder, shards[shard].name, left));
    left -= std::min(left, entries.empty() ? shards[shard].bytes : entries.front().begin);
    for (const TensorEntry& entry : entries) {
      if (by_name.emplace(entry.name, Found{shard, entry}).second) continue;
      return fail(ErrorCode::kCorrupt, fmt::format("checkpoint {} has '{}' twice", folder, entry.name));
    }
  }
  const auto wrong = [&](const std::string& what) {
    return fail(ErrorCode::kInvalid,
                fmt::format("checkpoint file {}/{} is of another model: {}", folder, shards.front().name, what));
  };
  Placement placement(shards.size());
  for (const NamedBuffer& buffer : buffers) {
    const std::string& name = stored_name(buffer);
    const auto found = by_name.find(name);
    if (found == by_name.end()) return wrong(fmt::format("it lacks '{}'", name));
    const TensorEntry& entry = found->second.entry;
    if (entry.type != buffer.type || entry.shape != stored_shape(buffer)) {
      return wrong(fmt::format("'{}' is {} {} in it and {} {} here", name, safetensors_name(entry.type),
                               shape_text(entry.shape), safetensors_name(buffer.type),
                               shape_text(stored_shape(buffer))));
    }
    if (buffer.bytes.size() != entry.end - entry.begin ||
        !check(buffer.stored, buffer.bytes.size() / size_of(entry.type))) {
      return fail(ErrorCode::kInvalid, fmt::format("the buffer for '{}' does not fit its shape", name));
    }
    placement[found->second.shard].push_back({buffer, entry});
    by_name.erase(found);
  }
  if (!by_name.empty()) return wrong(fmt::format("it has '{}', which is not known here", by_name.begin()->first));
  return placement;
}

// The same. A file that does not fit may also be corrupt, which explains more.
Result<Placement> match(const std::string& folder, const std::vector<FileDigest>& shards,
                        const std::vector<NamedBuffer>& buffers) {
  auto placement = match_entries(folder, shards, buffers);
  if (placement) return placement;
  for (const FileDigest& file : shards) LOCKSTEP_CHECK_OK(check_contents(folder, file));
  return placement;
}

// Fills buffers from a file, and checks its SHA-256 on the way: state may be so
// large that reading it twice is twice the time. After kCorrupt the buffers hold garbage.
class FileReader {
 public:
  FileReader(const std::string& folder, const FileDigest& file) : path_(folder + "/" + file.name), file_(file) {}
  ~FileReader() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  Status fill(std::vector<Placed> placed) {
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) return file_error("cannot read " + path_, errno);
    std::sort(placed.begin(), placed.end(),
              [](const Placed& a, const Placed& b) { return a.entry.begin < b.entry.begin; });
    // The tensors tile the file behind its header.
    LOCKSTEP_CHECK_OK(skip(placed.empty() ? file_.bytes : placed.front().entry.begin));
    for (const Placed& one : placed) LOCKSTEP_CHECK_OK(next(one.buffer));
    return check_sha256(path_, hash_.hex(), file_.sha256);
  }

 private:
  Status skip(std::uint64_t bytes) {
    std::vector<std::byte> chunk(std::min<std::uint64_t>(bytes, kChunk));
    for (; bytes > 0; bytes -= chunk.size()) {
      chunk.resize(std::min<std::uint64_t>(bytes, kChunk));
      LOCKSTEP_CHECK_OK(next(chunk));
    }
    return {};
  }

  Status next(const NamedBuffer& buffer) {
    if (!buffer.stored.reorders()) return next(buffer.bytes);
    const size_t width = size_of(buffer.type);
    std::vector<std::byte> chunk(std::min(buffer.bytes.size(), kChunk));
    for (size_t done = 0; done < buffer.bytes.size(); done += chunk.size()) {
      const std::span part = std::span(chunk).first(std::min(chunk.size(), buffer.bytes.size() - done));
      LOCKSTEP_CHECK_OK(next(part));
      scatter(buffer.stored, width, part, done / width, buffer.bytes);
    }
    return {};
  }

  Status next(std::span<std::byte> to) {
    while (!to.empty()) {
      const ssize_t n = ::read(fd_, to.data(), std::min(to.size(), kChunk));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return file_error("cannot read " + path_, errno);
      if (n == 0) {
        return fail(ErrorCode::kCorrupt, fmt::format("checkpoint file {} became shorter while it was read", path_));
      }
      hash_.add(to.first(static_cast<size_t>(n)));
      to = to.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  static constexpr size_t kChunk = size_t{1} << 20;  // that stays in the cache until it is hashed
  const std::string path_;
  const FileDigest& file_;
  int fd_ = -1;
  Sha256 hash_;
};

Status fill(const std::string& folder, const std::vector<FileDigest>& shards, const Placement& placement) {
  for (size_t i = 0; i < shards.size(); ++i) LOCKSTEP_CHECK_OK(FileReader(folder, shards[i]).fill(placement[i]));
  return {};
}

}  // namespace

Result<std::vector<Listed>> list_valid(const std::string& directory) {
  LOCKSTEP_TRY(const auto names, folder_names(directory));
  std::vector<Listed> list;
  for (const std::string& name : names) {
    auto manifest = read_manifest(directory, name);
    Status good = manifest ? check_sizes(directory + "/" + name, *manifest) : Status(manifest.error());
    if (good) {
      list.push_back({name, std::move(manifest).value()});
    } else if (good.error().code != ErrorCode::kNotFound) {  // an unfinished one is expected after a kill
      log::warn("a checkpoint is left out", {{"why", good.error().message}});
    }
  }
  std::sort(list.begin(), list.end(),
            [](const Listed& a, const Listed& b) { return age(a.manifest) > age(b.manifest); });
  return list;
}

Result<Manifest> verify(const std::string& directory, const std::string& name) {
  LOCKSTEP_TRY(Manifest manifest, read_manifest(directory, name));
  const std::string folder = directory + "/" + name;
  LOCKSTEP_CHECK_OK(check_sizes(folder, manifest));
  for (const FileDigest& file : manifest.files) LOCKSTEP_CHECK_OK(check_contents(folder, file));
  return manifest;
}

Result<Manifest> load(const std::string& directory, const std::string& name, const Identity& expected,
                      const StateBuffers& buffers) {
  LOCKSTEP_TRY(Manifest manifest, read_manifest(directory, name));
  const std::string folder = directory + "/" + name;
  LOCKSTEP_CHECK_OK(check_sizes(folder, manifest));
  LOCKSTEP_CHECK_OK(check_model(folder, manifest, expected));
  LOCKSTEP_CHECK_OK(check_run(folder, manifest, expected));
  const auto model = shards_of(manifest, kModel), optimizer = shards_of(manifest, kOptimizer);
  LOCKSTEP_TRY(const Placement parameters, match(folder, model, in_format(buffers.parameters, manifest)));
  LOCKSTEP_TRY(const Placement rest, match(folder, optimizer, in_format(buffers.optimizer, manifest)));
  LOCKSTEP_CHECK_OK(fill(folder, model, parameters));
  LOCKSTEP_CHECK_OK(fill(folder, optimizer, rest));
  return manifest;
}

Result<Manifest> load_parameters(const std::string& directory, const std::string& name, const Identity& expected,
                                 const std::vector<NamedBuffer>& parameters) {
  LOCKSTEP_TRY(Manifest manifest, read_manifest(directory, name));
  const std::string folder = directory + "/" + name;
  LOCKSTEP_CHECK_OK(check_sizes(folder, manifest));
  LOCKSTEP_CHECK_OK(check_model(folder, manifest, expected));
  const auto model = shards_of(manifest, kModel);
  LOCKSTEP_TRY(const Placement placement, match(folder, model, in_format(parameters, manifest)));
  LOCKSTEP_CHECK_OK(fill(folder, model, placement));
  return manifest;
}

Result<std::vector<std::string>> collect(const std::string& directory, int keep, std::int64_t own_generation,
                                         const std::string& newest, std::int64_t keep_step) {
  if (keep < 1) return fail(ErrorCode::kInvalid, fmt::format("keep {} checkpoints: at least 1 must stay", keep));
  LOCKSTEP_TRY(const Manifest record, read_manifest(directory, newest));
  LOCKSTEP_TRY(const auto valid, list_valid(directory));
  std::vector<std::string> doomed;
  int older = 0;
  bool kept = false;
  for (const Listed& listed : valid) {
    if (listed.manifest.step == keep_step && !std::exchange(kept, true)) continue;
    if (age(listed.manifest) >= age(record)) continue;
    ++older;
    const bool ours_or_older = listed.manifest.lineage < record.lineage || listed.manifest.generation <= own_generation;
    if (older >= keep && ours_or_older) doomed.push_back(listed.name);
  }
  LOCKSTEP_TRY(const auto names, folder_names(directory));
  for (const std::string& name : names) {
    const auto of = parse_folder_name(name);
    const bool older_than_record = std::tie(of->generation, of->step) < std::tie(record.generation, record.step);
    if (of->generation > own_generation || !older_than_record) continue;
    const std::string manifest = directory + "/" + name + "/" + kManifestFile;
    if (::access(manifest.c_str(), F_OK) != 0 && errno == ENOENT) doomed.push_back(name);
  }
  for (const std::string& name : doomed) LOCKSTEP_CHECK_OK(remove_checkpoint_folder(directory + "/" + name));
  return doomed;
}

}  // namespace lockstep::trainer::checkpoint
