#include "operator/cli/chaos.h"

#include <cmath>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr std::int64_t kApart = 5;                        // steps between faults that are not at_once
constexpr Duration kPatience = std::chrono::seconds(10);  // for a victim that is starting

}  // namespace

Chaos::Chaos(std::vector<Fault> schedule, Make make, Clock& clock)
    : schedule_(std::move(schedule)), make_(std::move(make)), clock_(clock) {}

bool Chaos::due(const Fault& fault, const ChaosProgress& progress) {
  if (!due_) {
    const auto step = static_cast<std::int64_t>(std::ceil(fault.after * static_cast<double>(progress.total_steps)));
    if (progress.total_steps == 0 || progress.newest_step < step) return false;
    if (!fault.at_once && next_ > 0 && progress.commits < last_commits_ + kApart) return false;
    due_ = (fault.at_once ? last_ : clock_.now()) + fault.delay;
  }
  return clock_.now() >= *due_;
}

std::vector<ChaosEvent> Chaos::look(const ChaosProgress& progress) {
  std::vector<ChaosEvent> happened;
  while (next_ < schedule_.size() && due(schedule_[next_], progress)) {
    const Fault& fault = schedule_[next_];
    const auto said = make_(fault);
    if (!said && said.error().code == ErrorCode::kNotFound && clock_.now() < *due_ + kPatience) break;
    last_ = clock_.now();
    last_commits_ = progress.commits;
    due_.reset();
    ++next_;
    happened.push_back({.number = static_cast<int>(next_),
                        .fault = fault,
                        .step = progress.newest_step,
                        .when = last_,
                        .made = said.ok(),
                        .what = said ? *said : said.error().message});
  }
  events_.insert(events_.end(), happened.begin(), happened.end());
  return happened;
}

}  // namespace lockstep::cli
