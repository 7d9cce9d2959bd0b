#include "operator/kube/http_api.h"

#include <fmt/format.h>

#include "operator/base/json_cut.h"
#include "operator/base/log.h"
#include "operator/kube/cpprest_transport.h"
#include "operator/kube/frame_splitter.h"
#include "operator/kube/http2_transport.h"
#include "operator/kube/json_text.h"
#include "operator/kube/line_splitter.h"
#include "operator/kube/status_error.h"
#include "operator/kube/target.h"
#include "operator/kube/wire_messages.h"

namespace lockstep::kube {
namespace {

constexpr const char* kJsonType = "application/json";
// Of objects that message_of() describes. A server that does not know them in protobuf sends JSON.
constexpr const char* kWireType = "application/vnd.kubernetes.protobuf,application/json";
// Asks for an answer that costs the server and this process less than the whole object.
constexpr const char* kMetadataType =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

Query write_query(const WriteOptions& options) {
  Query query;
  query.add("fieldManager", options.field_manager);
  if (options.strict) query.add("fieldValidation", "Strict");
  if (options.dry_run) query.add("dryRun", "All");
  return query;
}

const char* content_type_of(PatchType type) {
  switch (type) {
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kJson:
      return "application/json-patch+json";
    case PatchType::kStrategicMerge:
      return "application/strategic-merge-patch+json";
    case PatchType::kApply:
      return "application/apply-patch+yaml";  // JSON is YAML
  }
  return "application/json";
}

Lane lane_of(const Resource& resource, bool bulk) {
  if (resource == kLeases) return Lane::kLease;
  return bulk ? Lane::kBulk : Lane::kCall;
}

std::string list_target(const Resource& resource, const ListOptions& options) {
  Query query;
  query.add("labelSelector", options.label_selector).add("fieldSelector", options.field_selector);
  if (options.limit > 0) query.add("limit", options.limit);
  if (!options.continue_token.empty()) {
    query.add("continue", options.continue_token);  // it carries the version
  } else if (!options.resource_version.empty()) {
    query.add("resourceVersion", options.resource_version).add("resourceVersionMatch", "NotOlderThan");
  }
  return collection_path(resource, options.name_space) + query.text();
}

// Of every event but ERROR; none for a type that is not known.
std::optional<WatchEventType> event_type(std::string_view type) {
  if (type == "ADDED") return WatchEventType::kAdded;
  if (type == "MODIFIED") return WatchEventType::kModified;
  if (type == "DELETED") return WatchEventType::kDeleted;
  if (type == "BOOKMARK") return WatchEventType::kBookmark;
  return std::nullopt;
}

std::string host_of(const std::string& url) {
  const auto scheme = url.find("://");
  const auto start = scheme == url.npos ? 0 : scheme + 3;
  return url.substr(start, url.find('/', start) - start);
}

}  // namespace

HttpApi::HttpApi(std::unique_ptr<Transport> transport, std::shared_ptr<Identity> identity, std::string host,
                 Clock& clock, MetricsRegistry& metrics, HttpApiOptions options)
    : transport_(std::move(transport)),
      identity_(std::move(identity)),
      host_(std::move(host)),
      clock_(clock),
      metrics_(metrics),
      options_(options) {}

void HttpApi::count(const std::string& method, const Result<Response>& response) {
  metrics_
      .counter("rest_client_requests_total", "Requests to the API server by their outcome.",
               {{"code", response ? std::to_string(response->status) : error_code_name(response.error().code)},
                {"method", method},
                {"host", host_}})
      .increment();
}

// Sends with the token, and once more if the server refused it and there is a newer one. A 401 means that the server
// did not act on the request.
Result<Response> HttpApi::exchange(Request request, const std::function<Result<Response>(const Request&)>& send) {
  for (bool first = true;; first = false) {
    LOCKSTEP_TRY(const std::string token, identity_->token());
    request.authorization = token.empty() ? "" : "Bearer " + token;
    auto response = send(request);
    count(request.method, response);
    // The server describes a failure in the form of the answer that was asked for.
    if (response && response->status / 100 != 2 && is_wire(response->body)) {
      response->body = wire_text(response->body, status_message()).value_or("");
    }
    const bool refused = response && response->status == 401;
    if (!refused || !first || !identity_->refused(token)) return response;
  }
}

Result<std::string> HttpApi::call_text(const Resource& resource, std::string method, std::string target,
                                       const Json* body, std::string content_type, bool bulk, const char* accept) {
  Request request;
  request.method = std::move(method);
  request.target = std::move(target);
  request.lane = lane_of(resource, bulk);
  if (accept != nullptr) request.accept = accept;
  request.deadline = request.lane == Lane::kLease ? options_.lease_deadline : options_.call_deadline;
  if (body != nullptr) {
    // Messages may hold the last output of a program, in any encoding.
    request.body = body->dump(-1, ' ', false, Json::error_handler_t::replace);
    request.content_type = std::move(content_type);
  }
  LOCKSTEP_TRY(Response response, exchange(request, [this](const Request& ready) { return transport_->call(ready); }));
  if (response.status / 100 != 2) {
    return error_from_answer(response.status, response.body, response.retry_after_seconds, resource);
  }
  return std::move(response.body);
}

Result<Json> HttpApi::call(const Resource& resource, std::string method, std::string target, const Json* body,
                           std::string content_type, bool bulk) {
  const char* accept = bulk && method == "POST" ? kMetadataType : nullptr;
  LOCKSTEP_TRY(std::string text, call_text(resource, method, target, body, std::move(content_type), bulk, accept));
  if (is_wire(text)) text = wire_text(text, metadata_message()).value_or("");
  Json answer = parse_object(text);
  if (!answer.is_object()) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("{} did not answer {} {} with a JSON object", host_, method, target));
  }
  return answer;
}

