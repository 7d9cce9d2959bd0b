// Credentials and the server: service accounts, kubeconfigs, credential plugins, proxies.
#include "operator/kube/credentials.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "operator/kube/exec_plugin.h"
#include "operator/kube/kubeconfig.h"
#include "operator/kube/proxy.h"

namespace lockstep::kube {
namespace {

namespace fs = std::filesystem;

class Credentials : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / fmt::format("lockstep-credentials-{}", getpid());
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string write(const std::string& name, const std::string& content) {
    const fs::path path = folder / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::trunc) << content;
    return path.string();
  }
  Environment environment() const {
    return [this](const std::string& name) -> std::optional<std::string> {
      const auto it = variables.find(name);
      if (it == variables.end()) return std::nullopt;
      return it->second;
    };
  }
  Result<ClusterAccess> access(const std::string& context = "") {
    return kubeconfig_access({.context = context}, environment(), clock);
  }

  fs::path folder;
  std::map<std::string, std::string> variables;
  ManualClock clock;
};

constexpr const char* kSimple = R"(
apiVersion: v1
kind: Config
current-context: a
contexts:
- name: a
  context: {cluster: c, user: u, namespace: team}
- name: b
  context: {cluster: c, user: files}
clusters:
- name: c
  cluster:
    server: https://10.0.0.1:6443/
    certificate-authority-data: aGVsbG8gQ0E=
    tls-server-name: the-api
    proxy-url: http://proxy:3128
users:
- name: u
  user: {token: abc}
- name: files
  user: {client-certificate: pki/me.crt, client-key: pki/me.key}
)";

TEST_F(Credentials, a_context_names_server_ca_user_and_namespace) {
  variables["KUBECONFIG"] = write("config", kSimple);
  const auto found = access();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->server, "https://10.0.0.1:6443");
  EXPECT_EQ(found->ca_pem, "hello CA");
  EXPECT_EQ(found->server_name, "the-api");
  EXPECT_EQ(found->proxy, "http://proxy:3128");
  EXPECT_EQ(found->name_space, "team");
  EXPECT_EQ(found->identity->token().value_or("?"), "abc");
}

TEST_F(Credentials, paths_are_relative_to_the_file_that_names_them) {
  variables["KUBECONFIG"] = write("deep/config", kSimple);
  write("deep/pki/me.crt", "certificate");
  write("deep/pki/me.key", "key");
  const auto found = access("b");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->name_space, "default");
  ASSERT_TRUE(found->identity->token());
  EXPECT_EQ(found->identity->certificate(), (ClientCertificate{"certificate", "key"}));
}

TEST_F(Credentials, of_several_files_the_first_to_name_a_thing_wins) {
  const std::string one = write("one", R"(
contexts: [{name: a, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: first}}]
)");
  const std::string two = write("two", R"(
current-context: a
clusters: [{name: c, cluster: {server: 'https://two:1'}}]
users: [{name: u, user: {token: second}}]
)");
  variables["KUBECONFIG"] = one + ":/nowhere/at/all::" + two;
  const auto found = access();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->server, "https://two:1");
  EXPECT_EQ(found->identity->token().value_or("?"), "first");
}

TEST_F(Credentials, without_kubeconfig_the_one_in_home_counts) {
  variables["HOME"] = folder.string();
  write(".kube/config", kSimple);
  EXPECT_TRUE(access());
}

TEST_F(Credentials, an_unusable_entry_is_named_with_its_file) {
  struct Row {
    const char* content;
    const char* sentence;
  };
  const Row table[] = {
      {"current-context: a\n  bad indent: [", "line 2"},
      {"just a text", "is not a kubeconfig"},
      {"contexts: []", "there is no current-context: name one with --context"},
      {"current-context: a", "there is no context 'a'"},
      {"{current-context: a, contexts: [{name: a, context: {cluster: c}}]}", "there is no cluster 'c'"},
      {"{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: "
       "{server: 'https://h'}}]}",
       "there is no user 'u'"},
      {"{current-context: a, contexts: [{name: a, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "
       "'ftp://h'}}]}",
       "the server 'ftp://h' is no https:// or http:// URL"},
      {"{current-context: a, contexts: [{name: a, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "
       "'https://h', certificate-authority-data: '%%%'}}]}",
       "certificate-authority-data is not base64"},
      {"{current-context: a, contexts: [{name: a, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "
       "'https://h', certificate-authority: nowhere.crt}}]}",
       "certificate-authority: cannot read"},
      {"{current-context: a, contexts: [{name: a, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "
       "[1]}}]}",
       "line 1"},
      {"{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: "
       "{server: 'https://h'}}], users: [{name: u, user: {auth-provider: {name: oidc}}}]}",
       "the user's 'auth-provider' is not supported"},
      {"{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: "
       "{server: 'https://h'}}], users: [{name: u, user: {client-key-data: YQ==}}]}",
       "a key without a certificate"},
      {"{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: "
       "{server: 'https://h'}}], users: [{name: u, user: {exec: {apiVersion: v9, command: x}}}]}",
       "exec.apiVersion 'v9' is not supported"},
  };
  for (const Row& row : table) {
    variables["KUBECONFIG"] = write("config", row.content);
    const auto found = access();
    ASSERT_FALSE(found) << row.content;
    EXPECT_EQ(found.error().code, ErrorCode::kInvalid) << row.content;
    EXPECT_NE(found.error().message.find(row.sentence), std::string::npos) << found.error().message;
    EXPECT_NE(found.error().message.find(folder.string()), std::string::npos) << found.error().message;
  }
}

