// The Api of a real server: URLs, JSON, Status objects, tokens and watches over a Transport.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "operator/base/metrics.h"
#include "operator/kube/api.h"
#include "operator/kube/credentials.h"
#include "operator/kube/transport.h"
#include "operator/kube/wire_text.h"

namespace lockstep::kube {

struct HttpApiOptions {
  Duration call_deadline = std::chrono::seconds(10);
  // Less than leaseDurationSeconds - renewDeadline, so that a late renewal cannot arrive in another leader's term.
  Duration lease_deadline = std::chrono::seconds(5);
  // Bookmarks come about every minute, so a watch that is silent for two minutes has lost its server.
  Duration watch_idle_deadline = std::chrono::seconds(120);
  // The log of a quiet program: no byte arrives while the program prints none.
  Duration log_idle_deadline = std::chrono::hours(1);
};

// Thread-safe. A call is sent once, and once more with a fresh token if the server answered 401. The caller retries
// every other failure. Error::retry_after_seconds is the pause that the server asked for; ADR 0001 says which callers
// observe it. Callers also bound how many calls are in flight: one refused call delays no other.
class HttpApi final : public Api {
 public:
  // `host` labels the metrics. `metrics` and `clock` outlive this.
  HttpApi(std::unique_ptr<Transport> transport, std::shared_ptr<Identity> identity, std::string host, Clock& clock,
          MetricsRegistry& metrics, HttpApiOptions options = {});

  Result<Json> get(const Resource& resource, const std::string& name_space, const std::string& name) override;
  Result<ListPage> list(const Resource& resource, const ListOptions& options) override;
  Status watch(const Resource& resource, const WatchOptions& options, const std::function<bool(WatchEvent)>& on_event,
               std::stop_token stop) override;
  Result<ListEnd> list_text(const Resource& resource, const ListOptions& options,
                            const std::function<void(std::string_view)>& on_item) override;
  Status watch_text(const Resource& resource, const WatchOptions& options,
                    const std::function<bool(WatchEventType, std::string_view)>& on_event,
                    std::stop_token stop) override;
  Result<Json> create(const Resource& resource, const std::string& name_space, const Json& object,
                      const WriteOptions& options) override;
  Result<Json> replace(const Resource& resource, const std::string& name_space, const std::string& name,
                       const Json& object, const std::string& subresource, const WriteOptions& options) override;
  Result<Json> patch(const Resource& resource, const std::string& name_space, const std::string& name, PatchType type,
                     const Json& patch, const std::string& subresource, const WriteOptions& options) override;
  Status remove(const Resource& resource, const std::string& name_space, const std::string& name,
                const DeleteOptions& options) override;
  Status read_log(const std::string& name_space, const std::string& pod, const LogOptions& options,
                  const std::function<bool(std::string_view)>& on_data, std::stop_token stop) override;

 private:
  Result<Json> call(const Resource& resource, std::string method, std::string target, const Json* body = nullptr,
                    std::string content_type = "application/json", bool bulk = false);
  // The text of a successful answer.
  Result<std::string> call_text(const Resource& resource, std::string method, std::string target,
                                const Json* body = nullptr, std::string content_type = "application/json",
                                bool bulk = false, const char* accept = nullptr);
  // What became of an event of a watch.
  struct Judged {
    bool go_on = true;
    bool undecodable = false;
    std::optional<Error> ended;  // by an ERROR event
  };
  using OnObject = std::function<Judged(WatchEventType type, std::string_view object)>;
  // An ERROR ends the watch; `on_object` judges the JSON of the object of any other type.
  static Judged judge_event(std::string_view type, std::string_view object, const Resource& resource,
                            const OnObject& on_object);
  static Judged judge_line(std::string_view line, const Resource& resource, const OnObject& on_object);
  // An event in protobuf, whose objects `message` describes.
  static Judged judge_frame(std::string_view frame, const Resource& resource, const WireMessage& message,
                            const JsonPaths& fields, const OnObject& on_object);
  Status watch_objects(const Resource& resource, const WatchOptions& options, const OnObject& on_object,
                       std::stop_token stop);
  // Of a text that is a list in JSON.
  Result<ListEnd> read_list(const std::string& text, const Resource& resource,
                            const std::function<void(std::string_view)>& on_item) const;
  Error no_list(const Resource& resource) const;
  Result<Response> exchange(Request request, const std::function<Result<Response>(const Request&)>& send);
  void count(const std::string& method, const Result<Response>& response);

  const std::unique_ptr<Transport> transport_;
  const std::shared_ptr<Identity> identity_;
  const std::string host_;
  Clock& clock_;
  MetricsRegistry& metrics_;
  const HttpApiOptions options_;
};

// An Api for a cluster; `clock` and `metrics` outlive it.
Result<std::unique_ptr<Api>> make_http_api(const ClusterAccess& access, const Environment& environment, Clock& clock,
                                           MetricsRegistry& metrics, HttpApiOptions options = {});

}  // namespace lockstep::kube
