// Files that are durable when they appear: written under a temporary name, synced, renamed, and hashed on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "operator/base/result.h"
#include "trainer/checkpoint/manifest.h"

namespace lockstep::trainer::checkpoint {

// What errno says, as an error: full disk and quota are kExhausted, permissions kForbidden, ENOENT kNotFound, the rest
// kUnavailable. "<what>: <text of errno>".
Error file_error(const std::string& what, int error);

// SHA-256 over pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }
  std::string hex();  // ends it

 private:
  void* context_;  // EVP_MD_CTX
};

std::string sha256_hex(std::string_view text);

// A file in progress: removed unless commit() succeeds.
class NewFile {
 public:
  // Starts <folder>/<name>.<six random letters>.tmp: other processes may write the same file at the same time.
  static Result<std::unique_ptr<NewFile>> create(const std::string& folder, const std::string& name);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text) { return append(std::as_bytes(std::span(text.data(), text.size()))); }
  // Syncs, closes and renames. The rename is on disk after sync_folder().
  Result<FileDigest> commit();

 private:
  NewFile(std::string folder, std::string name, std::string temporary, int fd)
      : folder_(std::move(folder)), name_(std::move(name)), temporary_(std::move(temporary)), fd_(fd) {}
  std::string path() const { return folder_ + "/" + name_; }

  std::string folder_;
  std::string name_;
  std::string temporary_;  // its path until commit()
  int fd_;
  Sha256 hash_;
  std::uint64_t bytes_ = 0;
};

Status sync_folder(const std::string& folder);

// The whole text of a file of at most `most` bytes; kExhausted when it is longer.
Result<std::string> read_text(const std::string& path, std::uint64_t most);

// Size and SHA-256 of a file, read once from end to end.
Result<FileDigest> digest_file(const std::string& folder, const std::string& name);

// Removes the manifest, then the other plain files, then the folder. Folders inside stay, and so does then the folder.
Status remove_checkpoint_folder(const std::string& folder);

}  // namespace lockstep::trainer::checkpoint
