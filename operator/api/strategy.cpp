#include "operator/api/strategy.h"

#include <iterator>

namespace lockstep::api {
namespace {

// By the order of the enum.
constexpr std::string_view kStrategyNames[] = {"", "None", "InPlace", "ReplaceFailed", "Shrink", "Gang"};
static_assert(std::size(kStrategyNames) == static_cast<size_t>(Strategy::kGang) + 1);

}  // namespace

std::string_view name_of(Strategy strategy) {
  return kStrategyNames[static_cast<size_t>(strategy)];
}

std::optional<Strategy> strategy_named(std::string_view name) {
  for (size_t i = 0; i < std::size(kStrategyNames); ++i) {
    if (kStrategyNames[i] == name) return static_cast<Strategy>(i);
  }
  return std::nullopt;
}

const std::vector<Strategy>& all_strategies() {
  static const std::vector<Strategy> strategies = {Strategy::kNothing, Strategy::kInPlace, Strategy::kReplaceFailed,
                                                   Strategy::kShrink, Strategy::kGang};
  return strategies;
}

}  // namespace lockstep::api
