#include "trainer/core/optimizer.h"

namespace lockstep::trainer::core {

namespace {

const std::vector<std::string>& momentum_alone() {
  static const std::vector<std::string> names = {"momentum"};
  return names;
}

const std::vector<std::string>& slots(const Sgd&) {
  return momentum_alone();
}

const std::vector<std::string>& slots(const Lars&) {
  return momentum_alone();
}

const std::vector<std::string>& slots(const AdamW&) {
  static const std::vector<std::string> names = {"adam_m", "adam_v"};
  return names;
}

}  // namespace

const std::vector<std::string>& slots_of(const Rule& rule) {
  return std::visit([](const auto& kind) -> const std::vector<std::string>& { return slots(kind); }, rule);
}

}  // namespace lockstep::trainer::core