Result<Json> HttpApi::get(const Resource& resource, const std::string& name_space, const std::string& name) {
  LOCKSTEP_TRY(const std::string path, object_path(resource, name_space, name));
  return call(resource, "GET", path);
}

Result<ListPage> HttpApi::list(const Resource& resource, const ListOptions& options) {
  LOCKSTEP_TRY(Json answer, call(resource, "GET", list_target(resource, options)));
  ListPage page;
  page.resource_version = text_at(answer, {"metadata", "resourceVersion"});
  page.continue_token = text_at(answer, {"metadata", "continue"});
  auto& members = answer.get_ref<Json::object_t&>();
  const auto items = members.find("items");
  const bool has_items = items != members.end() && !items->second.is_null();
  if (page.resource_version.empty() || (has_items && !items->second.is_array())) {
    return fail(ErrorCode::kUnavailable, fmt::format("{} did not answer with a list of {}", host_, resource.plural));
  }
  if (has_items) page.items = std::move(items->second.get_ref<Json::array_t&>());
  for (Json& item : page.items) {
    // Items of a list come without their kind.
    if (!item.is_object()) continue;
    item.emplace("apiVersion", resource.api_version());
    item.emplace("kind", resource.kind);
  }
  return page;
}

Error HttpApi::no_list(const Resource& resource) const {
  return fail(ErrorCode::kUnavailable, fmt::format("{} did not answer with a list of {}", host_, resource.plural));
}

Result<ListEnd> HttpApi::list_text(const Resource& resource, const ListOptions& options,
                                   const std::function<void(std::string_view)>& on_item) {
  const WireMessage* message = options.fields == nullptr ? nullptr : message_of(resource);
  const char* accept = message == nullptr ? nullptr : kWireType;
  LOCKSTEP_TRY(const std::string text,
               call_text(resource, "GET", list_target(resource, options), nullptr, kJsonType, false, accept));
  if (message == nullptr || !is_wire(text)) return read_list(text, resource, on_item);
  const auto metadata = wire_list(text, *message, options.fields, on_item);
  if (!metadata) return no_list(resource);
  ListEnd end{characters_of(cut_at(*metadata, {"resourceVersion"})), characters_of(cut_at(*metadata, {"continue"}))};
  if (end.resource_version.empty()) return no_list(resource);
  return end;
}

Result<ListEnd> HttpApi::read_list(const std::string& text, const Resource& resource,
                                   const std::function<void(std::string_view)>& on_item) const {
  ListEnd end;
  std::vector<std::string_view> items;
  const bool is_list = each_member(text, [&](std::string_view key, std::string_view value) {
    if (key == "metadata") {
      end.resource_version = characters_of(cut_at(value, {"resourceVersion"}));
      end.continue_token = characters_of(cut_at(value, {"continue"}));
    }
    if (key != "items" || value == "null") return true;
    items.clear();
    const bool is_array = each_element(value, [&](std::string_view item) {
      items.push_back(item);
      return true;
    });
    if (!is_array) end.resource_version.clear();
    return is_array;
  });
  if (!is_list || end.resource_version.empty()) return no_list(resource);
  for (const std::string_view item : items) on_item(item);
  return end;
}

