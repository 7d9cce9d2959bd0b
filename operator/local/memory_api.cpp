#include "operator/local/memory_api.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <set>

#include "operator/base/number.h"
#include "operator/base/timestamp.h"
#include "operator/local/selectors.h"

namespace lockstep::local {
namespace {

using Json = nlohmann::json;
using Stored = std::shared_ptr<const Json>;
using NameKey = std::pair<std::string, std::string>;  // namespace, name
using kube::Resource;
using kube::WatchEventType;

struct Change {
  std::uint64_t version;
  std::string resource;
  Stored before;  // null: it was created
  Stored after;   // null: it was deleted; then `last` is what watchers see
  Stored last;
};

std::string path_of(const Resource& resource) {
  return resource.group + "/" + resource.plural;
}

bool has_status(const Resource& resource) {
  return resource == kube::kTrainingJobs || resource == kube::kPods || resource == kube::kNodes ||
         resource == kube::kServices;
}

bool needs_version_on_replace(const Resource& resource) {
  return resource == kube::kTrainingJobs || resource == kube::kLeases;
}

std::string qualified(const Resource& resource) {
  return resource.group.empty() ? resource.plural : resource.plural + "." + resource.group;
}

Error not_found(const Resource& resource, const std::string& name) {
  return fail(ErrorCode::kNotFound, qualified(resource) + " \"" + name + "\" not found");
}

std::string random_text(size_t length, std::string_view alphabet) {
  static thread_local std::random_device device;
  std::uniform_int_distribution<size_t> pick(0, alphabet.size() - 1);
  std::string text(length, ' ');
  for (char& c : text) c = alphabet[pick(device)];
  return text;
}

std::string new_uid() {
  constexpr std::string_view hex = "0123456789abcdef";
  return random_text(8, hex) + "-" + random_text(4, hex) + "-4" + random_text(3, hex) + "-" + random_text(1, "89ab") +
         random_text(3, hex) + "-" + random_text(12, hex);
}

// A DNS-1123 subdomain, which every resource that Lockstep uses demands.
bool is_name(const std::string& name) {
  if (name.empty() || name.size() > 253) return false;
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  for (size_t i = 0; i < name.size(); ++i) {
    const bool edge = i == 0 || i + 1 == name.size() || name[i - 1] == '.' || name[i + 1] == '.';
    if (!plain(name[i]) && (edge || (name[i] != '-' && name[i] != '.'))) return false;
  }
  return true;
}

std::string text_of(const Json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const Json& meta_of(const Json& object) {
  return object.at("metadata");
}

bool has_finalizers(const Json& object) {
  const auto found = meta_of(object).find("finalizers");
  return found != meta_of(object).end() && found->is_array() && !found->empty();
}

// A pod that a runtime has taken and not finished: only that runtime knows when its processes have ended.
bool lives_on_a_node(const Resource& resource, const Json& object) {
  if (resource != kube::kPods) return false;
  const std::string phase = text_of(object.value("status", Json::object()), "phase");
  return !text_of(object.value("spec", Json::object()), "nodeName").empty() && phase != "Succeeded" &&
         phase != "Failed";
}

// The object without the fields that only the server writes and those that do not start a new generation.
bool same_specification(const Json& a, const Json& b) {
  const auto rest = [](Json object) {
    object.erase("metadata");
    object.erase("status");
    return object;
  };
  return rest(a) == rest(b);
}

// Checks the envelope of an object to write and fills in the server's fields.
Result<Json> with_envelope(const Resource& resource, const std::string& name_space, const Json& object) {
  if (!object.is_object()) return fail(ErrorCode::kInvalid, "the body of the request must be a JSON object");
  Json next = object;
  for (const auto& [field, want] : {std::pair{"apiVersion", resource.api_version()}, {"kind", resource.kind}}) {
    if (!next.contains(field)) next[field] = want;
    if (next[field] != want) {
      return fail(ErrorCode::kInvalid,
                  std::string(field) + " in the data (" + next[field].dump() + ") does not match the expected " + want);
    }
  }
  if (!next.contains("metadata") || next["metadata"].is_null()) next["metadata"] = Json::object();
  Json& meta = next["metadata"];
  if (!meta.is_object()) return fail(ErrorCode::kInvalid, "metadata must be an object");
  for (const char* field : {"name", "namespace", "generateName", "uid", "resourceVersion"}) {
    if (meta.contains(field) && !meta[field].is_string()) {
      return fail(ErrorCode::kInvalid, std::string("metadata.") + field + " must be a string");
    }
  }
  for (const char* field : {"labels", "annotations"}) {
    if (meta.contains(field) && meta[field].is_null()) meta.erase(field);
    if (!meta.contains(field)) continue;
    if (!meta[field].is_object()) {
      return fail(ErrorCode::kInvalid, std::string("metadata.") + field + " must be an object");
    }
    for (const auto& [key, value] : meta[field].items()) {
      if (!value.is_string()) {
        return fail(ErrorCode::kInvalid, std::string("metadata.") + field + "[" + key + "] must be a string");
      }
    }
  }
  if (!resource.namespaced) return next;
  if (name_space.empty()) return fail(ErrorCode::kInvalid, "a namespace is required to write " + qualified(resource));
  if (text_of(meta, "namespace").empty()) meta["namespace"] = name_space;
  if (meta["namespace"] != name_space) {
    return fail(ErrorCode::kInvalid,
                "the namespace of the provided object does not match the namespace sent on the "
                "request");
  }
  return next;
}

Result<Json> patched(const Json& current, kube::PatchType type, const Json& patch) {
  switch (type) {
    case kube::PatchType::kMerge: {
      if (!patch.is_object()) return fail(ErrorCode::kInvalid, "a merge patch must be a JSON object");
      Json next = current;
      next.merge_patch(patch);
      return next;
    }
    case kube::PatchType::kJson:
      try {
        return current.patch(patch);
      } catch (const Json::exception& e) {
        return fail(ErrorCode::kInvalid, std::string("the JSON patch cannot be applied: ") + e.what());
      }
    case kube::PatchType::kStrategicMerge:
    case kube::PatchType::kApply:
      break;
  }
  return fail(ErrorCode::kInvalid, "the in-memory API takes merge patches and JSON patches only");
}

}  // namespace

struct MemoryApi::State {
  State(Clock& time, MemoryApiOptions given) : clock(time), options(given) {}

