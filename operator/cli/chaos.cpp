#include "operator/cli/chaos.h"

#include <cmath>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr Duration kPatience = std::chrono::seconds(10);  // for a victim that is being started

}  // namespace

Chaos::Chaos(std::vector<Fault> schedule, Make make, Clock& clock)
    : schedule_(std::move(schedule)), make_(std::move(make)), clock_(clock) {}

bool Chaos::due(const Fault& fault, std::int64_t newest_step, std::int64_t total_steps) {
  if (!due_) {
    const auto step = static_cast<std::int64_t>(std::ceil(fault.after * static_cast<double>(total_steps)));
    if (total_steps == 0 || newest_step < step) return false;
    due_ = (fault.at_once ? last_ : clock_.now()) + fault.delay;
  }
  return clock_.now() >= *due_;
}

std::vector<ChaosEvent> Chaos::look(std::int64_t newest_step, std::int64_t total_steps) {
  std::vector<ChaosEvent> happened;
  while (next_ < schedule_.size() && due(schedule_[next_], newest_step, total_steps)) {
    const Fault& fault = schedule_[next_];
    const auto said = make_(fault);
    if (!said && said.error().code == ErrorCode::kNotFound && clock_.now() < *due_ + kPatience) break;
    last_ = clock_.now();
    due_.reset();
    ++next_;
    happened.push_back({.number = static_cast<int>(next_),
                        .fault = fault,
                        .step = newest_step,
                        .when = last_,
                        .made = said.ok(),
                        .what = said ? *said : said.error().message});
  }
  events_.insert(events_.end(), happened.begin(), happened.end());
  return happened;
}

}  // namespace lockstep::cli
