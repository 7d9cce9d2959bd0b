#include "operator/kube/credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "operator/base/log.h"

namespace lockstep::kube {
namespace {

constexpr Duration kReread = std::chrono::seconds(60);  // kubelet rotates tokens long before they expire
constexpr std::size_t kMaxFile = std::size_t{1} << 20;

std::string trimmed(std::string text) {
  const auto last = text.find_last_not_of(" \t\r\n");
  text.erase(last == std::string::npos ? 0 : last + 1);
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? std::string() : text.substr(first);
}

// A token goes into a header line: it must be visible ASCII.
bool is_header_safe(const std::string& token) {
  return std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

class FileIdentity final : public Identity {
 public:
  FileIdentity(IdentityFiles files, Clock& clock) : files_(std::move(files)), clock_(clock) {
    token_ = files_.token;
    certificate_ = {files_.certificate_pem, files_.key_pem};
  }

  Result<std::string> token() override {
    const std::lock_guard guard(mutex_);
    if (read_at_ && clock_.now() - *read_at_ < kReread) return token_;
    LOCKSTEP_CHECK_OK(read());
    return token_;
  }

  bool refused(const std::string& token) override {
    const std::lock_guard guard(mutex_);
    if (token != token_) return true;  // another thread has already read a newer one
    if (!read()) return false;
    return token_ != token;
  }

  ClientCertificate certificate() const override {
    const std::lock_guard guard(mutex_);
    return certificate_;
  }

 private:
  // Reads the files; a value that cannot be read stays as it was, and is an error only if there is none.
  Status read() {
    LOCKSTEP_CHECK_OK(read_one(files_.token, files_.token_file, token_, true));
    LOCKSTEP_CHECK_OK(read_one(files_.certificate_pem, files_.certificate_file, certificate_.certificate_pem, false));
    LOCKSTEP_CHECK_OK(read_one(files_.key_pem, files_.key_file, certificate_.key_pem, false));
    read_at_ = clock_.now();
    return {};
  }

  static Status read_one(const std::string& text, const std::string& file, std::string& into, bool is_token) {
    if (!text.empty() || file.empty()) return {};
    auto content = read_small_file(file);
    if (content && is_token) {
      content = trimmed(*content);
      if (content->empty() || !is_header_safe(*content)) content = fail(ErrorCode::kCorrupt, file + " holds no token");
    }
    if (content) {
      into = std::move(*content);
    } else if (into.empty()) {
      return content.error();
    } else {
      log::warn("keeping the old credentials", {{"error", content.error().message}});
    }
    return {};
  }

  const IdentityFiles files_;
  Clock& clock_;
  mutable std::mutex mutex_;  // protects what follows
  std::string token_;
  ClientCertificate certificate_;
  std::optional<MonotonicTime> read_at_;
};

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

Result<std::string> read_small_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int error = errno;
    return fail(error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                fmt::format("cannot read {}: {}", path, std::strerror(error)));
  }
  std::string content(kMaxFile + 1, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (file.bad() || file.gcount() < 0) return fail(ErrorCode::kUnavailable, fmt::format("cannot read {}", path));
  content.resize(static_cast<std::size_t>(file.gcount()));
  if (content.size() > kMaxFile) return fail(ErrorCode::kInvalid, fmt::format("{} is larger than 1 MiB", path));
  return content;
}

std::shared_ptr<Identity> file_identity(IdentityFiles files, Clock& clock) {
  return std::make_shared<FileIdentity>(std::move(files), clock);
}

Result<ClusterAccess> in_cluster_access(const Environment& environment, Clock& clock, const std::string& folder) {
  const auto host = environment("KUBERNETES_SERVICE_HOST");
  const auto port = environment("KUBERNETES_SERVICE_PORT");
  if (!host || host->empty() || !port || port->empty()) {
    return fail(ErrorCode::kNotFound, "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
  }
  ClusterAccess access;
  // cpprestsdk cannot connect to an IPv6 literal, but resolves the Service's name, which is in the certificate too.
  const bool ipv6 = host->find(':') != std::string::npos;
  access.server = fmt::format("https://{}:{}", ipv6 ? "kubernetes.default.svc" : *host, *port);
  access.ca_file = folder + "/ca.crt";
  access.source = "the pod's service account";
  IdentityFiles files;
  files.token_file = folder + "/token";
  LOCKSTEP_TRY(const auto ca, read_small_file(access.ca_file));
  if (ca.empty()) return fail(ErrorCode::kCorrupt, access.ca_file + " is empty");
  LOCKSTEP_TRY(const auto token, read_small_file(files.token_file));
  if (auto name_space = read_small_file(folder + "/namespace")) access.name_space = trimmed(*name_space);
  access.identity = file_identity(std::move(files), clock);
  return access;
}

}  // namespace lockstep::kube
