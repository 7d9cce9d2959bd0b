#include "tests/bench/operator_size/scripted_api_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <stop_token>
#include <string_view>
#include <utility>

#include "operator/kube/json_text.h"
#include "tests/bench/operator_size/cluster_texts.h"

namespace lockstep::bench {
namespace {

using kube::Json;
using kube::text_at;

constexpr int kMostInAStorm = 20'000;
constexpr const char* kOwn = "own:";  // continue tokens of lists that have come to the pods of jobs

int number_of(const std::string& text, int otherwise) {
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

std::pair<int, const char*> code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
      return {404, "NotFound"};
    case ErrorCode::kAlreadyExists:
      return {409, "AlreadyExists"};
    case ErrorCode::kConflict:
      return {409, "Conflict"};
    case ErrorCode::kGone:
      return {410, "Expired"};
    case ErrorCode::kInvalid:
      return {422, "Invalid"};
    default:
      return {500, "InternalError"};
  }
}

Json status_of(const Error& error, const std::string& name) {
  const auto [code, reason] = code_of(error.code);
  return {{"apiVersion", "v1"}, {"kind", "Status"}, {"status", "Failure"},        {"message", error.message},
          {"reason", reason},   {"code", code},     {"details", {{"name", name}}}};
}

kube::PatchType patch_type(const std::string& content_type) {
  if (content_type.starts_with("application/merge-patch")) return kube::PatchType::kMerge;
  if (content_type.starts_with("application/json-patch")) return kube::PatchType::kJson;
  return kube::PatchType::kStrategicMerge;
}

kube::DeleteOptions delete_options(const std::string& body) {
  const Json given = Json::parse(body, nullptr, false);
  kube::DeleteOptions options;
  options.uid = text_at(given, {"preconditions", "uid"});
  options.resource_version = text_at(given, {"preconditions", "resourceVersion"});
  if (kube::value_at(given, {"gracePeriodSeconds"}) != nullptr) {
    options.grace_period_seconds = static_cast<int>(kube::integer_at(given, {"gracePeriodSeconds"}));
  }
  if (const std::string how = text_at(given, {"propagationPolicy"}); !how.empty()) options.propagation = how;
  return options;
}

}  // namespace

// A watch under way, on the thread of its connection. Events of nodes and pods of others come from another one.
struct ScriptedApiServer::Stream {
  Peer& peer;
  const kube::Resource resource;
  const bool selects;  // by labels, which no pod of others has
  std::stop_source ending;
  std::mutex mutex;     // protects what follows, and the peer
  std::string version;  // of the last event
  bool gone = false;    // ends with 410

  // False if the client has left.
  bool tell(std::string_view type, std::string_view object) {
    return peer.chunk(fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, object));
  }
};

ScriptedApiServer::ScriptedApiServer(local::MemoryApi& objects)
    : objects_(objects), authority_("size"), tls_(authority_.server_context("DNS:localhost,IP:127.0.0.1")) {
  server_ = std::make_unique<kube::testing::ScriptedServer>([this](Peer& peer) { serve(peer); }, tls_.get());
}

ScriptedApiServer::~ScriptedApiServer() {
  forget_history();
  server_.reset();
}

int ScriptedApiServer::nodes() const {
  const std::lock_guard guard(mutex_);
  return nodes_;
}

int ScriptedApiServer::pods_of_others() const {
  const std::lock_guard guard(mutex_);
  return static_cast<int>(lives_.size());
}

void ScriptedApiServer::resize(int nodes, int pods) {
  {
    const std::lock_guard guard(mutex_);
    nodes_ = nodes;
    lives_.resize(static_cast<std::size_t>(pods));
  }
  forget_history();
}

