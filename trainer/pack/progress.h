// How far a long command is: one line that is redrawn on a terminal, nothing elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace lockstep::trainer::pack {

// "1200 of 10000 images (12 %)  35.2 MB  410 images/s  eta 0:21". Pure.
std::string progress_text(std::int64_t done, std::int64_t total, std::uint64_t bytes, double seconds);

// One thread.
class Progress {
 public:
  // Draws on `to`, which outlives it, if `terminal`.
  Progress(std::FILE* to, bool terminal, std::int64_t total)
      : to_(to), terminal_(terminal), total_(total), started_(Clock::now()), drawn_(started_) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Draws ten times a second at most.
  void update(std::int64_t done, std::uint64_t bytes);
  // Removes the line, for other output.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* const to_;
  const bool terminal_;
  const std::int64_t total_;
  const Clock::time_point started_;
  Clock::time_point drawn_;
  bool shown_ = false;
};

}  // namespace lockstep::trainer::pack
