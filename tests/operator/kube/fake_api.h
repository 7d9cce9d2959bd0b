// A kube::Api whose answers a test decides; a call without one is an error. Not a server: it holds no objects and
// checks nothing.
#pragma once

#include <functional>
#include <string>

#include "operator/kube/api.h"

namespace lockstep::kube::testing {

class FakeApi : public Api {
 public:
  std::function<Result<Json>(const Resource&, const std::string& name)> on_get;
  std::function<Result<ListPage>(const ListOptions&)> on_list;
  std::function<Status(const WatchOptions&, const std::function<bool(WatchEvent)>&, std::stop_token)> on_watch;
  std::function<Result<Json>(const Resource&, const Json&)> on_create;
  std::function<Result<Json>(const Resource&, const std::string& name, const Json&)> on_replace;
  std::function<Result<Json>(const Resource&, const std::string& name, const Json&)> on_patch;

  Result<Json> get(const Resource& resource, const std::string&, const std::string& name) override {
    return on_get ? on_get(resource, name) : unexpected("get");
  }
  Result<ListPage> list(const Resource&, const ListOptions& options) override {
    if (on_list) return on_list(options);
    return unexpected("list");
  }
  Status watch(const Resource&, const WatchOptions& options, const std::function<bool(WatchEvent)>& on_event,
               std::stop_token stop) override {
    if (on_watch) return on_watch(options, on_event, std::move(stop));
    return unexpected("watch");
  }
  Result<Json> create(const Resource& resource, const std::string&, const Json& object, const WriteOptions&) override {
    return on_create ? on_create(resource, object) : unexpected("create");
  }
  Result<Json> replace(const Resource& resource, const std::string&, const std::string& name, const Json& object,
                       const std::string&, const WriteOptions&) override {
    return on_replace ? on_replace(resource, name, object) : unexpected("replace");
  }
  Result<Json> patch(const Resource& resource, const std::string&, const std::string& name, PatchType, const Json& body,
                     const std::string&, const WriteOptions&) override {
    return on_patch ? on_patch(resource, name, body) : unexpected("patch");
  }
  Status remove(const Resource&, const std::string&, const std::string&, const DeleteOptions&) override {
    return unexpected("remove");
  }
  Status read_log(const std::string&, const std::string&, const LogOptions&,
                  const std::function<bool(std::string_view)>&, std::stop_token) override {
    return unexpected("read_log");
  }

 private:
  static Error unexpected(const char* verb) {
    return fail(ErrorCode::kInternal, std::string("the test expected no ") + verb);
  }
};

}  // namespace lockstep::kube::testing