Status HttpApi::watch_objects(const Resource& resource, const WatchOptions& options, const OnObject& on_object,
                              std::stop_token stop) {
  const WireMessage* message = options.fields == nullptr ? nullptr : message_of(resource);
  Request request;
  request.lane = Lane::kWatch;
  request.deadline = options_.call_deadline;
  request.idle_deadline = options_.watch_idle_deadline;
  if (message != nullptr) request.accept = kWireType;
  Query query;
  query.add("watch", "1").add("allowWatchBookmarks", "true").add("timeoutSeconds", options.timeout_seconds);
  query.add("resourceVersion", options.resource_version);
  query.add("labelSelector", options.label_selector).add("fieldSelector", options.field_selector);
  request.target = collection_path(resource, options.name_space) + query.text();

  LineSplitter lines;
  FrameSplitter frames;
  std::optional<bool> framed;  // known with the first byte: no JSON begins with a zero, and every length below 16 MiB
  std::optional<Error> ended;
  long undecodable = 0;
  const auto skip = [&](std::string_view event) {
    if (++undecodable == 1) {
      log::warn("a watch sent what is no event",
                {{"resource", resource.plural}, {"bytes", std::string(event.substr(0, 200))}});
    }
    metrics_
        .counter("lockstep_watch_undecodable_total", "Events of a watch that could not be parsed.",
                 {{"resource", resource.plural}})
        .increment();
  };
  const auto judge = [&](std::string_view event) {
    if (event.empty()) return true;
    Judged judged = *framed ? judge_frame(event, resource, *message, *options.fields, on_object)
                            : judge_line(event, resource, on_object);
    if (judged.undecodable) skip(event);
    if (judged.ended) ended = std::move(judged.ended);
    return judged.go_on && !ended;
  };
  const auto take = [&](std::string_view piece) {
    if (piece.empty()) return true;
    if (!framed) framed = message != nullptr && piece.front() == '\0';
    return *framed ? frames.feed(piece, judge) : lines.feed(piece, judge);
  };
  LOCKSTEP_TRY(const Response response,
               exchange(request, [&](const Request& ready) { return transport_->stream(ready, take, stop); }));
  if (response.status / 100 != 2) {
    return error_from_answer(response.status, response.body, response.retry_after_seconds, resource);
  }
  for (long dropped = lines.dropped() + frames.dropped(); dropped > 0; --dropped) skip("(longer than 8 MiB)");
  if (ended) return *ended;
  return {};
}

HttpApi::Judged HttpApi::judge_event(std::string_view type, std::string_view object, const Resource& resource,
                                     const OnObject& on_object) {
  if (object.empty() || object.front() != '{') return {.undecodable = true};
  if (type == "ERROR") {
    const Json status = parse_object(object);
    if (!status.is_object()) return {.undecodable = true};
    return {.ended = error_from_status(status, 0.0, resource)};
  }
  const auto known = event_type(type);
  if (!known) return {.undecodable = true};
  return on_object(*known, object);
}

HttpApi::Judged HttpApi::judge_line(std::string_view line, const Resource& resource, const OnObject& on_object) {
  std::string_view type, object;
  const bool is_object = each_member(line, [&](std::string_view key, std::string_view value) {
    if (key == "type") type = value;
    if (key == "object") object = value;
    return true;
  });
  if (!is_object) return {.undecodable = true};
  return judge_event(characters_of(type), object, resource, on_object);
}

HttpApi::Judged HttpApi::judge_frame(std::string_view frame, const Resource& resource, const WireMessage& message,
                                     const JsonPaths& fields, const OnObject& on_object) {
  const auto event = wire_event(frame);
  if (!event) return {.undecodable = true};
  const auto text =
      event->type == "ERROR" ? wire_text(event->object, status_message()) : wire_text(event->object, message, &fields);
  return judge_event(event->type, text.value_or(""), resource, on_object);
}

