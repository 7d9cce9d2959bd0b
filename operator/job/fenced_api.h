// An Api that asks for permission right before each write: a leader whose lease ran out between deciding and writing
// writes nothing. What the check cannot give (a freeze after it) is covered by conditional writes and unique names.
#pragma once

#include <functional>
#include <utility>

#include "operator/kube/api.h"

namespace lockstep::job {

class FencedApi final : public kube::Api {
 public:
  using Json = kube::Json;

  // `api` outlives this. `may_write` is called on the writing thread; empty: always allowed.
  FencedApi(kube::Api& api, std::function<bool()> may_write) : api_(api), may_write_(std::move(may_write)) {}

  Result<Json> get(const kube::Resource& resource, const std::string& name_space, const std::string& name) override {
    return api_.get(resource, name_space, name);
  }
  Result<kube::ListPage> list(const kube::Resource& resource, const kube::ListOptions& options) override {
    return api_.list(resource, options);
  }
  Status watch(const kube::Resource& resource, const kube::WatchOptions& options,
               const std::function<bool(kube::WatchEvent)>& on_event, std::stop_token stop) override {
    return api_.watch(resource, options, on_event, stop);
  }
  Result<kube::ListEnd> list_text(const kube::Resource& resource, const kube::ListOptions& options,
                                  const std::function<void(std::string_view)>& on_item) override {
    return api_.list_text(resource, options, on_item);
  }
  Status watch_text(const kube::Resource& resource, const kube::WatchOptions& options,
                    const std::function<bool(kube::WatchEventType, std::string_view)>& on_event,
                    std::stop_token stop) override {
    return api_.watch_text(resource, options, on_event, std::move(stop));
  }
  Result<Json> create(const kube::Resource& resource, const std::string& name_space, const Json& object,
                      const kube::WriteOptions& options) override {
    if (!allowed()) return refused();
    return api_.create(resource, name_space, object, options);
  }
  Result<Json> replace(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                       const Json& object, const std::string& subresource, const kube::WriteOptions& options) override {
    if (!allowed()) return refused();
    return api_.replace(resource, name_space, name, object, subresource, options);
  }
  Result<Json> patch(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                     kube::PatchType type, const Json& patch, const std::string& subresource,
                     const kube::WriteOptions& options) override {
    if (!allowed()) return refused();
    return api_.patch(resource, name_space, name, type, patch, subresource, options);
  }
  Status remove(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                const kube::DeleteOptions& options) override {
    if (!allowed()) return refused();
    return api_.remove(resource, name_space, name, options);
  }
  Status read_log(const std::string& name_space, const std::string& pod, const kube::LogOptions& options,
                  const std::function<bool(std::string_view)>& on_data, std::stop_token stop) override {
    return api_.read_log(name_space, pod, options, on_data, stop);
  }

 private:
  bool allowed() const { return !may_write_ || may_write_(); }
  static Error refused() { return fail(ErrorCode::kCancelled, "this process is no longer the leader"); }

  kube::Api& api_;
  const std::function<bool()> may_write_;
};

}  // namespace lockstep::job
