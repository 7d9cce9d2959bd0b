// Runs the real `lockstep` command for tests. Its output goes to files. A marker in the environment finds every process
// that it started, also those that lost their parents.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep::cli {

class Command {
 public:
  // Starts `lockstep` with these words in an empty folder of its own. Variables are added to a small environment.
  explicit Command(const std::vector<std::string>& words, const std::map<std::string, std::string>& environment = {});
  // Kills what is left and removes the folder.
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Waits for its end and returns the exit status, 1000 + signal for a signal, -1 if it did not end in time.
  int wait(std::chrono::seconds patience = std::chrono::seconds(60));
  void signal(int number) const;
  pid_t pid() const { return pid_; }
  std::string out() const;
  std::string err() const;
  // Waits until the output contains `text`.
  bool await_output(const std::string& text, std::chrono::seconds patience = std::chrono::seconds(60)) const;
  const std::string& folder() const { return folder_; }

  // Processes that carry the marker and are not zombies, the command itself included while it runs.
  std::vector<pid_t> processes() const;
  // Waits until there are none.
  bool await_no_process(std::chrono::seconds patience = std::chrono::seconds(10)) const;

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
  std::string folder_, marker_;
};

// The contents of a file; "" if there is none.
std::string read_file(const std::string& path);
// Polls, for states of another process, which sends no event.
bool eventually(std::chrono::seconds patience, const std::function<bool()>& condition);

}  // namespace lockstep::cli
