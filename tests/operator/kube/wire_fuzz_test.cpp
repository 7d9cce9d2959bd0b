// The fuzz target on small random changes of a pod, a list and a watch.
#include <gtest/gtest.h>

#include <cstdint>

#include "operator/kube/wire_messages.h"
#include "tests/fuzz/on_small_changes.h"
#include "tests/operator/kube/wire_encoder.h"

extern "C" int wire_fuzz(const std::uint8_t* data, size_t size);

namespace lockstep::kube {
namespace {

TEST(WireText, of_anything_does_no_harm) {
  const auto pod = nlohmann::json::parse(R"({
    "metadata": {"name": "p", "creationTimestamp": "2026-11-28T12:00:00Z", "labels": {"x": "1"}},
    "spec": {"priority": 7, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    "status": {"phase": "Running", "containerStatuses": [{"restartCount": 2, "state": {"terminated": {}}}]}})");
  const std::string bytes = testing::encoded(pod, *message_of(kPods));
  const std::string envelope = testing::enveloped(bytes);
  const std::string list =
      testing::enveloped(testing::bytes_field(1, testing::bytes_field(2, "7")) + testing::bytes_field(2, bytes));
  run_on_small_changes(wire_fuzz, {envelope, list, testing::framed("ADDED", envelope)}, all_bytes(), 30'000);
}

}  // namespace
}  // namespace lockstep::kube
