// The one serial placer: the queue of all gangs that want nodes, and who has which. One placer for all jobs, because
// two would give one hole to two gangs. Pure: no I/O, no thread, no clock but the times that it is given.
//
// A reconciler tells what a job and its pods show (update), asks for decisions (step), and carries the answers out.
// What it did shows in its next update(), so nothing is lost when the process dies. A new placer takes the places of a
// gang from the pods that have one. It has to know every gang before it decides, because the queue is not in order
// before (expect()).
//
// Guarantees:
// * All or nothing: a gang that does not train gets nodes for `whole` of its pods, or none. The rest of its pods, and
//   spares, follow where they fit.
// * Order: repairs of running gangs, then priority, then age. Gangs that grow come after gangs that wait. Spares are
//   placed when no gang waits that could be placed. Successors of pods that are to leave come last, each on a node that
//   the gang neither left nor avoids; no pod leaves for them before its successor's node is reserved.
// * The first gang that waits has one domain kept free for it (hold.h). A gang behind it is placed outside that domain.
//   It keeps its turn for PlacerOptions::hold while it pauses or its pods go.
// * A gang that has held nodes for longer than its timeout and is not whole is released, if it may be.
// * After a refusal or a release a gang pauses: 1 s, doubling up to 60 s, from 1 s again when it was whole. A refused
//   spare pauses spares alone.
// * Pods that are bound or cannot go elsewhere stay, even where their nodes were relabelled out of the required level.
//   The rest goes to the innermost level that still has them all.
// * For 5 minutes a gang goes to no node that refused it. Other gangs do: one tenant's pods close a node for no other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/clock.h"
#include "operator/placement/answer.h"
#include "operator/placement/cluster_view.h"
#include "operator/placement/gang.h"
#include "operator/placement/hold.h"
#include "operator/placement/queue_entry.h"

namespace lockstep::placement {

struct PlacerOptions {
  Duration first_pause = std::chrono::seconds(1);
  Duration most_pause = std::chrono::seconds(60);
  Duration avoid = std::chrono::minutes(5);          // a node that refused
  Duration unschedulable = std::chrono::seconds(5);  // kube-scheduler may still find room
  Duration hold = std::chrono::minutes(5);           // then the domain that is kept free is chosen again
};

// Not thread-safe. A step costs O(pods of gangs that were updated or are due + gangs that wait) beside its searches.
// After a node came, went or was relabelled, it also looks at every gang.
class Placer {
 public:
  // `cluster` outlives this, and changes only between two calls.
  explicit Placer(ClusterView& cluster, PlacerOptions options = {});

  // Nothing is decided, and step() returns nothing, until each of these gangs was updated or withdrawn once. Called
  // before the first update().
  void expect(std::set<std::string> keys);
  // Those that are still waited for.
  const std::set<std::string>& expected() const { return expected_; }
  // The gang as it is now; an unknown key joins the queue.
  void update(const Gang& gang, MonotonicTime now);
  // The gang wants nothing more. Its reservations end.
  void withdraw(const std::string& key);
  // Room may have grown anywhere, or a node may have lost what was reserved on it.
  void capacity_changed();

  // Decides for all gangs. Returns the keys whose answer has changed, in order.
  std::vector<std::string> step(MonotonicTime now);
  // What the last step() decided; null for an unknown key, and before its first step.
  const Answer* answer(const std::string& key) const;
  // Where the gang may go, beside the places that it has, as the last step() saw it; for the words of its answer. The
  // gang is known.
  Search search_of(const std::string& key) const;
  // Asked right before the write, because the plan that opens a pod may be older than the answer. True: the gang still
  // opens this pod on this node, which has room for it (Cluster::open()). The pod counts as pinned until the next
  // update() of its gang, and Cluster::opened() is called when the write has ended. False: no write. If the node has no
  // room, the next step() chooses another one and returns the key; until then no pod of the gang is opened. Costs a
  // look at the gang and at the pods of the node.
  bool open(const std::string& key, const Opening& opening);
  // When time alone may change an answer; empty: it does not. Valid after step().
  std::optional<MonotonicTime> next_step() const { return next_; }

  // How often a gang was looked at: what steps cost, beside the searches.
  std::uint64_t reviews() const { return reviews_; }

  // The key of the gang for which a domain is kept free, "" when there is none.
  std::string holder() const { return hold_ ? hold_->key : ""; }