TEST_F(Credentials, without_any_the_error_says_what_to_do) {
  variables["HOME"] = folder.string();
  const auto found = find_access({}, environment(), clock);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(found.error().message.starts_with("no kubeconfig: set KUBECONFIG, ")) << found.error().message;
  EXPECT_NE(found.error().message.find("in a pod"), std::string::npos);
  const auto named = find_access({.kubeconfig = "/nowhere/config"}, environment(), clock);
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().message, "cannot read /nowhere/config: No such file or directory");
}

TEST_F(Credentials, a_pod_uses_its_service_account) {
  variables["KUBERNETES_SERVICE_HOST"] = "10.96.0.1";
  variables["KUBERNETES_SERVICE_PORT"] = "443";
  write("sa/ca.crt", "CA");
  write("sa/token", "pod-token\n");
  write("sa/namespace", "lockstep-system");
  const auto found = in_cluster_access(environment(), clock, (folder / "sa").string());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->server, "https://10.96.0.1:443");
  EXPECT_EQ(found->name_space, "lockstep-system");
  EXPECT_EQ(found->identity->token().value_or("?"), "pod-token");
  variables["KUBERNETES_SERVICE_HOST"] = "fd00::1";
  EXPECT_EQ(in_cluster_access(environment(), clock, (folder / "sa").string())->server,
            "https://kubernetes.default.svc:443");
}

TEST_F(Credentials, a_token_file_is_read_again_after_a_minute_or_a_refusal) {
  const std::string file = write("token", "one");
  const auto identity = file_identity({.token_file = file}, clock);
  EXPECT_EQ(identity->token().value_or("?"), "one");
  write("token", "two");
  clock.advance(std::chrono::seconds(59));
  EXPECT_EQ(identity->token().value_or("?"), "one");
  clock.advance(std::chrono::seconds(2));
  EXPECT_EQ(identity->token().value_or("?"), "two");
  write("token", "three");
  EXPECT_TRUE(identity->refused("two"));
  EXPECT_EQ(identity->token().value_or("?"), "three");
  EXPECT_FALSE(identity->refused("three"));  // there is no newer token
  EXPECT_TRUE(identity->refused("two"));     // another caller has read a newer one
  fs::remove(file);
  clock.advance(std::chrono::minutes(5));
  EXPECT_EQ(identity->token().value_or("?"), "three");  // better an old one than none
}

TEST_F(Credentials, a_token_that_would_break_a_header_is_refused) {
  const std::string file = write("token", "one\nX-Evil: yes");
  EXPECT_EQ(file_identity({.token_file = file}, clock)->token().error().code, ErrorCode::kCorrupt);
}

// A plugin that counts its calls and prints what a file says.
class Exec : public Credentials {
 protected:
  void SetUp() override {
    Credentials::SetUp();
    const std::string path = write("plugin", fmt::format("#!/bin/sh\necho call >> '{}/calls'\n"
                                                         "echo \"$KUBERNETES_EXEC_INFO\" > '{}/info'\n"
                                                         "cat '{}/answer'\n",
                                                         folder.string(), folder.string(), folder.string()));
    fs::permissions(path, fs::perms::owner_all);
    plugin.command = path;
    plugin.deadline = std::chrono::seconds(10);
  }
  void answer(const std::string& status) {
    write("answer",
          R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":)" + status + "}");
  }
  long calls() const {
    std::ifstream file(folder / "calls");
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  }
  ExecPlugin plugin;
};

TEST_F(Exec, a_token_is_kept_until_shortly_before_it_expires) {
  // ManualClock starts at 2023-11-14T22:13:20Z.
  answer(R"({"token":"one","expirationTimestamp":"2023-11-14T22:23:20Z"})");
  const auto identity = exec_identity(plugin, clock);
  EXPECT_EQ(identity->token().value_or("?"), "one");
  EXPECT_EQ(identity->token().value_or("?"), "one");
  EXPECT_EQ(calls(), 1);
  answer(R"({"token":"two","expirationTimestamp":"2023-11-14T22:33:20Z"})");
  clock.advance(std::chrono::seconds(595));
  EXPECT_EQ(identity->token().value_or("?"), "two");
  EXPECT_EQ(calls(), 2);
  EXPECT_TRUE(identity->refused("two"));
  EXPECT_TRUE(identity->token());
  EXPECT_EQ(calls(), 3);
}

TEST_F(Exec, a_client_certificate_may_come_instead_of_a_token) {
  answer(R"({"clientCertificateData":"cert","clientKeyData":"key"})");
  const auto identity = exec_identity(plugin, clock);
  EXPECT_EQ(identity->token().value_or("?"), "");
  EXPECT_EQ(identity->certificate(), (ClientCertificate{"cert", "key"}));
}

