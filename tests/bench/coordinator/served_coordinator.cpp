#include "tests/bench/coordinator/served_coordinator.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "operator/base/log.h"
#include "operator/rendezvous/coordinator.h"

namespace lockstep::bench {
namespace {

namespace rv = rendezvous;

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// One record in one file, which a coordinator leaves to the next.
class FileStore final : public rv::GenerationStore {
 public:
  explicit FileStore(std::string path) : path_(std::move(path)) {}

  Result<Versioned> load(const std::string&, const std::string&, const std::string&) override {
    std::ifstream in(path_);
    Versioned stored;
    std::size_t members = 0;
    if (!(in >> stored.version >> stored.record.term >> stored.record.generation >> members)) return Versioned{};
    for (std::size_t i = 0; i < members; ++i) {
      rv::Record::Member member;
      in >> member.slot >> member.incarnation >> member.life;
      stored.record.members.push_back(member);
    }
    return stored;
  }
  Result<std::string> compare_and_set(const std::string& name_space, const std::string& job, const std::string& uid,
                                      const std::string& version, const rv::Record& next) override {
    LOCKSTEP_TRY(const Versioned stored, load(name_space, job, uid));
    if (stored.version != version) return fail(ErrorCode::kConflict, "another version");
    const std::string newer = std::to_string(version.empty() ? 1 : std::stoll(version) + 1);
    {
      std::ofstream out(path_ + ".new");
      out << newer << ' ' << next.term << ' ' << next.generation << ' ' << next.members.size();
      for (const auto& member : next.members)
        out << ' ' << member.slot << ' ' << member.incarnation << ' ' << member.life;
    }
    if (std::rename((path_ + ".new").c_str(), path_.c_str()) != 0) return fail(ErrorCode::kUnavailable, "not written");
    return newer;
  }

