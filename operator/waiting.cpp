#include "operator/waiting.h"

#include "operator/base/log.h"

namespace lockstep {
namespace {

constexpr Duration kLogAgain = std::chrono::minutes(1);

}  // namespace

void Waiting::because(const std::string& sentence) {
  const std::lock_guard guard(mutex_);
  const auto now = clock_.now();
  if (sentence == sentence_ && now - logged_at_ < kLogAgain) return;
  sentence_ = sentence;
  logged_at_ = now;
  log::warn("waiting", {{"for", sentence}});
}

void Waiting::over() {
  const std::lock_guard guard(mutex_);
  if (!sentence_.empty()) log::info("waiting is over", {{"for", sentence_}});
  sentence_.clear();
}

Status Waiting::status() const {
  const std::lock_guard guard(mutex_);
  return sentence_.empty() ? Status() : fail(ErrorCode::kUnavailable, sentence_);
}

}  // namespace lockstep