TEST_F(Exec, bad_plugins_end_in_a_sentence) {
  const auto message = [&] {
    const auto result = run_exec_plugin(plugin);
    return result ? std::string("it worked") : result.error().message;
  };
  answer("{}");
  EXPECT_NE(message().find("printed neither a token nor a client certificate"), std::string::npos) << message();
  answer(R"({"token":"a\nb"})");
  EXPECT_NE(message().find("cannot stand in a header"), std::string::npos) << message();
  write("answer", "no JSON");
  EXPECT_NE(message().find("did not print an ExecCredential"), std::string::npos) << message();
  plugin.command = "lockstep-no-such-plugin";
  plugin.install_hint = "Install it from somewhere.";
  EXPECT_NE(message().find("cannot be started: No such file or directory. Install it from somewhere."),
            std::string::npos)
      << message();
  plugin.command = "false";
  EXPECT_NE(message().find("failed with exit code 1"), std::string::npos) << message();
  plugin.command = "yes";
  EXPECT_NE(message().find("printed too much"), std::string::npos) << message();
  plugin.command = "sleep";
  plugin.args = {"600"};
  plugin.deadline = std::chrono::milliseconds(100);
  EXPECT_NE(message().find("did not end within 0.1 s"), std::string::npos) << message();
}

TEST_F(Exec, a_kubeconfig_runs_it_with_arguments_variables_and_the_cluster) {
  answer(R"({"token":"from plugin"})");
  answer(R"({"token":"from-plugin"})");
  variables["KUBECONFIG"] = write("config", R"(
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://h:1', certificate-authority-data: aGVsbG8gQ0E=}}]
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./plugin
      args: [get-token]
      env: [{name: REGION, value: north}]
      interactiveMode: Never
      provideClusterInfo: true
)");
  const auto found = access();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(calls(), 0);  // not before it is needed
  EXPECT_EQ(found->identity->token().value_or("?"), "from-plugin");
  std::ifstream info(folder / "info");
  const std::string text((std::istreambuf_iterator<char>(info)), {});
  EXPECT_NE(text.find(R"("certificate-authority-data":"aGVsbG8gQ0E=","server":"https://h:1")"), std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("interactive":false)"), std::string::npos) << text;
}

TEST(ProxyFor, follows_the_environment_and_no_proxy) {
  struct Row {
    const char* server;
    std::map<std::string, std::string> variables;
    const char* url;
  };
  const Row table[] = {
      {"https://api:6443", {}, ""},
      {"https://api:6443", {{"HTTPS_PROXY", "http://p:1"}}, "http://p:1"},
      {"https://api:6443", {{"HTTPS_PROXY", "p:1"}}, "http://p:1"},
      {"https://api:6443", {{"HTTPS_PROXY", "http://p:1"}, {"https_proxy", "http://q:2"}}, "http://q:2"},
      {"http://api:6443", {{"HTTPS_PROXY", "http://p:1"}}, ""},
      {"https://api:6443", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", "*"}}, ""},
      {"https://api:6443", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", "x, api"}}, ""},
      {"https://api:6443", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", "api:443"}}, "http://p:1"},
      {"https://api:6443", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", "api:6443"}}, ""},
      {"https://k8s.corp.example", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", "corp.example"}}, ""},
      {"https://k8s.corp.example", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", ".corp.example"}}, ""},
      {"https://corp.example", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", ".corp.example"}}, "http://p:1"},
      {"https://notcorp.example", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", "corp.example"}}, "http://p:1"},
      {"https://10.1.2.3:6443", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", "10.0.0.0/8"}}, ""},
      {"https://11.1.2.3:6443", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", "10.0.0.0/8"}}, "http://p:1"},
      {"https://10.1.2.3:6443", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", "10.0.0.0/99,10.0.0.0/x"}}, "http://p:1"},
      {"https://[fd00::5]:6443", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", "fd00::/16"}}, ""},
  };
  for (const Row& row : table) {
    const auto proxy = proxy_for(row.server, "", [&](const std::string& name) -> std::optional<std::string> {
      const auto it = row.variables.find(name);
      if (it == row.variables.end()) return std::nullopt;
      return it->second;
    });
    ASSERT_TRUE(proxy) << row.server;
    EXPECT_EQ(proxy->url, row.url) << row.server << " "
                                   << (row.variables.empty() ? "" : row.variables.rbegin()->second);
  }
  const auto none = [](const std::string&) -> std::optional<std::string> { return std::nullopt; };
  const auto named = proxy_for("https://api", "http://u:p@proxy:3128/", none);
  ASSERT_TRUE(named);
  EXPECT_EQ(named->url, "http://proxy:3128");
  EXPECT_EQ(named->user, "u");
  EXPECT_EQ(named->password, "p");
  const auto socks = proxy_for("https://api", "socks5://secret@proxy:1080", none);
  ASSERT_FALSE(socks);
  EXPECT_EQ(socks.error().message.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::kube
