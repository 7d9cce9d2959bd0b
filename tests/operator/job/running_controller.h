// A job controller over an in-memory API whose writes a test can watch, delay and refuse, with a coordinator that knows
// no job. Time is real, because the controller's threads are, unless a test brings a clock.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "operator/api/training_job.h"
#include "operator/base/metrics.h"
#include "operator/job/job_controller.h"
#include "operator/local/memory_api.h"
#include "tests/operator/job/hooked_api.h"

namespace lockstep::job::testing {

// The controller's way to the server. Thread-safe.
class WatchedApi final : public HookedApi {
 public:
  using Before = std::function<std::optional<Error>(const Write&)>;

  WatchedApi(kube::Api& api, Before before) : HookedApi(api), before_(std::move(before)) {}

  // Creates that the server took, by the object's name.
  std::map<std::string, int> created() const {
    const std::lock_guard guard(mutex_);
    return created_;
  }
  // Writes that the server took, by verb and kind: "replace TrainingJob".
  std::map<std::string, int> writes() const {
    const std::lock_guard guard(mutex_);
    return writes_;
  }

  // The newest resourceVersion of an object of which a watch's event has been handled; "" for none.
  std::string handled(const kube::Resource& resource, const std::string& name) const {
    const std::lock_guard guard(mutex_);
    const auto found = handled_.find(resource.kind + "/" + name);
    return found == handled_.end() ? "" : found->second;
  }

  Status watch(const kube::Resource& resource, const kube::WatchOptions& options,
               const std::function<bool(kube::WatchEvent)>& on_event, std::stop_token stop) override {
    const auto handle = [&](kube::WatchEvent event) {
      const Json meta = event.object.value("metadata", Json::object());
      const bool more = on_event(std::move(event));
      const std::lock_guard guard(mutex_);
      handled_[resource.kind + "/" + meta.value("name", "")] = meta.value("resourceVersion", "");
      return more;
    };
    return HookedApi::watch(resource, options, handle, std::move(stop));
  }

 private:
  std::optional<Error> before(const Write& write) override { return before_(write); }
  void after(const Write& write, bool made) override {
    if (!made) return;
    const std::lock_guard guard(mutex_);
    ++writes_[std::string(write.verb) + " " + write.resource.kind];
    if (write.object != nullptr) ++created_[write.name];
  }

  const Before before_;
  mutable std::mutex mutex_;
  std::map<std::string, int> created_, writes_;  // protected by mutex_
  std::map<std::string, std::string> handled_;   // by kind and name; protected by mutex_
};

class SilentCoordinator final : public rendezvous::Coordinator {
 public:
  void set_job(const rendezvous::JobPlan&) override {}
  void forget_job(const std::string&) override {}
  std::optional<rendezvous::JobView> view(const std::string&) const override { return std::nullopt; }
  std::string address() const override { return "127.0.0.1:7077"; }
  Status use_certificate(const rendezvous::KeyPair&) override { return {}; }
};

// Waits until `condition` holds; false after `patience`.
inline bool holds_within(std::chrono::milliseconds patience, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// A running controller; `before` as WatchedApi has it. The clock outlives it.
class RunningController {
 public:
  explicit RunningController(WatchedApi::Before before, JobControllerOptions options = {},
                             Clock& clock = SystemClock::instance())
      : watched(api, std::move(before)) {
    options.agent_image = "agent";
    if (!options.make_coordinator) {
      options.make_coordinator = [](const auto&, auto&, auto&, auto&, const auto&) {
        return Result<std::unique_ptr<rendezvous::Coordinator>>(std::make_unique<SilentCoordinator>());
      };
    }
    auto started = start_job_controller(options, watched, metrics, clock);
    EXPECT_TRUE(started) << started.error().message;
    if (started) controller = std::move(*started);
    EXPECT_TRUE(holds_within(std::chrono::seconds(10), [this] { return controller->synced(); }));
  }

  void create_job(const std::string& name, int nodes, const std::function<void(api::TrainingJobSpec&)>& change = {}) {
    api::TrainingJobSpec spec;
    spec.image = "image";
    spec.command = {"train"};
    spec.nodes = nodes;
    if (change) change(spec);
    const kube::Json object{{"apiVersion", kube::kTrainingJobs.api_version()},
                            {"kind", kube::kTrainingJobs.kind},
                            {"metadata", {{"name", name}, {"namespace", "default"}}},
                            {"spec", api::to_json(spec)}};
    const auto created = api.create(kube::kTrainingJobs, "default", object, {});
    EXPECT_TRUE(created) << created.error().message;
  }
  api::TrainingJob job(const std::string& name) {
    const auto object = api.get(kube::kTrainingJobs, "default", name);
    const auto parsed = object ? api::parse_training_job(*object) : object.error();
    return parsed ? *parsed : api::TrainingJob{};
  }
  // Pods of the job that exist.
  size_t pods(const std::string& name) {
    const auto page = api.list(
        kube::kPods, {.name_space = "default", .label_selector = std::string(api::kLabelJob) + "=" + name, .limit = 0});
    return page ? page->items.size() : 0;
  }

  local::MemoryApi api;
  MetricsRegistry metrics;
  WatchedApi watched;
  std::unique_ptr<JobController> controller;  // last: its threads use all of the above
};

}  // namespace lockstep::job::testing
