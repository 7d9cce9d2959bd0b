// What nodes have for pods of one shape.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::placement {

// Of one node. Not negative, and capacity + young ≤ whole.
struct Room {
  std::int32_t capacity = 0;  // pods that still fit
  std::int32_t young = 0;     // how many more would without the pods that began lately
  std::int32_t whole = 0;     // how many fit where no pod is

  bool operator==(const Room&) const = default;
};

// Of all nodes, by NodeId. No `young`: 0. No `whole`: as many as the largest node holds.
struct Rooms {
  std::span<const std::int32_t> capacity, young, whole;
};

}  // namespace lockstep::placement
