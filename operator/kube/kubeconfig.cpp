#include "operator/kube/kubeconfig.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "operator/kube/exec_plugin.h"

namespace lockstep::kube {
namespace {

struct File {
  std::string path;
  YAML::Node root;
};

// One named entry of a list ("clusters", "users", "contexts") and its file.
struct Entry {
  std::string path;
  YAML::Node body;
};

Error invalid(const std::string& path, const std::string& what) {
  return fail(ErrorCode::kInvalid, fmt::format("{}: {}", path, what));
}

// A scalar member as text; "" if it is missing. Throws YAML::Exception for another type.
std::string text(const YAML::Node& node, const char* name) {
  if (!node.IsMap()) return "";
  const YAML::Node value = node[name];
  return value && !value.IsNull() ? value.as<std::string>() : "";
}

bool flag(const YAML::Node& node, const char* name) {
  if (!node.IsMap()) return false;
  const YAML::Node value = node[name];
  return value && !value.IsNull() && value.as<bool>();
}

// Paths in a kubeconfig are relative to its folder.
std::string resolved(const std::string& path, const std::string& kubeconfig) {
  if (path.empty() || path.front() == '/') return path;
  return (std::filesystem::path(kubeconfig).parent_path() / path).lexically_normal().string();
}

Result<std::string> base64_decoded(const std::string& in, const std::string& path, const char* field) {
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char c : in) {
    int value = -1;
    if (c >= 'A' && c <= 'Z') value = c - 'A';
    if (c >= 'a' && c <= 'z') value = c - 'a' + 26;
    if (c >= '0' && c <= '9') value = c - '0' + 52;
    if (c == '+' || c == '-') value = 62;
    if (c == '/' || c == '_') value = 63;
    if (c == '=' || c == '\n' || c == '\r' || c == ' ') continue;
    if (value < 0) return invalid(path, fmt::format("{} is not base64", field));
    bits = (bits << 6) | static_cast<unsigned>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>((bits >> count) & 0xffU);
    }
  }
  return out;
}

Result<std::vector<File>> load(const AccessOptions& options, const Environment& environment) {
  std::vector<std::string> paths;
  bool must_exist = false;
  if (!options.kubeconfig.empty()) {
    paths = {options.kubeconfig};
    must_exist = true;
  } else if (const auto list = environment("KUBECONFIG"); list && !list->empty()) {
    for (std::size_t at = 0; at <= list->size();) {
      const auto colon = std::min(list->find(':', at), list->size());
      if (colon > at) paths.push_back(list->substr(at, colon - at));
      at = colon + 1;
    }
  } else if (const auto home = environment("HOME"); home && !home->empty()) {
    paths = {*home + "/.kube/config"};
  }
  std::vector<File> files;
  for (const std::string& path : paths) {
    auto content = read_small_file(path);
    if (!content && content.error().code == ErrorCode::kNotFound && !must_exist) continue;
    if (!content) return content.error();
    try {
      YAML::Node root = YAML::Load(*content);
      if (root.IsNull()) continue;
      if (!root.IsMap()) return invalid(path, "is not a kubeconfig");
      files.push_back({path, root});
    } catch (const YAML::Exception& error) {
      return invalid(path, fmt::format("line {}: {}", error.mark.line + 1, error.msg));
    }
  }
  if (files.empty()) {
    std::string looked;
    for (const std::string& path : paths) looked += (looked.empty() ? "" : ", ") + path;
    return fail(ErrorCode::kNotFound, looked.empty() ? "neither KUBECONFIG nor HOME is set" : looked + " is not there");
  }
  return files;
}

// The entry `name` of the list `list`, whose members keep their content under `body`.
Result<Entry> find(const std::vector<File>& files, const char* list, const char* body, const std::string& name) {
  for (const File& file : files) {
    const YAML::Node entries = file.root[list];
    if (!entries || !entries.IsSequence()) continue;
    for (const YAML::Node& entry : entries) {
      if (text(entry, "name") != name) continue;
      const YAML::Node content = entry[body];
      if (!content || !content.IsMap()) return invalid(file.path, fmt::format("{} '{}' is empty", body, name));
      return Entry{file.path, content};
    }
  }
  return invalid(files.front().path, fmt::format("there is no {} '{}'", body, name));
}

Result<ExecPlugin> parse_exec(const Entry& user, const YAML::Node& exec, const ClusterAccess& access) {
  ExecPlugin plugin;
  plugin.api_version = text(exec, "apiVersion");
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    return invalid(user.path, fmt::format("exec.apiVersion '{}' is not supported", plugin.api_version));
  }
  plugin.command = text(exec, "command");
  if (plugin.command.empty()) return invalid(user.path, "exec.command is missing");
  if (plugin.command.find('/') != plugin.command.npos) plugin.command = resolved(plugin.command, user.path);
  if (const YAML::Node args = exec["args"]; args && args.IsSequence()) {
    for (const YAML::Node& arg : args) plugin.args.push_back(arg.as<std::string>());
  }
  if (const YAML::Node env = exec["env"]; env && env.IsSequence()) {
    for (const YAML::Node& variable : env) plugin.env[text(variable, "name")] = text(variable, "value");
  }
  plugin.install_hint = text(exec, "installHint");
  if (const std::string mode = text(exec, "interactiveMode"); !mode.empty()) plugin.interactive_mode = mode;
  if (flag(exec, "provideClusterInfo")) {
    nlohmann::json cluster{{"server", access.server}};
    std::string pem = access.ca_pem;
    if (pem.empty() && !access.ca_file.empty()) {
      LOCKSTEP_TRY(pem, read_small_file(access.ca_file));
    }
    if (!pem.empty()) {
      static constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
      std::string encoded;
      for (std::size_t i = 0; i < pem.size(); i += 3) {
        unsigned group = 0;
        for (std::size_t k = 0; k < 3; ++k) {
          group = (group << 8) | (i + k < pem.size() ? static_cast<unsigned char>(pem[i + k]) : 0U);
        }
        for (std::size_t k = 0; k < 4; ++k) {
          encoded += i + k > pem.size() ? '=' : kDigits[(group >> (18 - 6 * k)) & 63U];
        }
      }
      cluster["certificate-authority-data"] = encoded;
    }
    if (access.insecure) cluster["insecure-skip-tls-verify"] = true;
    if (!access.server_name.empty()) cluster["tls-server-name"] = access.server_name;
    if (!access.proxy.empty()) cluster["proxy-url"] = access.proxy;
    plugin.cluster_json = cluster.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return plugin;
}

