// An append-only file of lines, for tools that follow it and for readers after a kill: a line is there whole or not at
// all.
#pragma once

#include <memory>
#include <string>

#include "operator/base/result.h"

namespace lockstep::trainer::report {

class LineFile {
 public:
  // Creates the file if it does not exist. `what` is its name in errors ("the metrics file"). kUnavailable, kForbidden,
  // kNotFound: it cannot be opened.
  static Result<std::unique_ptr<LineFile>> open(std::string what, const std::string& path);
  // A new file that gets its name, which must be unique, with its first line. So a file of that name never lacks a
  // line, wherever this process is killed. Errors are those of open() and write(), or kUnavailable: it cannot be
  // renamed.
  static Result<std::unique_ptr<LineFile>> begin(const std::string& what, const std::string& path, std::string line);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Appends `line` and a newline with one write. kExhausted: the disk is full; kUnavailable: other failures. One
  // thread.
  Status write(std::string line);

 private:
  LineFile(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  int fd_;
  std::string name_;  // with its path
};

}  // namespace lockstep::trainer::report
