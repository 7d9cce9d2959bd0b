#include "trainer/checkpoint/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace lockstep::trainer::checkpoint {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

std::string hex_of(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

ssize_t read_some(int fd, void* to, size_t bytes) {
  while (true) {
    const ssize_t n = ::read(fd, to, bytes);
    if (n >= 0 || errno != EINTR) return n;
  }
}

}  // namespace

Error file_error(const std::string& what, int error) {
  ErrorCode code = ErrorCode::kUnavailable;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG || error == EMFILE || error == ENFILE)
    code = ErrorCode::kExhausted;
  if (error == EACCES || error == EPERM || error == EROFS) code = ErrorCode::kForbidden;
  if (error == ENOENT || error == ENOTDIR) code = ErrorCode::kNotFound;
  return fail(code, fmt::format("{}: {}", what, std::strerror(error)));
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr);
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_));
}

void Sha256::add(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), bytes.data(), bytes.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  unsigned length = 0;
  EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), digest.data(), &length);
  return hex_of(digest);
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.hex();
}

Result<std::unique_ptr<NewFile>> NewFile::create(const std::string& folder, const std::string& name) {
  constexpr std::string_view kEnd = ".tmp";
  std::string path = folder + "/" + name + ".XXXXXX" + std::string(kEnd);
  const int fd = ::mkostemps(path.data(), static_cast<int>(kEnd.size()), O_CLOEXEC);
  if (fd < 0) return file_error("cannot write " + path, errno);
  ::fchmod(fd, 0644);  // mkstemp made it readable for its owner alone
  return std::unique_ptr<NewFile>(new NewFile(folder, name, std::move(path), fd));
}

NewFile::~NewFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status NewFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto chunk = bytes.first(std::min(bytes.size(), kChunk));
    const ssize_t n = ::write(fd_, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error("cannot write " + path(), errno);
    hash_.add(chunk.first(static_cast<size_t>(n)));
    bytes_ += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<FileDigest> NewFile::commit() {
  // A network file system may report a full disk only here.
  if (::fsync(fd_) != 0) return file_error("cannot write " + path(), errno);
  if (::close(std::exchange(fd_, -1)) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    return file_error("cannot write " + path(), error);
  }
  if (::rename(temporary_.c_str(), path().c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    return file_error("cannot write " + path(), error);
  }
  return FileDigest{name_, bytes_, hash_.hex()};
}

Status sync_folder(const std::string& folder) {
  const File file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.fd() < 0 || ::fsync(file.fd()) != 0) return file_error("cannot sync the folder " + folder, errno);
  return {};
}

Result<std::string> read_text(const std::string& path, std::uint64_t most) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return file_error("cannot read " + path, errno);
  std::string text;
  std::array<char, 16384> chunk;
  while (true) {
    const ssize_t n = read_some(file.fd(), chunk.data(), chunk.size());
    if (n < 0) return file_error("cannot read " + path, errno);
    if (n == 0) return text;
    if (text.size() + static_cast<size_t>(n) > most) {
      return fail(ErrorCode::kExhausted, fmt::format("{} is longer than {} bytes", path, most));
    }
    text.append(chunk.data(), static_cast<size_t>(n));
  }
}

Result<FileDigest> digest_file(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return file_error("cannot read " + path, errno);
  FileDigest digest{name, 0, ""};
  Sha256 hash;
  std::vector<std::byte> chunk(kChunk);
  while (true) {
    const ssize_t n = read_some(file.fd(), chunk.data(), chunk.size());
    if (n < 0) return file_error("cannot read " + path, errno);
    if (n == 0) break;
    hash.add(std::span(chunk).first(static_cast<size_t>(n)));
    digest.bytes += static_cast<std::uint64_t>(n);
  }
  digest.sha256 = hash.hex();
  return digest;
}

Status remove_checkpoint_folder(const std::string& folder) {
  const std::string manifest = folder + "/" + kManifestFile;
  if (::unlink(manifest.c_str()) != 0 && errno != ENOENT) return file_error("cannot remove " + manifest, errno);
  DIR* listing = ::opendir(folder.c_str());
  if (listing == nullptr) {
    if (errno == ENOENT) return {};
    return file_error("cannot read the folder " + folder, errno);
  }
  while (const dirent* entry = ::readdir(listing)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    ::unlink((folder + "/" + name).c_str());  // errors show at rmdir
  }
  ::closedir(listing);
  if (::rmdir(folder.c_str()) != 0 && errno != ENOENT) return file_error("cannot remove the folder " + folder, errno);
  return {};
}

}  // namespace lockstep::trainer::checkpoint
