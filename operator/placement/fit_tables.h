// What nodes have for pods of the shapes that were asked for last. A change of a node costs one note in a journal; a
// table reads on in the journal when it is asked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "operator/placement/room.h"
#include "operator/placement/tree.h"

namespace lockstep::placement {

using ShapeId = std::int32_t;  // what a pod asks of a node, as Cluster numbers it

class FitTables {
 public:
  static constexpr std::size_t kMost = 32;  // tables; the least recently used one makes room

  // What fits on the node may have changed, or the node is new or gone. Amortised O(1), whatever the number of tables.
  void touch(NodeId node) {
    ++touches_;
    const auto at = static_cast<std::size_t>(node);
    if (at >= noted_.size()) noted_.resize(at + 1, 0);
    // Noted behind what every table has read: all of them will come by.
    if (noted_[at] > newest_read_) return;
    if (journal_.size() > 1024 + noted_.size()) {
      start_ += journal_.size();
      journal_.clear();
    }
    journal_.push_back(node);
    noted_[at] = start_ + journal_.size();
  }

  // How often touch() was called.
  std::uint64_t touches() const { return touches_; }

  // The table of the shape, as `room_of(node)` says. Valid until the next call of a member.
  template <typename RoomOf>
  Rooms of(ShapeId shape, std::int32_t node_limit, RoomOf&& room_of) {
    Table& table = table_of(shape);
    const std::uint64_t end = start_ + journal_.size();
    const auto nodes = static_cast<std::size_t>(node_limit);
    const auto read = [&](NodeId node) {
      const Room room = room_of(node);
      const auto at = static_cast<std::size_t>(node);
      table.capacity[at] = room.capacity;
      table.young[at] = room.young;
      table.whole[at] = room.whole;
    };
    const bool afresh = table.read < start_ || table.capacity.empty();
    for (auto* numbers : {&table.capacity, &table.young, &table.whole}) numbers->resize(nodes, 0);
    if (afresh) {
      for (NodeId node = 0; node < node_limit; ++node) read(node);
    } else {
      for (std::uint64_t at = table.read; at < end; ++at) read(journal_[static_cast<std::size_t>(at - start_)]);
    }
    table.read = end;
    newest_read_ = end;
    return {table.capacity, table.young, table.whole};
  }

  void forget(ShapeId shape) {
    std::erase_if(tables_, [&](const Table& table) { return table.shape == shape; });
  }

 private:
  struct Table {
    ShapeId shape;
    std::uint64_t asked = 0;  // when, in calls
    std::uint64_t read = 0;   // up to here of the journal
    std::vector<std::int32_t> capacity, young, whole;
  };

  Table& table_of(ShapeId shape) {
    auto found = std::find_if(tables_.begin(), tables_.end(), [&](const Table& table) { return table.shape == shape; });
    if (found == tables_.end()) {
      if (tables_.size() == kMost) {
        found = std::min_element(tables_.begin(), tables_.end(),
                                 [](const Table& a, const Table& b) { return a.asked < b.asked; });
        tables_.erase(found);
      }
      tables_.push_back({shape, 0, 0, {}, {}, {}});
      found = tables_.end() - 1;
    }
    found->asked = ++calls_;
    return *found;
  }

  std::vector<Table> tables_;
  std::uint64_t calls_ = 0, touches_ = 0;
  std::uint64_t start_ = 0;           // how many notes came before journal_[0]
  std::vector<NodeId> journal_;       // notes of nodes; a node may be in it more than once
  std::uint64_t newest_read_ = 0;     // the furthest that a table has read
  std::vector<std::uint64_t> noted_;  // by node: behind its last note
};

}  // namespace lockstep::placement
