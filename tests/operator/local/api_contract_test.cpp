// The suite that a real API server passes, against the in-memory store.
#include "tests/operator/kube/api_contract.h"

#include "operator/local/memory_api.h"

namespace lockstep::kube::contract {
namespace {

struct InMemory final : Subject {
  InMemory() : store(SystemClock::instance(), {.history = 100}) {
    bookmark_timeout_seconds = 1;
    forgotten_version = std::to_string(store.version());
    for (int i = 0; i < 150; ++i) {
      const auto made = store.create(kConfigMaps, "elsewhere", {{"metadata", {{"name", fmt::format("c{}", i)}}}});
      EXPECT_TRUE(made.ok());
    }
  }
  Api& api() override { return store; }
  std::string name_space() const override { return "default"; }

  local::MemoryApi store;
};

INSTANTIATE_TEST_SUITE_P(Memory, ApiContract,
                         testing::Values(Parameter{"memory", [] { return std::make_unique<InMemory>(); }, ""}));

}  // namespace
}  // namespace lockstep::kube::contract
