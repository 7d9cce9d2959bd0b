#include "operator/cli/ledger_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr std::int64_t kLongStep = 4;  // times the mean: the most that a delayed step counts

using Generation = LedgerGeneration;
using Ranks = std::map<int, Generation::Committed>;

std::string digest_of(const Ranks& ranks) {
  for (const auto& [rank, line] : ranks) {
    if (!line.digest.empty()) return line.digest;
  }
  return "";
}

// The lines of one generation's ranks about one step.
void check_step(std::int64_t number, std::int64_t step, const Ranks& ranks, bool last, std::int64_t micro_batches,
                std::vector<std::string>& violations) {
  const auto wrong = [&](const std::string& what) {
    violations.push_back(fmt::format("step {} of generation {}: {}", step, number, what));
  };
  const int world = ranks.begin()->second.world;
  const bool whole = ranks.size() == static_cast<size_t>(world);
  if (!whole && !last) {
    wrong(fmt::format("{} of {} ranks committed it, and yet the generation continued", ranks.size(), world));
  }
  std::set<std::int64_t> applied;
  for (const auto& [rank, line] : ranks) {
    if (line.world != world) wrong(fmt::format("rank {} counts {} ranks, others count {}", rank, line.world, world));
    if (line.digest != ranks.begin()->second.digest) wrong("the ranks held different states after it");
    for (const std::int64_t batch : line.batches) {
      if (!applied.insert(batch).second) wrong(fmt::format("micro-batch {} was applied twice", batch));
    }
  }
  const auto count = static_cast<std::int64_t>(applied.size());
  if (whole && (count != micro_batches || (count > 0 && *applied.rbegin() != micro_batches - 1))) {
    wrong(fmt::format("{} of {} micro-batches were applied", count, micro_batches));
  }
}

void check_generation(std::int64_t number, const Generation& generation, std::int64_t micro_batches,
                      std::vector<std::string>& violations) {
  const auto& first = generation.entered.begin();
  for (const auto& [rank, entered] : generation.entered) {
    if (entered.from_step == first->second.from_step && entered.committed_in == first->second.committed_in &&
        entered.digest == first->second.digest) {
      continue;
    }
    violations.push_back(
        fmt::format("ranks {} and {} of generation {} did not start from the same state", first->first, rank, number));
  }
  std::int64_t before = generation.entered.empty() ? -1 : first->second.from_step;
  for (const auto& [step, ranks] : generation.steps) {
    if (step != before + 1) {
      violations.push_back(fmt::format("generation {} went from step {} to step {}", number, before, step));
    }
    before = step;
    check_step(number, step, ranks, step == generation.steps.rbegin()->first, micro_batches, violations);
  }
}

// The commit of each step that counts, by generation after generation.
void follow_lineage(const LedgerRecord& record, LedgerVerdict& verdict) {
  auto& effective = verdict.effective;
  for (const auto& [number, generation] : record.generations) {
    if (generation.entered.empty()) continue;
    const auto& start = generation.entered.begin()->second;
    if (start.from_step > 0) {
      const auto at = effective.find(start.from_step);
      if (at == effective.end() || at->second != start.committed_in) {
        verdict.violations.push_back(
            fmt::format("generation {} continued from step {} of generation {}, which does not count", number,
                        start.from_step, start.committed_in));
      } else {
        const std::string digest = digest_of(record.generations.at(at->second).steps.at(start.from_step));
        if (!digest.empty() && digest != start.digest) {
          verdict.violations.push_back(
              fmt::format("generation {} continued from another state than generation {} had after step {}", number,
                          start.committed_in, start.from_step));
        }
      }
    }
    if (generation.steps.empty()) continue;
    const auto later = effective.lower_bound(generation.steps.begin()->first);
    verdict.done_again += std::distance(later, effective.end());
    effective.erase(later, effective.end());
    for (const auto& [step, ranks] : generation.steps) effective[step] = number;
  }
}

std::int64_t first_commit(const Ranks& ranks) {
  std::int64_t ns = std::numeric_limits<std::int64_t>::max();
  for (const auto& [rank, line] : ranks) ns = std::min(ns, line.ns);
  return ns;
}

std::optional<std::int64_t> start_of(const Generation& generation) {
  std::optional<std::int64_t> ns;
  for (const auto& [rank, entered] : generation.entered) ns = std::min(ns.value_or(entered.ns), entered.ns);
  return ns;
}

struct Stretch {
  std::int64_t begin = 0, end = 0;
};

void measure(const LedgerRecord& record, LedgerVerdict& verdict) {
  std::vector<Stretch> steps;  // that count
  for (const auto& [step, number] : verdict.effective) {
    const Generation& generation = record.generations.at(number);
    const auto before = generation.steps.find(step - 1);
    const std::int64_t end = first_commit(generation.steps.at(step));
    const auto begin = before != generation.steps.end() ? first_commit(before->second) : start_of(generation);
    if (begin && *begin < end) steps.push_back({*begin, end});
  }
  if (steps.empty()) return;
  std::int64_t sum = 0;
  for (const Stretch& step : steps) sum += step.end - step.begin;
  const std::int64_t most = kLongStep * sum / static_cast<std::int64_t>(steps.size());
  std::int64_t now = steps.front().begin;
  for (const auto& [number, generation] : record.generations) now = std::min(now, start_of(generation).value_or(now));
  const std::int64_t begun = now;
  for (const Stretch& step : steps) {
    const std::int64_t useful = std::min(step.end - std::max(step.begin, now), most);
    const std::int64_t lost = step.end - now - useful;
    if (lost > 0) verdict.lost.push_back({step.end, lost});
    now = std::max(now, step.end);
  }
  verdict.wall_ns = now - begun;
}

}  // namespace

std::int64_t LedgerVerdict::lost_ns() const {
  return std::accumulate(lost.begin(), lost.end(), std::int64_t{0},
                         [](std::int64_t sum, const LostTime& one) { return sum + one.ns; });
}

double LedgerVerdict::goodput() const {
  return wall_ns > 0 ? 1.0 - static_cast<double>(lost_ns()) / static_cast<double>(wall_ns) : 0.0;
}

LedgerVerdict judge_ledger(const LedgerRecord& record, bool finished) {
  LedgerVerdict verdict;
  verdict.violations = record.oddities;
  for (const auto& [number, generation] : record.generations) {
    check_generation(number, generation, record.micro_batches, verdict.violations);
  }
  follow_lineage(record, verdict);
  const std::int64_t last = finished                    ? record.total_steps
                            : verdict.effective.empty() ? 0
                                                        : verdict.effective.rbegin()->first;
  for (std::int64_t step = 1; step <= last; ++step) {
    if (!verdict.effective.contains(step))
      verdict.violations.push_back(fmt::format("step {} was committed by no rank", step));
  }
  measure(record, verdict);
  return verdict;
}

}  // namespace lockstep::cli
