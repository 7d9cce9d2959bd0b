// The operator's way to the server in a test: writes down each write that the server took. Ends the process with
// SIGKILL right after the k-th, or after the first of a kind, before the operator learns of its success.
//
// What counts is what stays behind: creates, replaces, patches and deletes that succeeded. Not counted: Leases (the
// clock renews them), Events (they leave on a thread of their own and decide nothing), and TokenReviews (the server
// stores none). Writes of several threads are counted one after the other.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <regex>
#include <string>
#include <utility>

#include "operator/kube/api.h"

namespace lockstep::fault {

struct Fault {
  int die_after = 0;    // 0: never
  std::string die_on;   // after the first write whose line in the journal matches this regular expression; empty: never
  std::string journal;  // a line per write is appended to this file; empty: none
  bool twice = false;   // each pod is made once more under a second name: a bug that the test has to find
  std::string hold_renewals;  // while this file exists, a replace of the Lease waits before it is sent; empty: never
  bool forgetful = false;     // each pod that exists is deleted when the operator starts to lead: likewise
};

class FaultApi final : public kube::Api {
 public:
  using Json = kube::Json;

  FaultApi(std::unique_ptr<kube::Api> api, Fault fault) : api_(std::move(api)), fault_(std::move(fault)) {
    if (!fault_.journal.empty()) {
      journal_ = open(fault_.journal.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    }
  }
  ~FaultApi() override {
    if (journal_ >= 0) close(journal_);
  }
  FaultApi(const FaultApi&) = delete;
  FaultApi& operator=(const FaultApi&) = delete;

  Result<Json> get(const kube::Resource& resource, const std::string& name_space, const std::string& name) override {
    return api_->get(resource, name_space, name);
  }
  Result<kube::ListPage> list(const kube::Resource& resource, const kube::ListOptions& options) override {
    auto page = api_->list(resource, options);
    if (fault_.forgetful && page && resource == kube::kPods) remove_all(*page);
    return page;
  }
  Status watch(const kube::Resource& resource, const kube::WatchOptions& options,
               const std::function<bool(kube::WatchEvent)>& on_event, std::stop_token stop) override {
    return api_->watch(resource, options, on_event, stop);
  }
  Result<Json> create(const kube::Resource& resource, const std::string& name_space, const Json& object,
                      const kube::WriteOptions& options) override {
    auto created = api_->create(resource, name_space, object, options);
    if (created && fault_.twice && resource == kube::kPods) {
      Json second = object;
      second["metadata"]["name"] = name_of(object) + "-again";
      (void)api_->create(resource, name_space, second, options);
    }
    if (created) wrote("create", resource, name_of(object) + said_by(object, ""));
    return created;
  }
  Result<Json> replace(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                       const Json& object, const std::string& subresource, const kube::WriteOptions& options) override {
    while (resource == kube::kLeases && !fault_.hold_renewals.empty() &&
           access(fault_.hold_renewals.c_str(), F_OK) == 0) {
      usleep(10'000);
    }
    auto replaced = api_->replace(resource, name_space, name, object, subresource, options);
    if (replaced) wrote("replace", resource, name + said_by(*replaced, subresource));
    return replaced;
  }
  Result<Json> patch(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                     kube::PatchType type, const Json& patch, const std::string& subresource,
                     const kube::WriteOptions& options) override {
    auto patched = api_->patch(resource, name_space, name, type, patch, subresource, options);
    if (patched) wrote("patch", resource, name);
    return patched;
  }
  Status remove(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                const kube::DeleteOptions& options) override {
    auto removed = api_->remove(resource, name_space, name, options);
    if (removed) wrote("delete", resource, name);
    return removed;
  }
  Status read_log(const std::string& name_space, const std::string& pod, const kube::LogOptions& options,
                  const std::function<bool(std::string_view)>& on_data, std::stop_token stop) override {
    return api_->read_log(name_space, pod, options, on_data, stop);
  }

 private:
  static std::string name_of(const Json& object) { return object.value(Json::json_pointer("/metadata/name"), ""); }

  // For the table: which status, which generation of the record.
  static std::string said_by(const Json& object, const std::string& subresource) {
    if (subresource == "status") return " status " + object.value(Json::json_pointer("/status/state"), "");
    const auto record = Json::parse(object.value(Json::json_pointer("/data/record"), ""), nullptr, false);
    if (!record.is_object()) return "";
    return " generation " + std::to_string(record.value("generation", 0)) +
           (record.contains("checkpoint") ? " with a checkpoint" : "") +
           (record.contains("finished") ? " finished" : "");
  }

  void remove_all(const kube::ListPage& page) {
    for (const Json& pod : page.items) {
      (void)api_->remove(kube::kPods, pod.value(Json::json_pointer("/metadata/namespace"), ""), name_of(pod), {});
    }
  }

  void wrote(const char* verb, const kube::Resource& resource, const std::string& what) {
    if (resource == kube::kLeases || resource == kube::kEvents || resource == kube::kTokenReviews) return;
    const std::lock_guard guard(mutex_);
    const std::string line = std::string(verb) + " " + resource.kind + " " + what;
    if (journal_ >= 0 && dprintf(journal_, "%s\n", line.c_str()) < 0) _exit(3);
    const bool due = !fault_.die_on.empty() && std::regex_search(line, std::regex(fault_.die_on));
    if (++writes_ == fault_.die_after || due) kill(getpid(), SIGKILL);
  }

  const std::unique_ptr<kube::Api> api_;
  const Fault fault_;
  int journal_ = -1;
  std::mutex mutex_;
  int writes_ = 0;  // protected by mutex_
};

}  // namespace lockstep::fault
