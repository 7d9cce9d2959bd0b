#include "tests/operator/cli/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace lockstep::cli {
namespace fs = std::filesystem;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return (std::stringstream() << file.rdbuf()).str();
}

// The awaited state is in another process or its files, which send no event: polls.
bool eventually(std::chrono::seconds patience, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

Command::Command(const std::vector<std::string>& words, const std::map<std::string, std::string>& environment) {
  std::string pattern = (fs::temp_directory_path() / "lockstep-cli-XXXXXX").string();
  folder_ = mkdtemp(pattern.data());
  marker_ = "LOCKSTEPTEST=" + folder_;
  std::vector<std::string> argv = {LOCKSTEP_BINARY};
  argv.insert(argv.end(), words.begin(), words.end());
  std::vector<std::string> variables = {marker_, "PATH=/usr/bin:/bin", "HOME=" + folder_, "LANG=C"};
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  for (const char* name : {"ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"}) {  // of the test itself
    if (const char* value = std::getenv(name)) variables.push_back(std::string(name) + "=" + value);
  }
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  };
  const std::vector<char*> argv_pointers = pointers(argv), variable_pointers = pointers(variables);
  const std::string out = folder_ + "/.out", err = folder_ + "/.err";
  pid_ = fork();
  if (pid_ != 0) return;
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), 1);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), 2);
  if (chdir(folder_.c_str()) == 0) execve(argv_pointers[0], argv_pointers.data(), variable_pointers.data());
  _exit(126);
}

Command::~Command() {
  for (const pid_t process : processes()) kill(process, SIGKILL);
  if (!ended_) wait(std::chrono::seconds(5));
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

int Command::wait(std::chrono::seconds patience) {
  int status = 0;
  ended_ = eventually(patience, [&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
  if (!ended_) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void Command::signal(int number) const {
  kill(pid_, number);
}
std::string Command::out() const {
  return read_file(folder_ + "/.out");
}
std::string Command::err() const {
  return read_file(folder_ + "/.err");
}

bool Command::await_output(const std::string& text, std::chrono::seconds patience) const {
  return eventually(patience, [&] { return out().find(text) != std::string::npos; });
}

std::vector<pid_t> Command::processes() const {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c); })) continue;
    const std::string variables = read_file("/proc/" + name + "/environ");  // a zombie's is empty
    if (std::string("\0", 1).append(variables).find(std::string("\0", 1) + marker_ + std::string("\0", 1)) !=
        std::string::npos) {
      found.push_back(std::atoi(name.c_str()));
    }
  }
  return found;
}

bool Command::await_no_process(std::chrono::seconds patience) const {
  return eventually(patience, [&] { return processes().empty(); });
}

}  // namespace lockstep::cli
