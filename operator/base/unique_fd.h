// A file descriptor with one owner, which closes it.
#pragma once

#include <unistd.h>

#include <utility>

namespace lockstep {

// One thread at a time.
class UniqueFd {
 public:
  UniqueFd() = default;
  // Owns `fd`; a negative one is none.
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  // -1: none.
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // The caller owns it from now on; -1: there was none.
  int release() { return std::exchange(fd_, -1); }
  // Closes what it owned, and owns `fd`.
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace lockstep
