// Values by slot in one array. A lookup costs the same in a gang of 10 and of 4,096, and a walk touches memory in
// order. Slots may have gaps, because slots leave and spares lie above the gang.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace lockstep::rendezvous {

template <typename T>
class SlotMap {
 public:
  using Entry = std::pair<int, T>;  // slot and value
  using iterator = typename std::vector<Entry>::iterator;
  using const_iterator = typename std::vector<Entry>::const_iterator;

  // In order of slots.
  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  void reserve(std::size_t count) { entries_.reserve(count); }

  const_iterator find(int slot) const { return entries_.begin() + at_or_end(slot); }
  iterator find(int slot) { return entries_.begin() + at_or_end(slot); }
  bool contains(int slot) const { return find(slot) != end(); }
  // Of a slot that is there.
  const T& at(int slot) const { return find(slot)->second; }
  T& at(int slot) { return find(slot)->second; }

  // Puts `value` in place of what the slot had. Slots that come in order are appended.
  T& put(int slot, T value) {
    auto at = entries_.end();
    if (!entries_.empty() && entries_.back().first >= slot) at = first_not_below(slot);
    if (at != entries_.end() && at->first == slot) {
      at->second = std::move(value);
      return at->second;
    }
    return entries_.emplace(at, slot, std::move(value))->second;
  }

 private:
  iterator first_not_below(int slot) {
    return std::lower_bound(entries_.begin(), entries_.end(), slot,
                            [](const Entry& entry, int wanted) { return entry.first < wanted; });
  }
  // Without gaps a slot is its own index.
  std::ptrdiff_t at_or_end(int slot) const {
    const auto guess = static_cast<std::size_t>(slot);
    if (slot >= 0 && guess < entries_.size() && entries_[guess].first == slot) return slot;
    const auto at = std::lower_bound(entries_.begin(), entries_.end(), slot,
                                     [](const Entry& entry, int wanted) { return entry.first < wanted; });
    return at != entries_.end() && at->first == slot ? at - entries_.begin()
                                                     : static_cast<std::ptrdiff_t>(entries_.size());
  }

  std::vector<Entry> entries_;
};

}  // namespace lockstep::rendezvous
