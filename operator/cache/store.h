// The known objects of one kind: immutable snapshots by key, by uid and by an index of the owner's choice. An Informer
// fills it, any thread reads it. A snapshot stays whole for as long as a reader holds it, however the store changes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "operator/api/object.h"

namespace lockstep::cache {

// T is a plain struct with `api::ObjectMeta meta`. Thread-safe: any number of readers, one writer.
template <typename T>
class Store {
 public:
  using Pointer = std::shared_ptr<const T>;
  // The values under which by_index() finds an object: the uid of its job, say. Empty values are left out.
  using IndexBy = std::function<std::vector<std::string>(const T&)>;
  struct Change {
    Pointer before;  // null: the object is new
    Pointer after;   // null: the object was deleted
  };

  explicit Store(IndexBy index_by = {}) : index_by_(std::move(index_by)) {}

  // Null if it does not exist.
  Pointer get(const api::ObjectKey& key) const {
    const std::shared_lock lock(mutex_);
    const auto it = objects_.find(key);
    return it == objects_.end() ? nullptr : it->second;
  }
  Pointer get_by_uid(const std::string& uid) const {
    const std::shared_lock lock(mutex_);
    const auto it = keys_by_uid_.find(uid);
    if (it == keys_by_uid_.end()) return nullptr;
    const auto object = objects_.find(it->second);
    return object == objects_.end() ? nullptr : object->second;
  }
  // In the order of their keys.
  std::vector<Pointer> by_index(const std::string& value) const {
    const std::shared_lock lock(mutex_);
    std::vector<Pointer> found;
    const auto it = index_.find(value);
    if (it == index_.end()) return found;
    for (const auto& [key, object] : it->second) found.push_back(object);
    return found;
  }
  std::vector<Pointer> list() const {
    const std::shared_lock lock(mutex_);
    std::vector<Pointer> all;
    all.reserve(objects_.size());
    for (const auto& [key, object] : objects_) all.push_back(object);
    return all;
  }
  std::size_t size() const {
    const std::shared_lock lock(mutex_);
    return objects_.size();
  }
  // The store has seen everything up to this resourceVersion; "" before the first list. Bookmarks advance it.
  std::string observed() const {
    const std::shared_lock lock(mutex_);
    return observed_;
  }

  // Writer: one object is new or changed.
  Change put(T object, const std::string& resource_version) {
    const std::unique_lock lock(mutex_);
    observed_ = resource_version;
    const api::ObjectKey key = object.meta.key();
    auto after = std::make_shared<const T>(std::move(object));
    Pointer before = erase(key);
    insert(key, after);
    return {std::move(before), std::move(after)};
  }
  // Writer: one object was deleted.
  Change remove(const api::ObjectKey& key, const std::string& resource_version) {
    const std::unique_lock lock(mutex_);
    observed_ = resource_version;
    return {erase(key), nullptr};
  }
  // Writer: there was no change up to `resource_version`.
  void observe(const std::string& resource_version) {
    const std::unique_lock lock(mutex_);
    observed_ = resource_version;
  }
  // Writer: a list replaces everything at once; readers see the old or the new whole. Keys in `keep`, which the list
  // holds but could not be parsed, stay as they are. Returns the changes, with the deletions that no event announced.
  std::vector<Change> replace(std::vector<T> objects, const std::vector<api::ObjectKey>& keep,
                              const std::string& resource_version) {
    std::map<api::ObjectKey, Pointer> next;
    for (T& object : objects) {
      api::ObjectKey key = object.meta.key();
      next.insert_or_assign(std::move(key), std::make_shared<const T>(std::move(object)));
    }
    const std::unique_lock lock(mutex_);
    for (const api::ObjectKey& key : keep) {
      if (const auto old = objects_.find(key); old != objects_.end()) next.emplace(key, old->second);
    }
    std::vector<Change> changes;
    for (const auto& [key, before] : objects_) {
      const auto after = next.find(key);
      if (after == next.end()) {
        changes.push_back({before, nullptr});
      } else if (after->second->meta.resource_version != before->meta.resource_version ||
                 after->second->meta.uid != before->meta.uid) {
        changes.push_back({before, after->second});
      }
    }
    for (const auto& [key, after] : next) {
      if (objects_.find(key) == objects_.end()) changes.push_back({nullptr, after});
    }
    objects_.clear();
    keys_by_uid_.clear();
    index_.clear();
    for (const auto& [key, object] : next) insert(key, object);
    observed_ = resource_version;
    return changes;
  }

 private:
  void insert(const api::ObjectKey& key, const Pointer& object) {
    objects_[key] = object;
    keys_by_uid_[object->meta.uid] = key;
    if (!index_by_) return;
    for (const std::string& value : index_by_(*object)) {
      if (!value.empty()) index_[value][key] = object;
    }
  }
  Pointer erase(const api::ObjectKey& key) {
    const auto it = objects_.find(key);
    if (it == objects_.end()) return nullptr;
    Pointer object = it->second;
    objects_.erase(it);
    const auto uid = keys_by_uid_.find(object->meta.uid);
    if (uid != keys_by_uid_.end() && uid->second == key) keys_by_uid_.erase(uid);
    if (index_by_) {
      for (const std::string& value : index_by_(*object)) {
        const auto bucket = index_.find(value);
        if (bucket == index_.end()) continue;
        bucket->second.erase(key);
        if (bucket->second.empty()) index_.erase(bucket);
      }
    }
    return object;
  }

  const IndexBy index_by_;
  mutable std::shared_mutex mutex_;  // protects what follows
  std::map<api::ObjectKey, Pointer> objects_;
  std::unordered_map<std::string, api::ObjectKey> keys_by_uid_;
  std::unordered_map<std::string, std::map<api::ObjectKey, Pointer>> index_;
  std::string observed_;
};

}  // namespace lockstep::cache
