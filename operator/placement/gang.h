// What the placer is told of a gang, and what it answers. Plain data: a reconciler fills in the first and carries out
// the second.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "operator/base/clock.h"
#include "operator/placement/fit_tables.h"

namespace lockstep::placement {

// How far the pod of a slot has come.
enum class SeatState {
  kWanted,   // there is no pod, or it shows no node: it may be placed anywhere
  kGated,    // a pod that kube-scheduler does not look at yet; `node` is its annotation
  kPinned,   // its gate is removed; it can go to `node` alone and is not bound
  kBound,    // bound to `node`
  kRefused,  // the kubelet of `node` refused it
};

// One slot of a gang.
struct Seat {
  int slot = 0;
  std::string pod;   // "namespace/name" that its pod has, or will get; an incarnation has its own
  std::string node;  // empty: kWanted
  SeatState state = SeatState::kWanted;
  std::string uid{};           // of the pod; empty: kWanted
  std::string version{};       // resourceVersion of the pod; empty: kWanted
  bool unschedulable = false;  // kube-scheduler says so of a pinned pod; SchedulingGated is something else

  // The version is no part of it: every status write of a pod has another one. Nor is the uid: a search asks for none.
  bool operator==(const Seat& other) const {
    return std::tie(slot, pod, node, state, unschedulable) ==
           std::tie(other.slot, other.pod, other.node, other.state, other.unschedulable);
  }
};

// The pod of a slot that is about to be bound: its gate is removed, or it is created without one.
struct Opening {
  int slot = 0;
  std::string pod;    // as Seat::pod
  std::string uid{};  // of the pod; "": it is created
  std::string node;

  bool operator==(const Opening&) const = default;
};

// The pod of a slot is to leave its node as soon as another node is reserved for the next pod of the slot.
struct Successor {
  int slot = 0;
  std::string pod;   // the next one: as Seat::pod
  std::string from;  // the node that is left

  bool operator==(const Successor&) const = default;
};

// Levels count from 0, the outermost of the profile.
struct Constraint {
  std::optional<int> required{};   // one domain of this level holds the whole gang
  std::optional<int> preferred{};  // and of this one, if it can be had within `preferred_left`
  Duration preferred_left{};       // from the first update on
  bool exclusive = false;          // no two pods of the gang on one node
  bool spread = false;             // over as many nodes as there are (spread.h); `preferred` is not looked at

  bool operator==(const Constraint&) const = default;
};

// A gang as its job and its pods show it.
struct Gang {
  std::string key;   // the job's uid
  std::string name;  // "namespace/name", for sentences
  int priority = 0;
  WallTime since{};   // creation or last resume: who is older goes first
  ShapeId shape = 0;  // of the cluster
  int pods = 0;       // slots below it train
  int whole = 0;      // fewest of them that may start; `pods` unless the job is elastic
  int spares = 0;     // slots from `pods` on
  Constraint constraint{};
  Duration timeout = std::chrono::minutes(2);  // gangTimeoutSeconds
  bool running = false;                        // it has trained: its pods hold state
  // All its pods may be deleted without a loss: it has not trained, or its state lies in a checkpoint.
  bool may_release = true;
  Duration held_for{};               // how long it has had pods without a gate, by the pods' own times
  std::vector<std::string> avoid{};  // nodes that get pods of it only where fewer than it needs fit without them
  std::vector<Seat> seats{};         // one for each slot, by slot
  // Its pods that are being deleted, on the nodes where they take room until they are gone. A watch of all pods that
  // begins late may not have shown them. kBound.
  std::vector<Seat> ending{};
  std::vector<Successor> successors{};

  bool operator==(const Gang&) const = default;
};

enum class Why {
  kNothing,    // it does not wait
  kUnknown,    // the nodes are listed again, for a label that its pods select by
  kPaused,     // after a refusal or a release
  kReleasing,  // until its pods are gone
  kReplacing,  // until a refused pod is gone
  kNoRoom,     // enough nodes exist, and too few of them are free
  kPreferred,  // it would fit at `required`; it waits for its preferred level
  kTooLarge,   // no domain of the level has enough nodes, even if they were empty
};

// Why a gang, or a part of it, has no nodes.
struct Wait {
  Why why = Why::kNothing;
  int pods = 0;              // that it needs next
  std::optional<int> level;  // within one domain of it; empty: anywhere
  int hole = 0;              // the most that any one domain of that level has room for
  std::string held;          // the domain that is kept free for it
  std::string behind;        // the gang for which a domain is kept free, when that is another one
  int avoided = 0;           // nodes that it does not go to, because they refused its pods; `hole` counts their room
  std::string obstacles{};   // obstacles_of() the nodes. The placer leaves it empty: who asks fills it in

  bool operator==(const Wait&) const = default;
};

// Where the slots of a gang that train are, for people.
struct Where {
  int level_spanned = 0;             // of the innermost domain with all their nodes; the number of levels: one node
  std::vector<std::string> domains;  // of the innermost level, as paths "block/rack", in order; the first kMostNamed
  double score = 0;                  // by objective.h, when these nodes were first seen: lower is better
  bool approximate = false;          // the search was cut short at its budget; false for places found in pods

  static constexpr std::size_t kMostNamed = 64;

  bool operator==(const Where&) const = default;
};

// What is to happen to a gang. It stays valid until the next step(); carrying it out twice changes nothing.
struct Answer {
  std::map<int, std::string> nodes;  // by slot. A slot that is not in it gets no pod
  bool gated = true;                 // pods that are created get a gate
  bool open = false;                 // the gate of a pod whose annotation is its node here may be removed
  std::vector<std::string> replace;  // pods to delete; their slots are placed again
  bool release = false;              // all pods are to be deleted; the gang goes back into the queue
  Wait wait;                         // kNothing: as many pods have a node as train
  // By slot: the node that is reserved for one of Gang::successors, until the seat of the slot has that pod.
  std::map<int, std::string> reserved{};
  bool apart = false;          // its pods lie outside one domain of the required level: nodes were relabelled
  std::optional<Where> where;  // empty: not all slots below Gang::pods have a node

  bool operator==(const Answer&) const = default;
};

}  // namespace lockstep::placement