  Clock& clock;
  const MemoryApiOptions options;
  mutable std::mutex mutex;
  std::condition_variable changed;

  // All below protected by mutex.
  std::uint64_t version = 1;
  std::map<std::string, std::map<NameKey, Stored>> objects;  // by resource
  std::deque<Change> history;                                // versions are consecutive
  std::uint64_t forgotten = 1;                               // a watch can start at this version or later
  struct UnfinishedList {
    std::string version;
    std::vector<Stored> items;
  };
  std::map<std::uint64_t, UnfinishedList> unfinished_lists;  // by order of their making
  std::uint64_t next_list = 1;
  std::set<std::string> removed_uids;
  std::map<std::string, TokenOwner> tokens;
  LogReader log_reader;

  std::string now() const { return format_timestamp(clock.wall_now()); }

  Stored find(const Resource& resource, const NameKey& key) const {
    const auto kind = objects.find(path_of(resource));
    if (kind == objects.end()) return nullptr;
    const auto found = kind->second.find(key);
    return found == kind->second.end() ? nullptr : found->second;
  }

  // Stores `after` (empty: deletes) under the next version and wakes the watchers. Returns the stored object.
  Stored commit(const std::string& path, const NameKey& key, Stored before, std::optional<Json> after) {
    ++version;
    Json object = after ? std::move(*after) : *before;
    object["metadata"]["resourceVersion"] = std::to_string(version);
    const auto stored = std::make_shared<const Json>(std::move(object));
    if (after) {
      objects[path][key] = stored;
    } else {
      objects[path].erase(key);
    }
    history.push_back({version, path, std::move(before), after ? stored : nullptr, stored});
    if (history.size() > options.history) {
      forgotten = history.front().version;
      history.pop_front();
    }
    changed.notify_all();
    return stored;
  }

  void erase(const Resource& resource, const NameKey& key, const std::string& propagation) {
    const Stored before = find(resource, key);
    commit(path_of(resource), key, before, std::nullopt);
    const std::string uid = text_of(meta_of(*before), "uid");
    removed_uids.insert(uid);
    collect_dependents(uid, propagation == "Orphan");
  }

