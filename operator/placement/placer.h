// The one serial placer: the queue of all gangs that want nodes, and who has which. One placer for all jobs, because
// two would give one hole to two gangs. Pure: no I/O, no thread, no clock but the times that it is given.
//
// A reconciler tells what a job and its pods show (update), asks for decisions (step), and carries the answers out.
// What it did shows in its next update(), so nothing is lost when the process dies: a new placer takes the places of a
// gang from the pods that have one. It has to know every gang before it decides, because the queue is not in order
// before (expect()).
//
// Guarantees:
// * All or nothing: a gang that does not train gets nodes for `whole` of its pods, or none. The rest of its pods, and
//   spares, follow where they fit.
// * Order: repairs of running gangs, then priority, then age. Gangs that grow come after gangs that wait. Spares are
//   placed when no gang waits that could be placed.
// * The first gang that waits, and is not paused, has one domain kept free for it (hold.h). A gang behind it is placed
//   outside that domain.
// * A gang that has held nodes for longer than its timeout and is not whole is released, if it may be.
// * After a refusal or a release a gang pauses: 1 s, doubling up to 60 s, from 1 s again when it was whole.
// * For 5 minutes a gang goes to no node that refused it. Other gangs do: one tenant's pods close a node for no other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/placement/answer.h"
#include "operator/placement/cluster_view.h"
#include "operator/placement/gang.h"
#include "operator/placement/hold.h"

namespace lockstep::placement {

struct PlacerOptions {
  Duration first_pause = std::chrono::seconds(1);
  Duration most_pause = std::chrono::seconds(60);
  Duration avoid = std::chrono::minutes(5);          // a node that refused
  Duration unschedulable = std::chrono::seconds(5);  // kube-scheduler may still find room
  Duration hold = std::chrono::minutes(5);           // then the domain that is kept free is chosen again
};

// Not thread-safe.
class Placer {
 public:
  // `cluster` outlives this, and changes only between two calls.
  explicit Placer(ClusterView& cluster, PlacerOptions options = {});

  // Nothing is decided, and step() returns nothing, until each of these gangs was updated or withdrawn once. Called
  // before the first update().
  void expect(std::set<std::string> keys);
  // The gang as it is now; an unknown key joins the queue.
  void update(const Gang& gang, MonotonicTime now);
  // The gang wants nothing any more. Its reservations end.
  void withdraw(const std::string& key);
  // Room may have grown anywhere, or a node may have lost what was reserved on it.
  void capacity_changed();

  // Decides for all gangs. Returns the keys whose answer has changed, in order.
  std::vector<std::string> step(MonotonicTime now);
  // What the last step() decided; null for an unknown key, and before its first step.
  const Answer* answer(const std::string& key) const;
  // When time alone may change an answer; empty: it does not. Valid after step().
  std::optional<MonotonicTime> next_step() const { return next_; }

  // The key of the gang for which a domain is kept free, "" when there is none; and the domain.
  const std::string& holder() const { return holder_; }
  const std::optional<HeldDomain>& held() const { return held_; }

 private:
  // A slot's node, and the pod for which it is reserved.
  struct Place {
    std::string pod;
    std::string node;
  };
  struct Entry {
    Gang gang;
    std::map<int, Place> places;                         // by slot
    std::set<std::string> leaving;                       // pods that are to be deleted: their node refused them
    std::map<std::string, MonotonicTime> unschedulable;  // pods, since when
    std::map<std::string, MonotonicTime> avoided;        // nodes, until when
    MonotonicTime preferred_until{};                     // of the constraint
    MonotonicTime paused_until{};
    Duration pause{};                             // the last; zero: none since it was whole
    std::optional<MonotonicTime> held_since;      // pods without a gate, while it is not whole
    std::optional<MonotonicTime> reserved_since;  // places without any such pod
    bool releasing = false;                       // until its pods are gone
    int reached = 0;                              // the most pods that were bound at once while it ran
    std::uint64_t tried = 0;                      // room_ of the last try that found no room; 0: try
    std::optional<HeldDomain> candidate;          // to be kept free for it; of the last try
    bool strict = false;                          // the last try was for the preferred level alone
    Wait wait, last_wait;                         // now; of the last try
    bool approximate = false;                     // a search for its places was
    Whereabouts whereabouts;
    std::optional<Answer> answer;
  };
  // The parts of the queue, in order.
  enum class Line { kRepair, kStart, kGrowth, kSpare, kContent };
  // How many pods a gang wants next.
  struct Want {
    Line line = Line::kContent;
    int least = 0, most = 0;
  };

  void review(Entry& entry, MonotonicTime now);
  void note_refusals(Entry& entry, MonotonicTime now);
  void drop_untenable(Entry& entry);
  // The places break the constraint.
  bool is_split(const Entry& entry) const;
  void judge_age(Entry& entry, MonotonicTime now);
  void release(Entry& entry, MonotonicTime now);
  void pause(Entry& entry, MonotonicTime now);
  void drop(Entry& entry, int slot);

  Want want_of(const Entry& entry) const;
  // One pass over the queue. True: some got nodes, so they may want more.
  bool serve(MonotonicTime now);
  // Gives nodes to as many pods as `want` says. False: there is no room.
  bool try_to_place(Entry& entry, const Want& want, bool outside_held, MonotonicTime now);
  // As many as fit; without nodes of `avoid` where that is enough.
  std::optional<Assignment> find_nodes(const Search& search, const Want& want, const std::vector<std::string>& avoid);
  std::optional<Assignment> most_that_fit(Search search, const Want& want);
  void close(const std::string& node, Search& search) const;
  void assign(Entry& entry, const Want& want, const Assignment& assignment, MonotonicTime now);
  // There is no room for the rest of a gang of which some have nodes: those that are not held yet are given up, too.
  // False: there are none.
  bool give_up_rest(Entry& entry, MonotonicTime now);
  // The gang is the first that waits. False: no domain is large enough for it.
  bool keep_free_for(Entry& entry, MonotonicTime now);
  void end_hold();
  std::vector<std::pair<NodeId, int>> survivors_of(const Entry& entry) const;
  Answer build_answer(Entry& entry);
  std::optional<Where> where_of(Entry& entry);
  // Time alone may change something then.
  void wake_at(MonotonicTime time, MonotonicTime now);

  ClusterView& cluster_;
  const PlacerOptions options_;
  std::map<std::string, Entry> entries_;  // by key
  std::set<std::string> expected_;        // keys
  std::uint64_t room_ = 1;                // grows when there may be room that was not there
  std::string holder_;                    // key; the two below are its
  std::optional<HeldDomain> held_;
  MonotonicTime held_until_{};
  std::optional<MonotonicTime> next_;
};

}  // namespace lockstep::placement
