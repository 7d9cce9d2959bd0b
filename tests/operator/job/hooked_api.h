// An API server behind another one: a test sees each write, may answer it itself, and is told of what came of it. The
// one place that lists the methods of kube::Api for the tests of this room.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "operator/kube/api.h"

namespace lockstep::job::testing {

class HookedApi : public kube::Api {
 public:
  using Json = kube::Json;
  struct Write {
    const char* verb;
    const kube::Resource& resource;
    const std::string& name;
    const Json* object;  // of a create; null of others
  };

  explicit HookedApi(kube::Api& api) : api_(api) {}

  Result<Json> get(const kube::Resource& resource, const std::string& name_space, const std::string& name) override {
    return api_.get(resource, name_space, name);
  }
  Result<kube::ListPage> list(const kube::Resource& resource, const kube::ListOptions& options) override {
    return api_.list(resource, options);
  }
  Status watch(const kube::Resource& resource, const kube::WatchOptions& options,
               const std::function<bool(kube::WatchEvent)>& on_event, std::stop_token stop) override {
    return api_.watch(resource, options, on_event, std::move(stop));
  }
  Result<Json> create(const kube::Resource& resource, const std::string& name_space, const Json& object,
                      const kube::WriteOptions& options) override {
    const std::string name = object["metadata"].value("name", "");
    return hooked<Result<Json>>({"create", resource, name, &object},
                                [&] { return api_.create(resource, name_space, object, options); });
  }
  Result<Json> replace(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                       const Json& object, const std::string& subresource, const kube::WriteOptions& options) override {
    return hooked<Result<Json>>({"replace", resource, name, nullptr},
                                [&] { return api_.replace(resource, name_space, name, object, subresource, options); });
  }
  Result<Json> patch(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                     kube::PatchType type, const Json& patch, const std::string& subresource,
                     const kube::WriteOptions& options) override {
    return hooked<Result<Json>>({"patch", resource, name, nullptr}, [&] {
      return api_.patch(resource, name_space, name, type, patch, subresource, options);
    });
  }
  Status remove(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                const kube::DeleteOptions& options) override {
    return hooked<Status>({"delete", resource, name, nullptr},
                          [&] { return api_.remove(resource, name_space, name, options); });
  }
  Status read_log(const std::string& name_space, const std::string& pod, const kube::LogOptions& options,
                  const std::function<bool(std::string_view)>& on_data, std::stop_token stop) override {
    return api_.read_log(name_space, pod, options, on_data, std::move(stop));
  }

 protected:
  // On the writing thread, before each write: an error is the write's answer, and the server is not asked.
  virtual std::optional<Error> before(const Write&) { return std::nullopt; }
  // After each write that the server was asked for, and whether it was made.
  virtual void after(const Write&, bool /*made*/) {}

  kube::Api& api_;

 private:
  template <typename Answer, typename Ask>
  Answer hooked(const Write& write, Ask ask) {
    if (auto error = before(write)) return *error;
    Answer answer = ask();
    after(write, bool(answer));
    return answer;
  }
};

}  // namespace lockstep::job::testing