  // Does the garbage collector's work after the owner of that uid was deleted.
  void collect_dependents(const std::string& uid, bool orphan) {
    std::vector<std::pair<std::string, NameKey>> dependents;
    for (const auto& [path, kind] : objects) {
      for (const auto& [key, object] : kind) {
        for (const Json& owner : meta_of(*object).value("ownerReferences", Json::array())) {
          if (text_of(owner, "uid") == uid) dependents.push_back({path, key});
        }
      }
    }
    for (const auto& [path, key] : dependents) {
      const auto found = objects[path].find(key);
      if (found == objects[path].end()) continue;  // deleted with another dependent
      Json object = *found->second;
      Json& owners = object["metadata"]["ownerReferences"];
      owners.erase(
          std::remove_if(owners.begin(), owners.end(), [&](const Json& owner) { return text_of(owner, "uid") == uid; }),
          owners.end());
      if (orphan || !owners.empty()) {
        if (owners.empty()) object["metadata"].erase("ownerReferences");
        commit(path, key, found->second, std::move(object));
      } else {
        const Resource* resource = path == path_of(kube::kPods) ? &kube::kPods : nullptr;
        const Resource other{path.substr(0, path.find('/')), "", path.substr(path.find('/') + 1), ""};
        begin_removal(resource != nullptr ? *resource : other, key, {});
      }
    }
  }

  void begin_removal(const Resource& resource, const NameKey& key, const kube::DeleteOptions& how) {
    const Stored before = find(resource, key);
    Json object = *before;
    Json& meta = object["metadata"];
    int grace = 0;
    if (lives_on_a_node(resource, object)) {
      grace = std::max(0, how.grace_period_seconds.value_or(object["spec"].value("terminationGracePeriodSeconds", 30)));
    }
    if (grace == 0 && !has_finalizers(object)) return erase(resource, key, how.propagation);
    if (meta.contains("deletionTimestamp") && meta.value("deletionGracePeriodSeconds", 0) <= grace) return;
    meta["deletionTimestamp"] = format_timestamp(clock.wall_now() + std::chrono::seconds(grace));
    meta["deletionGracePeriodSeconds"] = grace;
    commit(path_of(resource), key, before, std::move(object));
  }

  // The only function that changes a stored object: preconditions, subresource rules, generation, finalizers.
  Result<Json> update(const Resource& resource, const NameKey& key, const Stored& before, const Json& wanted,
                      const std::string& subresource, bool dry_run) {
    const Json& old_meta = meta_of(*before);
    const Json& meta = meta_of(wanted);
    if (text_of(meta, "name") != key.second) {
      return fail(ErrorCode::kInvalid, "the name of the object (" + text_of(meta, "name") +
                                           ") does not match the name on the URL (" + key.second + ")");
    }
    if (const std::string uid = text_of(meta, "uid"); !uid.empty() && uid != old_meta["uid"]) {
      return fail(ErrorCode::kConflict, "Precondition failed: UID in precondition: " + uid +
                                            ", UID in object meta: " + old_meta["uid"].get<std::string>());
    }
    if (const std::string given = text_of(meta, "resourceVersion");
        !given.empty() && given != old_meta["resourceVersion"]) {
      return fail(ErrorCode::kConflict, "Operation cannot be fulfilled on " + qualified(resource) + " \"" + key.second +
                                            "\": the object has been modified; please apply your "
                                            "changes to the latest version and try again");
    }
    Json next = subresource == "status" ? *before : wanted;
    if (subresource == "status") {
      next.erase("status");
      if (wanted.contains("status")) next["status"] = wanted["status"];
    } else {
      for (const char* field : {"uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp",
                                "deletionGracePeriodSeconds"}) {
        next["metadata"].erase(field);
        if (old_meta.contains(field)) next["metadata"][field] = old_meta[field];
      }
      if (has_status(resource)) {
        next.erase("status");
        if (before->contains("status")) next["status"] = (*before)["status"];
      }
      if (resource == kube::kTrainingJobs && !same_specification(*before, next)) {
        next["metadata"]["generation"] = old_meta.value("generation", 1) + 1;
      }
    }
    if (dry_run || next == *before) return next;
    const bool last_finalizer = next["metadata"].contains("deletionTimestamp") && !has_finalizers(next) &&
                                has_finalizers(*before) && !lives_on_a_node(resource, next);
    const Stored stored = commit(path_of(resource), key, before, std::move(next));
    if (last_finalizer) erase(resource, key, "Background");
    return *stored;
  }

