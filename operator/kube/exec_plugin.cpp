#include "operator/kube/exec_plugin.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "operator/base/timestamp.h"
#include "operator/base/unique_fd.h"
#include "operator/kube/json_text.h"
#include "operator/kube/tls_context.h"

namespace lockstep::kube {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxOutput = std::size_t{1} << 20;
// A token that expires while the request travels is useless.
constexpr auto kExpiryMargin = std::chrono::seconds(10);

std::string exec_info(const ExecPlugin& plugin, bool interactive) {
  Json info{{"apiVersion", plugin.api_version}, {"kind", "ExecCredential"}, {"spec", {{"interactive", interactive}}}};
  if (!plugin.cluster_json.empty()) info["spec"]["cluster"] = Json::parse(plugin.cluster_json, nullptr, false);
  return info.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> child_environment(const ExecPlugin& plugin, bool interactive) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != text.npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [name, value] : spared_environment()) {
    variables.erase(name);
    if (value) variables[name] = *value;
  }
  for (const auto& [name, value] : plugin.env) variables[name] = value;
  variables["KUBERNETES_EXEC_INFO"] = exec_info(plugin, interactive);
  std::vector<std::string> result;
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Milliseconds until `deadline` for poll(), never negative.
int milliseconds_until(MonotonicTime deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

// Reads until the end; false at the deadline or beyond the limit.
bool read_all(int fd, MonotonicTime deadline, std::string& output) {
  std::array<char, 16384> buffer{};
  while (true) {
    pollfd ready{fd, POLLIN, 0};
    const int count = poll(&ready, 1, milliseconds_until(deadline));
    if (count == 0) return false;
    if (count < 0 && errno == EINTR) continue;
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    output.append(buffer.data(), static_cast<std::size_t>(got));
    if (output.size() > kMaxOutput) return false;
  }
}

// The exit status, or nothing at the deadline.
std::optional<int> wait_exit(pid_t pid, MonotonicTime deadline) {
  const UniqueFd handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (handle.get() >= 0) {
    pollfd ready{handle.get(), POLLIN, 0};
    int count = 0;
    do {
      count = poll(&ready, 1, milliseconds_until(deadline));
    } while (count < 0 && errno == EINTR);
    if (count == 0) return std::nullopt;
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return 0;
  }
  return status;
}

Result<ExecCredential> parse_credential(const ExecPlugin& plugin, const std::string& output) {
  const Json json = Json::parse(output, nullptr, false);
  const auto corrupt = [&](const std::string& why) {
    return fail(ErrorCode::kCorrupt, fmt::format("the credential plugin '{}' {}", plugin.command, why));
  };
  if (!json.is_object() || text_at(json, {"kind"}) != "ExecCredential") {
    return corrupt("did not print an ExecCredential");
  }
  if (const auto version = text_at(json, {"apiVersion"}); version != plugin.api_version) {
    return corrupt(fmt::format("answered with {} where the kubeconfig says {}", version, plugin.api_version));
  }
  ExecCredential credential;
  credential.token = text_at(json, {"status", "token"});
  credential.certificate = {text_at(json, {"status", "clientCertificateData"}),
                            text_at(json, {"status", "clientKeyData"})};
  if (credential.token.empty() && credential.certificate.certificate_pem.empty()) {
    return corrupt("printed neither a token nor a client certificate");
  }
  if (credential.certificate.certificate_pem.empty() != credential.certificate.key_pem.empty()) {
    return corrupt("printed a client certificate without its key, or a key without its certificate");
  }
  if (const auto bad = std::find_if(credential.token.begin(), credential.token.end(),
                                    [](unsigned char c) { return c <= 0x20 || c >= 0x7f; });
      bad != credential.token.end()) {
    return corrupt("printed a token that cannot stand in a header");
  }
  if (const auto expires = text_at(json, {"status", "expirationTimestamp"}); !expires.empty()) {
    LOCKSTEP_TRY(credential.expires, parse_timestamp(expires));
  }
  return credential;
}

class ExecIdentity final : public Identity {
 public:
  ExecIdentity(ExecPlugin plugin, Clock& clock) : plugin_(std::move(plugin)), clock_(clock) {}

  Result<std::string> token() override {
    const std::lock_guard one_at_a_time(running_);
    if (auto cached = current()) return *cached;
    LOCKSTEP_TRY(auto fresh, run_exec_plugin(plugin_));
    const std::lock_guard guard(mutex_);
    credential_ = std::move(fresh);
    return credential_->token;
  }

  bool refused(const std::string& token) override {
    const std::lock_guard guard(mutex_);
    if (credential_ && credential_->token != token) return true;
    credential_.reset();
    return true;
  }

  ClientCertificate certificate() const override {
    const std::lock_guard guard(mutex_);
    return credential_ ? credential_->certificate : last_certificate_;
  }

 private:
  std::optional<std::string> current() {
    const std::lock_guard guard(mutex_);
    if (!credential_) return std::nullopt;
    last_certificate_ = credential_->certificate;
    if (credential_->expires && clock_.wall_now() + kExpiryMargin >= *credential_->expires) return std::nullopt;
    return credential_->token;
  }

  const ExecPlugin plugin_;
  Clock& clock_;
  std::mutex running_;        // held while the plugin runs: one prompts the user, all wait for the answer
  mutable std::mutex mutex_;  // protects what follows
  std::optional<ExecCredential> credential_;
  ClientCertificate last_certificate_;
};

}  // namespace

Result<ExecCredential> run_exec_plugin(const ExecPlugin& plugin) {
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (plugin.interactive_mode == "Always" && !terminal) {
    return fail(ErrorCode::kUnauthorized,
                fmt::format("the credential plugin '{}' needs a terminal to ask at", plugin.command));
  }
  const bool interactive = terminal && plugin.interactive_mode != "Never";

  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(ErrorCode::kExhausted, fmt::format("no pipe for a credential plugin: {}", std::strerror(errno)));
  }
  UniqueFd read_end(ends[0]), write_end(ends[1]);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!interactive) posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own, so that its children end with it; but only the terminal's foreground group may read from it.
  short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
  if (!interactive) flags = static_cast<short>(flags | POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setflags(&attributes, flags);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);

  std::vector<std::string> words{plugin.command};
  words.insert(words.end(), plugin.args.begin(), plugin.args.end());
  std::vector<std::string> variables = child_environment(plugin, interactive);
  auto argv = pointers(words);
  auto envp = pointers(variables);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, plugin.command.c_str(), &actions, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  write_end.reset();
  if (failed != 0) {
    return fail(ErrorCode::kNotFound,
                fmt::format("the credential plugin '{}' cannot be started: {}{}", plugin.command, std::strerror(failed),
                            plugin.install_hint.empty() ? "" : ". " + plugin.install_hint));
  }

  const Duration patience = interactive ? plugin.deadline * 5 : plugin.deadline;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::string output;
  const bool whole = read_all(read_end.get(), deadline, output);
  const auto status = whole ? wait_exit(pid, deadline) : std::nullopt;
  if (!status) {
    kill(interactive ? pid : -pid, SIGKILL);
    int ignored = 0;
    while (waitpid(pid, &ignored, 0) < 0 && errno == EINTR) {
    }
    if (output.size() > kMaxOutput) {
      return fail(ErrorCode::kCorrupt, fmt::format("the credential plugin '{}' printed too much", plugin.command));
    }
    return fail(ErrorCode::kDeadlineExceeded,
                fmt::format("the credential plugin '{}' did not end within {:.3g} s", plugin.command,
                            std::chrono::duration<double>(patience).count()));
  }
  if (!WIFEXITED(*status) || WEXITSTATUS(*status) != 0) {
    return fail(ErrorCode::kUnauthorized, fmt::format("the credential plugin '{}' failed with {} {}", plugin.command,
                                                      WIFEXITED(*status) ? "exit code" : "signal",
                                                      WIFEXITED(*status) ? WEXITSTATUS(*status) : WTERMSIG(*status)));
  }
  return parse_credential(plugin, output);
}

std::shared_ptr<Identity> exec_identity(ExecPlugin plugin, Clock& clock) {
  return std::make_shared<ExecIdentity>(std::move(plugin), clock);
}

}  // namespace lockstep::kube
