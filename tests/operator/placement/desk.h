// A placer with a small cluster and a reconciler that does what it is told, for tests of one rule each.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>

#include "operator/placement/placer.h"
#include "tests/operator/placement/small_cluster.h"

namespace lockstep::placement {

inline constexpr int kBlockLevel = 0, kRackLevel = 1;

// A placer over one block of two racks of four nodes with 8 GPUs, unless a test wants another cluster. A pod takes 8.
struct Desk {
  SmallCluster cluster;
  Placer placer{cluster.view()};
  MonotonicTime now{std::chrono::hours(1)};
  std::map<std::string, Gang> gangs;

  explicit Desk(int blocks = 1, int racks = 2, int nodes = 4) { cluster.fill(blocks, racks, nodes, 8); }

  Gang& gang(const std::string& key, int pods, int age_seconds = 0) {
    Gang& gang = gangs[key];
    gang.key = gang.name = key;
    gang.shape = cluster.shape(8);
    gang.pods = gang.whole = pods;
    gang.since = WallTime(std::chrono::seconds(1000 - age_seconds));
    for (int slot = 0; slot < pods; ++slot)
      gang.seats.push_back({.slot = slot, .pod = fmt::format("x/{}-{}-1", key, slot), .node = {}});
    return gang;
  }
  void add_spares(Gang& gang, int spares) {
    gang.spares = spares;
    for (int slot = gang.pods; slot < gang.pods + spares; ++slot) {
      gang.seats.push_back({.slot = slot, .pod = fmt::format("x/{}-{}-1", gang.key, slot), .node = {}});
    }
  }

  void step(Duration later = {}) {
    now += later;
    for (const auto& [key, gang] : gangs) placer.update(gang, now);
    placer.step(now);
  }
  const Answer& answer(const std::string& key) { return *placer.answer(key); }
  Why why(const std::string& key) { return answer(key).wait.why; }
  std::set<std::string> racks(const std::string& key) {
    std::set<std::string> racks;
    for (const auto& [slot, node] : answer(key).nodes) racks.insert(node.substr(0, 4));
    return racks;
  }

  // What a reconciler does with the answer: creates and annotates pods.
  void make_pods(const std::string& key) {
    Gang& gang = gangs.at(key);
    for (Seat& seat : gang.seats) {
      const auto node = answer(key).nodes.find(seat.slot);
      if (node == answer(key).nodes.end() || (seat.state != SeatState::kWanted && seat.state != SeatState::kGated)) {
        continue;
      }
      seat.state = answer(key).gated || seat.state == SeatState::kGated ? SeatState::kGated : SeatState::kPinned;
      seat.node = node->second;
      seat.version = cluster.write(seat.pod, seat.node, cluster.gpus(gang.shape));
    }
    cluster.deliver();
    step();
  }
  // And removes gates; what kube-scheduler does then.
  void bind(const std::string& key, std::set<int> except = {}) {
    Gang& gang = gangs.at(key);
    ASSERT_TRUE(answer(key).open);
    for (Seat& seat : gang.seats) {
      if (seat.state == SeatState::kWanted) continue;
      seat.state = except.contains(seat.slot) ? SeatState::kPinned : SeatState::kBound;
    }
    step();
  }
  void run(const std::string& key) {
    make_pods(key);
    bind(key);
    gangs.at(key).running = true;
    step();
  }
  // The pod of a slot is gone; the slot wants the next one.
  void lose(const std::string& key, int slot) {
    Seat& seat = gangs.at(key).seats[static_cast<size_t>(slot)];
    cluster.erase(seat.pod);
    cluster.deliver();
    seat = {.slot = slot, .pod = seat.pod + "'", .node = {}};
    placer.capacity_changed();
  }
  void lose_all(const std::string& key) {
    for (size_t slot = 0; slot < gangs.at(key).seats.size(); ++slot) lose(key, static_cast<int>(slot));
  }
  void end(const std::string& key) {
    for (const Seat& seat : gangs.at(key).seats) cluster.erase(seat.pod);
    cluster.deliver();
    gangs.erase(key);
    placer.withdraw(key);
    placer.capacity_changed();
  }
};

}  // namespace lockstep::placement