Status HttpApi::watch(const Resource& resource, const WatchOptions& options,
                      const std::function<bool(WatchEvent)>& on_event, std::stop_token stop) {
  const auto on_object = [&](WatchEventType type, std::string_view text) -> Judged {
    Json object = parse_object(text, options.fields);
    if (!object.is_object()) return {.undecodable = true};
    return {.go_on = on_event(WatchEvent{type, std::move(object)})};
  };
  return watch_objects(resource, options, on_object, std::move(stop));
}

Status HttpApi::watch_text(const Resource& resource, const WatchOptions& options,
                           const std::function<bool(WatchEventType, std::string_view)>& on_event,
                           std::stop_token stop) {
  const auto on_object = [&](WatchEventType type, std::string_view text) -> Judged {
    return {.go_on = on_event(type, text)};
  };
  return watch_objects(resource, options, on_object, std::move(stop));
}

Result<Json> HttpApi::create(const Resource& resource, const std::string& name_space, const Json& object,
                             const WriteOptions& options) {
  if (resource.namespaced && name_space.empty()) {
    return fail(ErrorCode::kInvalid, fmt::format("a {} is created in a namespace", resource.kind));
  }
  return call(resource, "POST", collection_path(resource, name_space) + write_query(options).text(), &object, kJsonType,
              options.bulk);
}

Result<Json> HttpApi::replace(const Resource& resource, const std::string& name_space, const std::string& name,
                              const Json& object, const std::string& subresource, const WriteOptions& options) {
  LOCKSTEP_TRY(const std::string path, object_path(resource, name_space, name, subresource));
  return call(resource, "PUT", path + write_query(options).text(), &object, kJsonType, options.bulk);
}

Result<Json> HttpApi::patch(const Resource& resource, const std::string& name_space, const std::string& name,
                            PatchType type, const Json& patch, const std::string& subresource,
                            const WriteOptions& options) {
  LOCKSTEP_TRY(const std::string path, object_path(resource, name_space, name, subresource));
  Query query = write_query(options);
  if (type == PatchType::kApply) query.add("force", "true");
  return call(resource, "PATCH", path + query.text(), &patch, content_type_of(type), options.bulk);
}

Status HttpApi::remove(const Resource& resource, const std::string& name_space, const std::string& name,
                       const DeleteOptions& options) {
  LOCKSTEP_TRY(const std::string path, object_path(resource, name_space, name));
  Json body{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (!options.propagation.empty()) body["propagationPolicy"] = options.propagation;
  if (options.grace_period_seconds) body["gracePeriodSeconds"] = *options.grace_period_seconds;
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) body["preconditions"]["resourceVersion"] = options.resource_version;
  LOCKSTEP_TRY(const Json answer, call(resource, "DELETE", path, &body, kJsonType, options.bulk));
  static_cast<void>(answer);
  return {};
}

Status HttpApi::read_log(const std::string& name_space, const std::string& pod, const LogOptions& options,
                         const std::function<bool(std::string_view)>& on_data, std::stop_token stop) {
  LOCKSTEP_TRY(std::string path, object_path(kPods, name_space, pod, "log"));
  Query query;
  query.add("container", options.container);
  if (options.follow) query.add("follow", "true");
  if (options.timestamps) query.add("timestamps", "true");
  if (options.previous) query.add("previous", "true");
  if (options.tail_lines) query.add("tailLines", *options.tail_lines);
  Request request;
  request.lane = Lane::kWatch;
  request.deadline = options_.call_deadline;
  request.idle_deadline = options.follow ? options_.log_idle_deadline : options_.watch_idle_deadline;
  request.target = path + query.text();
  LOCKSTEP_TRY(const Response response,
               exchange(request, [&](const Request& ready) { return transport_->stream(ready, on_data, stop); }));
  if (response.status / 100 != 2) {
    return error_from_answer(response.status, response.body, response.retry_after_seconds, kPods);
  }
  return {};
}

Result<std::unique_ptr<Api>> make_http_api(const ClusterAccess& access, const Environment& environment, Clock& clock,
                                           MetricsRegistry& metrics, HttpApiOptions options) {
  LOCKSTEP_TRY(auto http1, make_cpprest_transport(access, environment));
  LOCKSTEP_TRY(auto transport, with_http2(std::move(http1), access, environment));
  return std::unique_ptr<Api>(std::make_unique<HttpApi>(std::move(transport), access.identity, host_of(access.server),
                                                        clock, metrics, options));
}

}  // namespace lockstep::kube
