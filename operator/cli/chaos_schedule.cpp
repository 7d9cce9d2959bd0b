#include "operator/cli/chaos_schedule.h"

#include <algorithm>
#include <array>
#include <random>
#include <string_view>

#include "operator/base/number.h"

namespace lockstep::cli {
namespace {

using namespace std::chrono_literals;

constexpr int kMostFaults = 5000;
constexpr double kFirst = 0.03, kLast = 0.95;  // shares of the steps: the gang is whole, and can still recover
constexpr int kAtOnce = 6;                     // one in six

struct Weight {
  FaultKind kind;
  int weight;
};
// Faults that are more frequent in practice are more frequent here.
constexpr std::array<Weight, kFaultKinds> kWeights = {{{FaultKind::kKillWorker, 5},
                                                       {FaultKind::kKillPod, 3},
                                                       {FaultKind::kEndPod, 2},
                                                       {FaultKind::kFreezeWorker, 3},
                                                       {FaultKind::kCutCoordinator, 3},
                                                       {FaultKind::kCutData, 3},
                                                       {FaultKind::kRestartCoordinator, 1}}};

// The engine's numbers are the same everywhere; those of the standard library's distributions are not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  std::uint64_t any() { return engine_(); }
  double share() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }

 private:
  std::mt19937_64 engine_;
};

FaultKind draw_kind(Random& random, int slots) {
  const auto possible = [&](FaultKind kind) { return kind != FaultKind::kCutData || slots > 1; };
  std::uint64_t sum = 0;
  for (const Weight& one : kWeights) sum += possible(one.kind) ? static_cast<std::uint64_t>(one.weight) : 0;
  std::uint64_t drawn = random.below(sum);
  for (const Weight& one : kWeights) {
    if (!possible(one.kind)) continue;
    if (drawn < static_cast<std::uint64_t>(one.weight)) return one.kind;
    drawn -= static_cast<std::uint64_t>(one.weight);
  }
  return FaultKind::kKillWorker;
}

}  // namespace

std::vector<Fault> chaos_schedule(std::uint64_t seed, int faults, int slots) {
  Random random(seed);
  std::vector<double> after;
  for (int i = 0; i < faults; ++i) after.push_back(kFirst + (kLast - kFirst) * random.share());
  std::sort(after.begin(), after.end());
  std::vector<Fault> schedule;
  for (int i = 0; i < faults; ++i) {
    Fault fault;
    fault.kind = draw_kind(random, slots);
    const auto slot = static_cast<int>(random.below(static_cast<std::uint64_t>(slots)));
    fault.slot = fault.kind == FaultKind::kRestartCoordinator ? -1 : slot;
    fault.choice = random.any();
    fault.at_once = random.below(kAtOnce) == 0 && i > 0;
    fault.after = fault.at_once ? schedule.back().after : after[static_cast<size_t>(i)];
    fault.delay = std::chrono::microseconds(random.below(fault.at_once ? 400'000 : 25'000));
    const Duration frozen = 50ms + std::chrono::milliseconds(random.below(500));
    if (fault.kind == FaultKind::kFreezeWorker) fault.frozen = frozen;
    schedule.push_back(fault);
  }
  return schedule;
}

Result<ChaosWish> parse_chaos(const std::string& text) {
  const std::string_view all = text;
  const auto colon = all.find(':');
  ChaosWish wish;
  const auto seed = parse_number<std::uint64_t>(all.substr(0, colon));
  const auto faults = colon == all.npos ? wish.faults : parse_number(all.substr(colon + 1), 1, kMostFaults);
  if (!seed || !faults) {
    return fail(ErrorCode::kInvalid, "--chaos \"" + text +
                                         "\": give a seed, and a number of faults up to 5000 where it is not 20, as "
                                         "in --chaos 7 or --chaos 7:60");
  }
  return ChaosWish{*seed, *faults};
}

const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kKillWorker:
      return "kill a worker";
    case FaultKind::kKillPod:
      return "kill a pod";
    case FaultKind::kEndPod:
      return "tell a pod to end";
    case FaultKind::kFreezeWorker:
      return "freeze a worker";
    case FaultKind::kCutCoordinator:
      return "cut an agent off";
    case FaultKind::kCutData:
      return "cut a data link";
    case FaultKind::kRestartCoordinator:
      return "restart the operator";
  }
  return "";
}

bool may_be_charged(FaultKind kind) {
  return kind == FaultKind::kKillWorker || kind == FaultKind::kKillPod || kind == FaultKind::kEndPod;
}

}  // namespace lockstep::cli