  Json answer_token_review(const Json& review) const {
    Json answer = review;
    const Json spec = review.value("spec", Json::object());
    const auto token = tokens.find(text_of(spec, "token"));
    const Json audiences = spec.value("audiences", Json::array());
    const bool for_us =
        audiences.empty() || std::find(audiences.begin(), audiences.end(), Json("lockstep")) != audiences.end();
    Stored pod;
    if (token != tokens.end()) pod = find(kube::kPods, {token->second.name_space, token->second.pod_name});
    if (!for_us || pod == nullptr || meta_of(*pod)["uid"] != token->second.pod_uid) {
      answer["status"] = {{"authenticated", false}, {"error", "the token is not valid for this audience"}};
      return answer;
    }
    const TokenOwner& owner = token->second;
    answer["status"] = {{"authenticated", true},
                        {"audiences", {"lockstep"}},
                        {"user",
                         {{"username", "system:serviceaccount:" + owner.name_space + ":default"},
                          {"groups", {"system:serviceaccounts", "system:authenticated"}},
                          {"extra",
                           {{"authentication.kubernetes.io/pod-name", {owner.pod_name}},
                            {"authentication.kubernetes.io/pod-uid", {owner.pod_uid}}}}}}};
    return answer;
  }
};

MemoryApi::MemoryApi(Clock& clock, MemoryApiOptions options) : state_(std::make_unique<State>(clock, options)) {}
MemoryApi::~MemoryApi() = default;

Result<Json> MemoryApi::get(const Resource& resource, const std::string& name_space, const std::string& name) {
  const std::lock_guard guard(state_->mutex);
  const Stored found = state_->find(resource, {name_space, name});
  if (found == nullptr) return not_found(resource, name);
  return *found;
}

Result<kube::ListPage> MemoryApi::list(const Resource& resource, const kube::ListOptions& options) {
  LOCKSTEP_TRY(const Selector selector, Selector::parse(options.label_selector, options.field_selector));
  const std::lock_guard guard(state_->mutex);
  State::UnfinishedList rest;
  if (!options.continue_token.empty()) {
    const auto number_of = parse_number<std::uint64_t>(options.continue_token);
    const auto found = number_of ? state_->unfinished_lists.find(*number_of) : state_->unfinished_lists.end();
    if (found == state_->unfinished_lists.end()) {
      return fail(ErrorCode::kGone, "the provided continue parameter is too old: list again from the start");
    }
    rest = found->second;  // kept, so that the same page can be asked for again
  } else {
    rest.version = std::to_string(state_->version);
    for (const auto& [key, object] : state_->objects[path_of(resource)]) {
      if (!options.name_space.empty() && key.first != options.name_space) continue;
      if (selector.matches(*object)) rest.items.push_back(object);
    }
  }
  kube::ListPage page;
  page.resource_version = rest.version;
  const size_t count =
      options.limit <= 0 ? rest.items.size() : std::min(rest.items.size(), static_cast<size_t>(options.limit));
  for (size_t i = 0; i < count; ++i) page.items.push_back(*rest.items[i]);
  if (count < rest.items.size()) {
    rest.items.erase(rest.items.begin(), rest.items.begin() + static_cast<std::ptrdiff_t>(count));
    page.continue_token = std::to_string(state_->next_list);
    state_->unfinished_lists.emplace(state_->next_list++, std::move(rest));
    if (state_->unfinished_lists.size() > state_->options.most_unfinished_lists) {
      state_->unfinished_lists.erase(state_->unfinished_lists.begin());
    }
  }
  return page;
}

Status MemoryApi::watch(const Resource& resource, const kube::WatchOptions& options,
                        const std::function<bool(kube::WatchEvent)>& on_event, std::stop_token stop) {
  LOCKSTEP_TRY(const Selector selector, Selector::parse(options.label_selector, options.field_selector));
  const std::string path = path_of(resource);
  const auto wanted = [&](const Stored& object) {
    return object != nullptr &&
           (options.name_space.empty() || text_of(meta_of(*object), "namespace") == options.name_space) &&
           selector.matches(*object);
  };
  const std::stop_callback on_stop(stop, [this] {
    const std::lock_guard guard(state_->mutex);
    state_->changed.notify_all();
  });
  std::unique_lock lock(state_->mutex);
  std::deque<kube::WatchEvent> ready;
  std::uint64_t seen = state_->version;
  if (options.resource_version.empty() || options.resource_version == "0") {
    for (const auto& [key, object] : state_->objects[path]) {
      if (wanted(object)) ready.push_back({WatchEventType::kAdded, *object});
    }
  } else {
    const auto start = parse_number<std::uint64_t>(options.resource_version);
    if (!start) return fail(ErrorCode::kInvalid, "invalid resource version \"" + options.resource_version + "\"");
    if (*start > state_->version) {
      return fail(ErrorCode::kGone, "too large resource version: " + options.resource_version +
                                        ", current: " + std::to_string(state_->version));
    }
    seen = *start;
  }
  const MonotonicTime end = state_->clock.now() + std::chrono::seconds(std::max(1, options.timeout_seconds));
  MonotonicTime next_bookmark = state_->clock.now() + state_->options.bookmark_every;
  const auto bookmark = [&] {
    return kube::WatchEvent{WatchEventType::kBookmark,
                            {{"apiVersion", resource.api_version()},
                             {"kind", resource.kind},
                             {"metadata", {{"resourceVersion", std::to_string(seen)}}}}};
  };
  while (true) {
    if (stop.stop_requested())
      return fail(ErrorCode::kCancelled, "the watch of " + qualified(resource) + " was stopped");
    if (seen < state_->forgotten) {
      return fail(ErrorCode::kGone,
                  "too old resource version: " + std::to_string(seen) + " (" + std::to_string(state_->forgotten) + ")");
    }
    constexpr size_t kBatch = 256;
    for (; seen < state_->version && ready.size() < kBatch; ++seen) {
      const Change& change = state_->history[seen + 1 - state_->history.front().version];
      if (change.resource != path) continue;
      const bool before = wanted(change.before);
      const bool after = wanted(change.after);
      if (after) ready.push_back({before ? WatchEventType::kModified : WatchEventType::kAdded, *change.after});
      if (before && !after) ready.push_back({WatchEventType::kDeleted, *change.last});
    }
    const MonotonicTime now = state_->clock.now();
    const bool ended = now >= end;
    if (ready.empty() && (ended || now >= next_bookmark)) ready.push_back(bookmark());
    if (!ready.empty()) {
      next_bookmark = now + state_->options.bookmark_every;
      lock.unlock();
      for (; !ready.empty(); ready.pop_front()) {
        if (stop.stop_requested()) break;
        if (!on_event(std::move(ready.front()))) return {};
      }
      lock.lock();
      if (ended) return {};
      continue;
    }
    state_->clock.wait_until(lock, state_->changed, std::min(end, next_bookmark));
  }
}

Result<Json> MemoryApi::create(const Resource& resource, const std::string& name_space, const Json& object,
                               const kube::WriteOptions& options) {
  LOCKSTEP_TRY(Json next, with_envelope(resource, name_space, object));
  const std::lock_guard guard(state_->mutex);
  if (resource == kube::kTokenReviews) return state_->answer_token_review(next);
  Json& meta = next["metadata"];
  if (!text_of(meta, "resourceVersion").empty()) {
    return fail(ErrorCode::kInvalid, "resourceVersion should not be set on objects to be created");
  }
  if (text_of(meta, "name").empty() && !text_of(meta, "generateName").empty()) {
    meta["name"] = text_of(meta, "generateName") + random_text(5, "bcdfghjklmnpqrstvwxz2456789");
  }
  const std::string name = text_of(meta, "name");
  if (!is_name(name)) {
    return fail(ErrorCode::kInvalid, resource.kind + " \"" + name +
                                         "\" is invalid: metadata.name: a lowercase RFC 1123 "
                                         "subdomain must consist of lower case alphanumeric characters, '-' or '.'");
  }
  const NameKey key{resource.namespaced ? name_space : "", name};
  if (state_->find(resource, key) != nullptr) {
    return fail(ErrorCode::kAlreadyExists, qualified(resource) + " \"" + name + "\" already exists");
  }
  meta["uid"] = new_uid();
  meta["creationTimestamp"] = state_->now();
  for (const char* field : {"deletionTimestamp", "deletionGracePeriodSeconds", "generation"}) meta.erase(field);
  if (resource == kube::kTrainingJobs) meta["generation"] = 1;
  if (has_status(resource)) next.erase("status");
  if (resource == kube::kPods) next["status"] = {{"phase", "Pending"}};
  if (options.dry_run) return next;
  const Stored stored = state_->commit(path_of(resource), key, nullptr, std::move(next));
  auto& events = state_->objects[path_of(kube::kEvents)];
  if (resource == kube::kEvents && events.size() > state_->options.most_events) {
    const auto version = [](const auto& event) {
      return parse_number<std::uint64_t>(text_of(meta_of(*event.second), "resourceVersion")).value();
    };
    const auto oldest = std::min_element(events.begin(), events.end(),
                                         [&](const auto& a, const auto& b) { return version(a) < version(b); });
    state_->erase(resource, NameKey(oldest->first), "Orphan");
  }
  // Created for an owner that was deleted meanwhile: the garbage collector takes it at once.
  const Json owners = meta_of(*stored).value("ownerReferences", Json::array());
  const bool orphaned = !owners.empty() && std::all_of(owners.begin(), owners.end(), [&](const Json& owner) {
    return state_->removed_uids.count(text_of(owner, "uid")) > 0;
  });
  if (orphaned) state_->begin_removal(resource, key, {});
  return *stored;
}

Result<Json> MemoryApi::replace(const Resource& resource, const std::string& name_space, const std::string& name,
                                const Json& object, const std::string& subresource, const kube::WriteOptions& options) {
  LOCKSTEP_TRY(const Json next, with_envelope(resource, name_space, object));
  const std::lock_guard guard(state_->mutex);
  const NameKey key{resource.namespaced ? name_space : "", name};
  const Stored before = state_->find(resource, key);
  if (before == nullptr) return not_found(resource, name);
  if (!subresource.empty() && !(subresource == "status" && has_status(resource))) {
    return not_found(resource, name + "/" + subresource);
  }
  if (needs_version_on_replace(resource) && text_of(meta_of(next), "resourceVersion").empty()) {
    return fail(ErrorCode::kInvalid, resource.kind + " \"" + name +
                                         "\" is invalid: metadata.resourceVersion: Invalid "
                                         "value: 0x0: must be specified for an update");
  }
  return state_->update(resource, key, before, next, subresource, options.dry_run);
}

Result<Json> MemoryApi::patch(const Resource& resource, const std::string& name_space, const std::string& name,
                              kube::PatchType type, const Json& patch, const std::string& subresource,
                              const kube::WriteOptions& options) {
  const std::lock_guard guard(state_->mutex);
  const NameKey key{resource.namespaced ? name_space : "", name};
  const Stored before = state_->find(resource, key);
  if (before == nullptr) return not_found(resource, name);
  if (!subresource.empty() && !(subresource == "status" && has_status(resource))) {
    return not_found(resource, name + "/" + subresource);
  }
  LOCKSTEP_TRY(const Json result, patched(*before, type, patch));
  LOCKSTEP_TRY(const Json next, with_envelope(resource, name_space, result));
  return state_->update(resource, key, before, next, subresource, options.dry_run);
}

Status MemoryApi::remove(const Resource& resource, const std::string& name_space, const std::string& name,
                         const kube::DeleteOptions& options) {
  const std::lock_guard guard(state_->mutex);
  const NameKey key{resource.namespaced ? name_space : "", name};
  const Stored before = state_->find(resource, key);
  if (before == nullptr) return not_found(resource, name);
  const Json& meta = meta_of(*before);
  for (const auto& [field, given, label] :
       {std::tuple{"uid", options.uid, "UID"}, {"resourceVersion", options.resource_version, "ResourceVersion"}}) {
    if (given.empty() || given == meta[field]) continue;
    return fail(ErrorCode::kConflict, std::string("Precondition failed: ") + label + " in precondition: " + given +
                                          ", " + label + " in object meta: " + meta[field].get<std::string>());
  }
  state_->begin_removal(resource, key, options);
  return {};
}

Status MemoryApi::read_log(const std::string& name_space, const std::string& pod, const kube::LogOptions& options,
                           const std::function<bool(std::string_view)>& on_data, std::stop_token stop) {
  LogReader reader;
  {
    const std::lock_guard guard(state_->mutex);
    if (state_->find(kube::kPods, {name_space, pod}) == nullptr) return not_found(kube::kPods, pod);
    reader = state_->log_reader;
  }
  if (!reader) return fail(ErrorCode::kUnavailable, "no runtime keeps logs of pod \"" + pod + "\"");
  return reader(name_space, pod, options, on_data, std::move(stop));
}

std::string MemoryApi::issue_token(const TokenOwner& owner) {
  const std::string token = random_text(48, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
  const std::lock_guard guard(state_->mutex);
  state_->tokens[token] = owner;
  return token;
}

void MemoryApi::set_log_reader(LogReader reader) {
  const std::lock_guard guard(state_->mutex);
  state_->log_reader = std::move(reader);
}

std::uint64_t MemoryApi::version() const {
  const std::lock_guard guard(state_->mutex);
  return state_->version;
}

}  // namespace lockstep::local