 private:
  // placer.cpp
  void adopt(Entry& entry, const Seat& seat);
  void reserve(Entry& entry, const Seat& seat, Place& place);
  // The pod's own state may be newer than the watch of all pods, and its gate removed by another leader.
  void count_as_open(const Entry& entry, const Seat& seat);
  void drop(Entry& entry, int slot);
  // What is reserved for a successor becomes the place of its slot when the seat has its pod. It ends when neither the
  // seat nor Gang::successors has it.
  void hand_over(Entry& entry);
  void drop_successor(Entry& entry, int slot);
  Answer build_answer(Entry& entry);
  std::optional<Where> where_of(Entry& entry);
  // Its answer may be another one.
  void touch(const Entry& entry) { touched_.insert(entry.gang.key); }
  void say(Entry& entry, Wait wait);
  // Its want may be another one.
  void queue(Entry& entry);
  // Time alone may change something then.
  void wake_at(Entry& entry, MonotonicTime time, MonotonicTime now);
  void forget_wake(Entry& entry);

  // placer_review.cpp: what pods and time say about the places that a gang has.
  void review(Entry& entry, MonotonicTime now);
  void note_refusals(Entry& entry, MonotonicTime now);
  void judge_level(Entry& entry);
  void drop_untenable(Entry& entry);
  bool is_split(const Entry& entry) const;
  void judge_age(Entry& entry, MonotonicTime now);
  void release(Entry& entry, MonotonicTime now);
  void pause(Entry& entry, Pause& pause, MonotonicTime now);

  // placer_search.cpp: who gets which nodes.
  // One pass over the queue. True: some got nodes, so they may want more.
  bool serve(MonotonicTime now);
  // Why the gang cannot be placed whatever room there is; kNothing: it can.
  Why block_of(Entry& entry, MonotonicTime now);
  // Gives nodes to as many pods as the gang wants. False: there is no room.
  bool try_to_place(Entry& entry, bool outside_held, MonotonicTime now);
  // Reserves a node for each of Gang::successors that has none yet.
  void reserve_successors(Entry& entry);
  // For so many pods of the gang, still without survivors and closed nodes.
  static Search search_by_constraint(const Entry& entry, int pods);
  // Where there is room for that many pods, were it not for others.
  Need need_of(const Entry& entry, int pods) const;
  std::vector<NodeId> closed_for(const Entry& entry) const;
  // As many as fit; without nodes of `avoid` where that is enough.
  std::optional<Assignment> find_nodes(const Search& search, const Want& want, const std::vector<std::string>& avoid);
  std::optional<Assignment> most_that_fit(Search search, const Want& want);
  void assign(Entry& entry, const Want& want, const Assignment& assignment, MonotonicTime now);
  // There is no room for the rest of a gang of which some have nodes: those that are not held yet are given up, too.
  // False: there are none.
  bool give_up_rest(Entry& entry, MonotonicTime now);
  bool holds_domain(const Entry& entry, MonotonicTime now) const;
  void hold(Entry& entry, const HeldDomain& domain, MonotonicTime now);
  // The gang is the first that waits. False: no domain is large enough for it.
  bool keep_free_for(Entry& entry, MonotonicTime now);
  // The same for one that cannot be placed yet, whatever room there is.
  bool keep_turn_of(Entry& entry, MonotonicTime now);
  void end_hold();
  std::vector<std::pair<NodeId, int>> survivors_of(const Entry& entry) const;

  ClusterView& cluster_;
  const PlacerOptions options_;
  std::map<std::string, Entry> entries_;                    // by key
  std::set<std::string> expected_;                          // keys
  std::set<Turn> queue_;                                    // of the entries that want something
  std::set<std::pair<MonotonicTime, std::string>> timers_;  // Entry::due, with the key
  std::set<std::string> dirty_;                             // keys to review in the next step
  std::set<std::string> touched_;                           // keys whose answer may be another one
  std::set<std::string> moving_;                            // keys of the gangs that have successors
  std::set<std::string> unsettled_;                         // keys to review whenever the cluster changes
  std::uint64_t room_ = 1;                                  // grows when there may be room that was not there
  std::uint64_t tree_version_ = 0;                          // of the root, at the last step
  bool cluster_changed_ = false;                            // since the last step
  std::optional<Hold> hold_;
  std::optional<MonotonicTime> next_;
  std::uint64_t reviews_ = 0;
};

}  // namespace lockstep::placement