 private:
  const std::string path_;
};

class PodTokens final : public rv::MemberAuthenticator {
 public:
  Status check(const std::string& token, const std::string&, const std::string& pod, const std::string&) override {
    return token == pod ? Status() : fail(ErrorCode::kUnauthorized, "the token is not of this pod");
  }
};

}  // namespace

std::string pod_of(int slot, std::int64_t incarnation) {
  return fmt::format("{}-{}-{}", kJob, slot, incarnation);
}

int serve(const std::string& folder, int port, std::int64_t term, int members) {
  log::configure(log::Level::kWarn, log::Format::kText);
  FileStore store(folder + "/record");
  PodTokens tokens;
  std::mutex mutex;
  std::condition_variable change;
  bool changed = false, ended = false;
  std::vector<int> gone;  // slots whose pods were deleted
  rv::CoordinatorOptions options;
  options.listen_address = "127.0.0.1";
  options.port = port;
  options.certificate_pem = text_of(folder + "/serving.pem");
  options.private_key_pem = text_of(folder + "/key.pem");
  options.term = term;
  const auto on_change = [&](const std::string&, const std::string&) {
    const std::lock_guard guard(mutex);
    changed = true;
    change.notify_all();
  };
  auto started = rv::start_coordinator(options, store, tokens, SystemClock::instance(), on_change);
  if (!started) {
    std::cerr << started.error().message << std::endl;
    return 1;
  }
  rv::Coordinator& coordinator = **started;
  std::cout << "address " << coordinator.address() << std::endl;
  std::thread input([&] {
    for (int slot = 0; std::cin >> slot;) {
      const std::lock_guard guard(mutex);
      gone.push_back(slot);
      changed = true;
      change.notify_all();
    }
    const std::lock_guard guard(mutex);
    ended = true;
    change.notify_all();
  });

  rv::JobPlan plan;
  plan.name_space = kNamespace;
  plan.name = plan.uid = kJob;
  plan.slots = members;
  plan.deadlines.progress_seconds = 10;
  for (int slot = 0; slot < members; ++slot) plan.members.push_back({slot, 1, pod_of(slot, 1), pod_of(slot, 1), ""});
  // Of pods that were replaced under the previous coordinator.
  if (const auto stored = store.load(kNamespace, kJob, kJob)) {
    for (const rv::Record::Member& known : stored->record.members) {
      rv::ExpectedMember& member = plan.members.at(static_cast<std::size_t>(known.slot));
      member.incarnation = known.incarnation;
      member.pod_name = member.pod_uid = pod_of(known.slot, known.incarnation);
    }
  }
  coordinator.set_job(plan);
  int lost = -1;
  std::string shown;
  std::unique_lock lock(mutex);
  while (!ended) {
    change.wait_for(lock, std::chrono::milliseconds(250), [&] { return changed || ended; });
    changed = false;
    const std::vector<int> replaced = std::exchange(gone, {});
    lock.unlock();
    for (const int slot : replaced) {
      rv::ExpectedMember& member = plan.members.at(static_cast<std::size_t>(slot));
      ++member.incarnation;
      member.pod_name = member.pod_uid = pod_of(slot, member.incarnation);
      lost = slot;
    }
    if (!replaced.empty()) coordinator.set_job(plan);
    if (const auto view = coordinator.view(kJob)) {
      if (view->phase == rv::Phase::kBroken && plan.handled_generation < view->generation) {
        plan.handled_generation = view->generation;
        coordinator.set_job(plan);
      }
      const auto connected =
          std::count_if(view->members.begin(), view->members.end(), [](const auto& m) { return m.connected; });
      std::string line = fmt::format("view {} {} {} {} {}", static_cast<int>(view->phase), view->generation, connected,
                                     lost, view->message);
      if (line != shown) std::cout << line << std::endl;
      shown = std::move(line);
    }
    lock.lock();
  }
  lock.unlock();
  input.join();
  return 0;
}

Result<ServedCoordinator> ServedCoordinator::start(const std::string& folder, int port, std::int64_t term,
                                                   int members) {
  int to[2];
  int from[2];
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) return fail(ErrorCode::kExhausted, "no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  std::vector<std::string> words{"coordinator_bench",    "serve", folder, std::to_string(port), std::to_string(term),
                                 std::to_string(members)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ServedCoordinator made;
  const int error = posix_spawn(&made.pid_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(to[0]);
  ::close(from[1]);
  made.in_ = to[1];
  made.out_ = from[0];
  if (error != 0) {
    made.pid_ = -1;
    return fail(ErrorCode::kUnavailable, "the coordinator's process cannot be started");
  }
  std::string line;
  if (!made.next_line(line, 20) || !line.starts_with("address ")) {
    return fail(ErrorCode::kUnavailable, "the coordinator does not listen");
  }
  made.port_ = std::stoi(line.substr(line.rfind(':') + 1));
  return made;
}

ServedCoordinator::ServedCoordinator(ServedCoordinator&& other) noexcept {
  *this = std::move(other);
}

ServedCoordinator& ServedCoordinator::operator=(ServedCoordinator&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  std::swap(port_, other.port_);
  std::swap(text_, other.text_);
  return *this;
}

void ServedCoordinator::kill() {
  if (in_ >= 0) ::close(std::exchange(in_, -1));
  if (out_ >= 0) ::close(std::exchange(out_, -1));
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(std::exchange(pid_, -1), nullptr, 0);
}

void ServedCoordinator::replace_pod(int slot) {
  const std::string line = fmt::format("{}\n", slot);
  if (::write(in_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::cerr << "the coordinator's process does not read\n";
  }
}

bool ServedCoordinator::next_line(std::string& line, double within) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(within);
  while (true) {
    if (const std::size_t end = text_.find('\n'); end != std::string::npos) {
      line = text_.substr(0, end);
      text_.erase(0, end + 1);
      return true;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd readable{out_, POLLIN, 0};
    if (left.count() < 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0) return false;
    char bytes[4096];
    const ssize_t length = ::read(out_, bytes, sizeof bytes);
    if (length <= 0) return false;
    text_.append(bytes, static_cast<std::size_t>(length));
  }
}

bool ServedCoordinator::read(View& view, double within) {
  std::string line;
  bool any = false;
  while (next_line(line, any ? 0 : within)) {
    std::istringstream words(line);
    std::string word;
    words >> word >> view.phase >> view.generation >> view.connected >> view.replaced >> std::ws;
    std::getline(words, view.message);
    any = true;
  }
  return any;
}

}  // namespace lockstep::bench
