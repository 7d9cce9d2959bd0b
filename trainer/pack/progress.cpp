#include "trainer/pack/progress.h"

#include <fmt/format.h>

namespace lockstep::trainer::pack {

std::string progress_text(std::int64_t done, std::int64_t total, std::uint64_t bytes, double seconds) {
  const auto share = static_cast<int>(total > 0 ? 100 * done / total : 0);
  std::string text =
      fmt::format("{} of {} images ({} %)  {:.1f} MB", done, total, share, static_cast<double>(bytes) / 1e6);
  if (done == 0 || seconds <= 0) return text;
  const double rate = static_cast<double>(done) / seconds;
  const auto left = static_cast<std::int64_t>(static_cast<double>(total - done) / rate);
  return text + fmt::format("  {:.0f} images/s  eta {}:{:02}", rate, left / 60, left % 60);
}

void Progress::update(std::int64_t done, std::uint64_t bytes) {
  const auto now = Clock::now();
  if (!terminal_ || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  shown_ = true;
  fmt::print(to_, "\r{}\x1b[K",
             progress_text(done, total_, bytes, std::chrono::duration<double>(now - started_).count()));
  std::fflush(to_);
}

void Progress::clear() {
  if (!shown_) return;
  shown_ = false;
  fmt::print(to_, "\r\x1b[K");
  std::fflush(to_);
}

}  // namespace lockstep::trainer::pack