// A reader may have listed before and watch only after this. The version that grows here tells its list from a new one.
void ScriptedApiServer::forget_history() {
  const std::lock_guard guard(mutex_);
  const Json mark{{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", "history"}}}};
  static_cast<void>(objects_.remove(kube::kConfigMaps, "default", "history", {}));
  static_cast<void>(objects_.create(kube::kConfigMaps, "default", mark));
  oldest_ = objects_.version();
  for (Stream* stream : streams_) {
    {
      const std::lock_guard one(stream->mutex);
      stream->gone = true;
    }
    stream->ending.request_stop();
  }
}

// Of one life after the other on another node.
std::string ScriptedApiServer::pod_of_others(int pod, const std::string& version) const {
  PodOfOthers form{.number = pod};
  {
    const std::lock_guard guard(mutex_);
    form.life = lives_[static_cast<std::size_t>(pod)];
    form.node = (pod + 7 * form.life) % std::max(1, nodes_);
  }
  return pod_text(form, version);
}

void ScriptedApiServer::tell_all(const kube::Resource& resource, const char* type,
                                 const std::function<std::string(const std::string&)>& text) {
  const std::lock_guard guard(mutex_);
  for (Stream* stream : streams_) {
    if (stream->resource != resource || stream->selects) continue;
    const std::lock_guard one(stream->mutex);
    static_cast<void>(stream->tell(type, text(stream->version)));
  }
}

void ScriptedApiServer::storm() {
  const int nodes = std::min(this->nodes(), kMostInAStorm), pods = std::min(pods_of_others(), kMostInAStorm);
  const int all_nodes = this->nodes();
  ++beats_;
  for (int node = 0; node < nodes; ++node) {
    tell_all(kube::kNodes, "MODIFIED", [&](const auto& version) { return node_text(node, beats_, version); });
  }
  for (int pod = 0; pod < pods; ++pod) {
    PodOfOthers form{.number = pod};
    {
      const std::lock_guard guard(mutex_);
      form.life = lives_[static_cast<std::size_t>(pod)]++;
    }
    form.node = (pod + 7 * form.life) % std::max(1, all_nodes);
    tell_all(kube::kPods, "DELETED", [&](const auto& version) { return pod_text(form, version); });
    ++form.life;
    form.node = (pod + 7 * form.life) % std::max(1, all_nodes);
    form.bound = false;
    tell_all(kube::kPods, "ADDED", [&](const auto& version) { return pod_text(form, version); });
    form.bound = true;
    tell_all(kube::kPods, "MODIFIED", [&](const auto& version) { return pod_text(form, version); });
  }
  int last_node = 0, last_pod = 0;
  {
    const std::lock_guard guard(mutex_);
    last_node = nodes_++;
    last_pod = static_cast<int>(lives_.size());
    lives_.push_back(0);
  }
  tell_all(kube::kNodes, "ADDED", [&](const auto& version) { return node_text(last_node, beats_, version); });
  tell_all(kube::kPods, "ADDED",
           [&](const auto& version) { return pod_text({.number = last_pod, .node = last_node}, version); });
}

void ScriptedApiServer::serve(Peer& peer) {
  while (const auto request = peer.read_request()) {
    const auto target = parse_target(request->target);
    if (!target) {
      if (!peer.answer(404, "404 page not found")) return;
    } else if (request->method == "GET" && !target->asked("watch").empty()) {
      return watch(peer, *target);
    } else if (!answer(peer, *request, *target)) {
      return;
    }
  }
}

bool ScriptedApiServer::answer(Peer& peer, const kube::testing::SeenRequest& request, const RequestTarget& target) {
  const auto& [resource, name_space, name, subresource, query] = target;
  if (request.method == "GET" && name.empty()) return list(peer, target);
  const auto write = [&]() -> Result<Json> {
    if (request.method == "GET") return objects_.get(resource, name_space, name);
    if (request.method == "DELETE") {
      LOCKSTEP_CHECK_OK(objects_.remove(resource, name_space, name, delete_options(request.body)));
      return Json{{"apiVersion", "v1"}, {"kind", "Status"}, {"status", "Success"}};
    }
    Json body = Json::parse(request.body, nullptr, false);
    if (request.method == "PUT") return objects_.replace(resource, name_space, name, body, subresource);
    if (request.method == "PATCH") {
      return objects_.patch(resource, name_space, name, patch_type(request.header("Content-Type")), body, subresource);
    }
    if (resource == kube::kPods && body.is_object()) body["metadata"]["managedFields"] = managed_fields(body);
    return objects_.create(resource, name_space, body);
  };
  Result<Json> written = write();
  if (!written) {
    return peer.answer(code_of(written.error().code).first, status_of(written.error(), name).dump());
  }
  if (request.header("Accept").find("as=PartialObjectMetadata") != std::string::npos) {
    written =
        Json{{"apiVersion", "meta.k8s.io/v1"}, {"kind", "PartialObjectMetadata"}, {"metadata", (*written)["metadata"]}};
  }
  return peer.answer(request.method == "POST" ? 201 : 200, written->dump());
}

// Of the pods of all namespaces, those of others come first.
bool ScriptedApiServer::list(Peer& peer, const RequestTarget& target) {
  kube::ListOptions options;
  options.name_space = target.name_space;
  options.label_selector = target.asked("labelSelector");
  options.field_selector = target.asked("fieldSelector");
  options.limit = number_of(target.asked("limit"), 0);
  options.continue_token = target.asked("continue");
  const bool nodes = target.resource == kube::kNodes;
  const bool others = target.resource == kube::kPods && options.label_selector.empty() && options.name_space.empty();
  std::string version = std::to_string(objects_.version()), next, items;
  const auto add = [&](const std::string& text) {
    if (!items.empty()) items += ',';
    items += text;
  };
  const bool at_own = options.continue_token.starts_with(kOwn);
  if (nodes || (others && !at_own)) {
    const int all = nodes ? this->nodes() : pods_of_others(), from = number_of(options.continue_token, 0);
    const int to = options.limit > 0 ? std::min(all, from + options.limit) : all;
    for (int i = from; i < to; ++i) add(nodes ? node_text(i, beats_, version) : pod_of_others(i, version));
    if (to < all) {
      next = std::to_string(to);
    } else if (others) {
      next = kOwn;
    }
  } else {
    if (at_own) options.continue_token.erase(0, std::string_view(kOwn).size());
    const auto page = objects_.list(target.resource, options);
    if (!page) return peer.answer(code_of(page.error().code).first, status_of(page.error(), "").dump());
    for (const Json& item : page->items) add(item.dump());
    version = page->resource_version;
    if (!page->continue_token.empty()) next = (at_own ? kOwn : "") + page->continue_token;
  }
  return peer.answer(
      200,
      fmt::format(
          R"({{"kind":"{}List","apiVersion":"{}","metadata":{{"resourceVersion":"{}","continue":"{}"}},"items":[{}]}})",
          target.resource.kind, target.resource.api_version(), version, next, items));
}

void ScriptedApiServer::watch(Peer& peer, const RequestTarget& target) {
  kube::WatchOptions options;
  options.name_space = target.name_space;
  options.label_selector = target.asked("labelSelector");
  options.field_selector = target.asked("fieldSelector");
  options.resource_version = target.asked("resourceVersion");
  options.timeout_seconds = number_of(target.asked("timeoutSeconds"), 300);
  const bool selects = !options.label_selector.empty() || !options.name_space.empty();
  Stream stream{.peer = peer, .resource = target.resource, .selects = selects, .version = options.resource_version};
  if (!peer.begin_chunks()) return;
  const auto place = [&] {
    const std::lock_guard guard(mutex_);
    if (std::strtoull(stream.version.c_str(), nullptr, 10) < oldest_) {
      stream.gone = true;
      stream.ending.request_stop();
    }
    return streams_.insert(streams_.end(), &stream);
  }();
  const auto on_event = [&](const kube::WatchEvent& event) {
    static constexpr const char* kTypes[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"};
    const std::lock_guard guard(stream.mutex);
    stream.version = text_at(event.object, {"metadata", "resourceVersion"});
    return stream.tell(kTypes[static_cast<int>(event.type)], event.object.dump());
  };
  const Status ended = objects_.watch(target.resource, options, on_event, stream.ending.get_token());
  {
    const std::lock_guard guard(mutex_);
    streams_.erase(place);
  }
  if (stream.gone || (!ended && ended.error().code == ErrorCode::kGone)) {
    stream.tell("ERROR", status_of(fail(ErrorCode::kGone, "too old resource version"), "").dump());
  }
  static_cast<void>(peer.end_chunks());
}

}  // namespace lockstep::bench