Result<std::shared_ptr<Identity>> parse_user(const Entry& user, const ClusterAccess& access, Clock& clock) {
  for (const char* name : {"auth-provider", "username", "as"}) {
    if (user.body[name]) {
      return invalid(user.path, fmt::format("the user's '{}' is not supported: use a token, a client certificate or an "
                                            "exec plugin",
                                            name));
    }
  }
  if (const YAML::Node exec = user.body["exec"]; exec && exec.IsMap()) {
    LOCKSTEP_TRY(auto plugin, parse_exec(user, exec, access));
    return exec_identity(std::move(plugin), clock);
  }
  IdentityFiles files;
  files.token_file = resolved(text(user.body, "tokenFile"), user.path);
  if (files.token_file.empty()) files.token = text(user.body, "token");
  files.certificate_file = resolved(text(user.body, "client-certificate"), user.path);
  files.key_file = resolved(text(user.body, "client-key"), user.path);
  LOCKSTEP_TRY(files.certificate_pem,
               base64_decoded(text(user.body, "client-certificate-data"), user.path, "client-certificate-data"));
  LOCKSTEP_TRY(files.key_pem, base64_decoded(text(user.body, "client-key-data"), user.path, "client-key-data"));
  const bool certificate = !files.certificate_pem.empty() || !files.certificate_file.empty();
  const bool key = !files.key_pem.empty() || !files.key_file.empty();
  if (certificate != key) {
    return invalid(user.path, "the user has a client certificate without a key, or a key without a certificate");
  }
  return file_identity(std::move(files), clock);
}

Result<ClusterAccess> parse_access(const std::vector<File>& files, std::string context_name, Clock& clock) {
  for (const File& file : files) {
    if (context_name.empty()) context_name = text(file.root, "current-context");
  }
  if (context_name.empty()) {
    return invalid(files.front().path, "there is no current-context: name one with --context");
  }
  LOCKSTEP_TRY(const Entry context, find(files, "contexts", "context", context_name));
  LOCKSTEP_TRY(const Entry cluster, find(files, "clusters", "cluster", text(context.body, "cluster")));

  ClusterAccess access;
  access.source = fmt::format("context '{}' of {}", context_name, context.path);
  if (const std::string name_space = text(context.body, "namespace"); !name_space.empty()) {
    access.name_space = name_space;
  }
  access.server = text(cluster.body, "server");
  while (access.server.ends_with('/')) access.server.pop_back();
  if (!access.server.starts_with("https://") && !access.server.starts_with("http://")) {
    return invalid(cluster.path, fmt::format("the server '{}' is no https:// or http:// URL", access.server));
  }
  access.insecure = flag(cluster.body, "insecure-skip-tls-verify");
  access.server_name = text(cluster.body, "tls-server-name");
  access.proxy = text(cluster.body, "proxy-url");
  const std::string ca_data = text(cluster.body, "certificate-authority-data");
  LOCKSTEP_TRY(access.ca_pem, base64_decoded(ca_data, cluster.path, "certificate-authority-data"));
  if (access.ca_pem.empty()) {
    access.ca_file = resolved(text(cluster.body, "certificate-authority"), cluster.path);
    if (!access.ca_file.empty()) {
      if (auto readable = read_small_file(access.ca_file); !readable) {
        return invalid(cluster.path, "certificate-authority: " + readable.error().message);
      }
    }
  }
  if (const std::string name = text(context.body, "user"); !name.empty()) {
    LOCKSTEP_TRY(const Entry user, find(files, "users", "user", name));
    LOCKSTEP_TRY(access.identity, parse_user(user, access, clock));
  } else {
    access.identity = file_identity({}, clock);
  }
  return access;
}

}  // namespace

Result<ClusterAccess> kubeconfig_access(const AccessOptions& options, const Environment& environment, Clock& clock) {
  LOCKSTEP_TRY(const auto files, load(options, environment));
  try {
    return parse_access(files, options.context, clock);
  } catch (const YAML::Exception& error) {
    return invalid(files.front().path, fmt::format("line {}: {}", error.mark.line + 1, error.msg));
  }
}

Result<ClusterAccess> find_access(const AccessOptions& options, const Environment& environment, Clock& clock) {
  auto access = kubeconfig_access(options, environment, clock);
  if (access || access.error().code != ErrorCode::kNotFound || !options.kubeconfig.empty()) return access;
  auto in_cluster = in_cluster_access(environment, clock);
  if (in_cluster || in_cluster.error().code != ErrorCode::kNotFound) return in_cluster;
  return fail(
      ErrorCode::kNotFound,
      fmt::format("no kubeconfig: set KUBECONFIG, write ~/.kube/config or name one with --kubeconfig; in a pod, "
                  "mount a service account token ({}; {})",
                  access.error().message, in_cluster.error().message));
}

}  // namespace lockstep::kube
