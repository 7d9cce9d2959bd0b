// A cluster over time: gangs arrive, wait, train and end; nodes fail and are repaired. Discrete events; the result
// depends on the trial and the policy alone.
//
// One queue for all policies: in order of arrival, each gang that fits starts. Replacements of failed nodes come first.
// A node that fails takes its pod with it; the gang stands still until it has a replacement. No pod moves otherwise.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/bench/placement/gangs.h"
#include "tests/bench/placement/policy.h"
#include "tests/bench/placement/rings.h"

namespace lockstep::bench {

struct Trial {
  Site site;
  std::vector<Gang> gangs;  // by arrival
  double warm_up = 0.1;     // the share of the first gangs that is not counted
  double failures = 0;      // failed nodes per gang; needs pods of whole nodes
  double repair_seconds = 4 * 3600;
  std::uint64_t seed = 1;  // of failures and slots
};

struct Mean {
  double sum = 0;
  std::int64_t count = 0;

  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

struct Outcome {
  // Of gangs, when they start.
  Mean racks_over_least;   // racks used ÷ the fewest that could hold the gang; larger than a rack
  Mean fewest_over_least;  // the same for the fewest racks that had room for the gang when it started
  Mean blocks_over_least;  // blocks instead of racks
  Mean no_choice;          // 1 or 0: it takes every free node; larger than a rack
  Mean in_one_rack;        // 1 or 0; of 2 nodes or more that would fit into a rack
  Mean in_one_block;       // 1 or 0; larger than a rack, and would fit into a block
  Mean wait;               // seconds
  Mean broken;             // share of free GPUs in racks that are not wholly free
  double used = 0;         // share of all GPUs in use, over time

  // Of replacements in gangs that were inside one block.
  Mean stayed;      // 1 or 0: it is inside that block
  Mean could_stay;  // 1 or 0: the block had room

  // Of rings, whenever a gang starts or gets a replacement.
  Crossings ranks, by_name, by_slot, least;
  std::int64_t rings = 0;
  std::int64_t above_least = 0;  // rings whose order of ranks crosses more often than the least
};

Outcome simulate(const Trial& trial, Policy& policy);

}  // namespace lockstep::bench
