#include "tests/bench/operator_size/measured_operator.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "tests/bench/operator_size/cluster_texts.h"

namespace lockstep::bench {
namespace {

constexpr auto kListensWithin = std::chrono::seconds(60);
constexpr auto kReadLogEvery = std::chrono::milliseconds(50);

// Of the line with which the operator says that it has started; "" before.
std::string metrics_port(const std::string& log) {
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const auto said = nlohmann::json::parse(line, nullptr, false);
    if (said.is_object() && said.contains("metrics port")) return said["metrics port"];
  }
  return "";
}

}  // namespace

Result<MeasuredOperator> MeasuredOperator::start(const std::string& program, const std::string& folder,
                                                 const std::string& url, const std::string& ca_pem) {
  const std::string config = folder + "/kubeconfig", log = folder + "/operator.log", authority = folder + "/ca.pem";
  std::ofstream(authority) << ca_pem;
  std::ofstream(config) << fmt::format(
      "apiVersion: v1\nkind: Config\ncurrent-context: size\n"
      "clusters: [{{name: size, cluster: {{server: \"{}\", certificate-authority: \"{}\"}}}}]\n"
      "users: [{{name: size, user: {{token: token}}}}]\n"
      "contexts: [{{name: size, context: {{cluster: size, user: size}}}}]\n",
      url, authority);
  std::vector<std::string> words{program,
                                 "--kubeconfig=" + config,
                                 "--namespace=lockstep-system",
                                 "--metrics-address=127.0.0.1:0",
                                 "--coordinator-port=0",
                                 "--coordinator-advertise-address=127.0.0.1",
                                 "--agent-image=registry.example.com/lockstep/operator:dev",
                                 "--log-format=json",
                                 fmt::format("--topology-level=block={}", kBlockLabel),
                                 fmt::format("--topology-level=rack={}", kRackLabel)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  MeasuredOperator made;
  const int error = posix_spawn(&made.pid_, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    made.pid_ = -1;
    return fail(ErrorCode::kUnavailable, program + " cannot be started");
  }
  const auto until = std::chrono::steady_clock::now() + kListensWithin;
  while ((made.metrics_port_ = metrics_port(log)).empty()) {
    if (std::chrono::steady_clock::now() > until || ::waitpid(made.pid_, nullptr, WNOHANG) != 0) {
      return fail(ErrorCode::kUnavailable, "the operator does not start; see " + log);
    }
    std::this_thread::sleep_for(kReadLogEvery);  // the log of another process; no event tells when it listens
  }
  return made;
}

MeasuredOperator::MeasuredOperator(MeasuredOperator&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), metrics_port_(std::move(other.metrics_port_)) {}

MeasuredOperator::~MeasuredOperator() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string MeasuredOperator::get(const std::string& path) const {
  boost::asio::ip::tcp::iostream stream;
  stream.expires_after(std::chrono::seconds(10));
  stream.connect("127.0.0.1", metrics_port_);
  stream << "GET " << path << " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" << std::flush;
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::optional<double> MeasuredOperator::metric(const std::string& name) const {
  std::istringstream lines(get("/metrics"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + " ")) return std::strtod(line.c_str() + name.size() + 1, nullptr);
  }
  return std::nullopt;
}

bool MeasuredOperator::ready() const {
  return get("/readyz").starts_with("HTTP/1.1 200");
}

}  // namespace lockstep::bench
