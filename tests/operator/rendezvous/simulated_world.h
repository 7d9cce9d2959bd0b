// A world in virtual time for the state machines. It has pods with agents and processes, a store of records,
// coordinators that come, linger and go, and links that delay and break. A user scales, and a controller does what
// decide() does. It checks the invariants of the protocol at each step and keeps the first violation as a sentence.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "operator/rendezvous/coordinator_state.h"
#include "operator/rendezvous/member_state.h"
#include "tests/operator/rendezvous/simulated_store.h"
#include "tests/operator/rendezvous/simulated_training.h"

namespace lockstep::rendezvous {

struct WorldOptions {
  bool regroups = true;  // processes keep their memory when others die
  bool elastic = false;  // the gang may run with fewer, and is scaled
  bool spares = false;   // there are more pods than the gang takes
  bool watched = false;  // processes say what they are doing, and the job is watched for hangs
};

class SimulatedWorld {
 public:
  // Everything else depends on `seed` alone.
  SimulatedWorld(unsigned seed, WorldOptions options);

  // Faults for `seconds` of virtual time.
  void disturb(int seconds);

  void run_for(Duration duration);

  // True once `condition` holds, trying for `seconds`.
  bool reaches(int seconds, const std::function<bool()>& condition);

  // The leader's generation has all ranks, the leader hears each of its members, and all their processes live.
  bool all_up() const;
  bool all_left_with_zero() const;
  std::optional<JobView> leader_view() const { return leader_ == nullptr ? std::nullopt : leader_->state->view(); }
  void finish_all_processes();
  // One process of the generation that is up makes no further step, and is stopped or sleeps. False: none is up.
  bool hang();
  // From now on nothing gets from one pod of the generation that is up to the next one, while both speak with the
  // coordinator. False: none is up, or it has one member.
  bool cut_two();
  int members() const;
  // For so long no word of anybody gets to the coordinator, and none of it to anybody; they reach one another.
  void silence(Duration duration);
  // Pods that were recreated because they did not reach another one.
  int evicted() const { return evicted_; }
  bool anybody_hangs() const;
  int aborted() const { return aborted_; }  // processes that were ended because they hung
  void restart_leader();
  const std::string& violation() const { return violation_; }
  int generations() const { return store_.generations(); }
  int starts() const { return starts_; }
  // Of processes that had no generation yet.
  int warm_starts() const { return warm_starts_; }
  // Starts of some processes of a pod beside others that went on.
  int partly_kept() const { return partly_kept_; }
  // Pods that have left because the user wanted fewer.
  int released() const { return released_; }
  // Generations that ran with fewer than all slots.
  int smaller() const { return static_cast<int>(smaller_.size()); }
  std::string describe() const;

  const SimulatedTraining& training() const { return training_; }

 private:
  using Process = SimulatedProcess;
  struct Coordinator {
    std::unique_ptr<CoordinatorState> state;
    bool alive = true;
    MonotonicTime paused_until{};
    std::int64_t handled = 0;
    JobPlan plan;
    std::int64_t noticed = 0;  // generation whose failure the controller has been told of
  };
  struct Link {
    SessionId id = 0;
    std::shared_ptr<Coordinator> coordinator;
    bool open = true;
    MonotonicTime to_coordinator{}, to_agent{};  // when the newest message arrives: a link keeps its order
  };
  struct Pod {
    int slot = 0;
    std::int64_t incarnation = 0;
    std::string uid;
    bool alive = true;
    std::unique_ptr<MemberState> state;
    std::shared_ptr<Link> link;
    std::vector<std::shared_ptr<Process>> processes;
    std::int64_t last_started = 0;
    std::optional<int> left;
    bool ticking = false;
    MonotonicTime cut_off_until{};
  };
  using PodPtr = std::shared_ptr<Pod>;
  struct Event {
    MonotonicTime at;
    std::uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };

  static Duration ms(int count) { return std::chrono::milliseconds(count); }
  int between(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  bool chance(int percent) { return between(1, 100) <= percent; }
  void after(Duration delay, std::function<void()> act) { events_.push({now_ + delay, ++order_, std::move(act)}); }
  Now clock(const std::shared_ptr<Coordinator>& coordinator) const {
    return {now_, WallTime(now_.time_since_epoch()), coordinator == leader_};
  }
  void violate(const std::string& what);

  // ---- pods ----

  void create_pod(int slot);

  bool wanted(int slot) const { return static_cast<std::size_t>(slot) < pods_.size(); }

  // Those that leave as well.
  std::vector<PodPtr> everybody() const;

  // As many slots as the user wants from now on. What is above is told to end, and goes in its own time.
  void scale(int slots);

  // The controller sees that the pod of one that was to leave is no more.
  void gone_later(const PodPtr& pod);

  void tick_later(const PodPtr& pod);

  // As the processes' links and the agent's look into /proc do.
  void tell_activities(const PodPtr& pod);
  Activity activity_of(const Process& process) const;

  void connect_later(const PodPtr& pod);

  void cut(const PodPtr& pod);

  // Nothing gets to the pod or comes from it for a while; its processes are alive, and the others miss them.
  void cut_off(const PodPtr& pod);

  void kill_pod(const PodPtr& pod);
  // A pod that has ended is recreated, if its slot is still wanted.
  void end_of_pod(const PodPtr& pod);

  // The controller sees in its cache that the pod has ended, writes the attempt, and creates the next incarnation.
  void replace_later(const PodPtr& pod);

  void pump(const PodPtr& pod);

  void act(const PodPtr& pod, const MemberAction& action);

  // ---- processes ----

  void renumber(const PodPtr& pod, int first_rank);

  void regroup(const PodPtr& pod, const SimulatedProcessPtr& process, const GenerationId& id);

  // Whether this member may run that generation now.
  void check_generation(const PodPtr& pod, const Go& go);

  // One that has a generation ends well.
  void finish(const PodPtr& pod, const SimulatedProcessPtr& process, int least);

  void enter(const PodPtr& pod, const SimulatedProcessPtr& process, const Go& go);

  // Those of `only`, local ranks, take the places of dead ones; empty: all are started.
  void start_processes(const PodPtr& pod, const Go& go, std::vector<int> only);

  void end_process(const PodPtr& pod, const std::shared_ptr<Process>& process, int code, int signal);

  // Somebody of that generation cannot be reached: peers see it, sooner or later, or never.
  void miss(std::int64_t generation);

  // A rank that does not reach the one beside it says so, or has only lost its patience.
  void miss_unreached(std::int64_t generation, int least);
  void say_unreached(const PodPtr& pod, const SimulatedProcessPtr& process, std::int64_t generation);

  void look_for_processes(const PodPtr& pod);

  // ---- coordinators, controller and store ----

  void start_leader();

  void kill_coordinator(const std::shared_ptr<Coordinator>& coordinator);

  void tick(const std::shared_ptr<Coordinator>& coordinator);

  // A coordinator that is held up sees everything later, in order.
  void at_coordinator(const std::shared_ptr<Coordinator>& coordinator, const std::function<void()>& act);

  JobPlan plan_now() const;
  void plan_all();

  void pump(const std::shared_ptr<Coordinator>& coordinator);

  // ---- faults ----

  void fault();

  std::mt19937 random_;
  int slots_;
  const int procs_;
  const bool regroups_;
  const int min_slots_;  // 0: not elastic
  const int spares_;
  const bool watched_;
  const bool racks_;  // ranks follow racks, and not slots
  MonotonicTime now_{std::chrono::hours(1)};
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  bool faults_ = false, finishing_ = false;

  std::vector<PodPtr> pods_;                                // by slot
  std::vector<PodPtr> leaving_;                             // that were released and are not known to be gone
  std::set<std::pair<std::string, std::string>> cut_pods_;  // by name, the smaller first
  std::map<int, std::int64_t> incarnation_of_slot_;
  std::vector<std::shared_ptr<Coordinator>> coordinators_;
  std::shared_ptr<Coordinator> leader_;
  std::int64_t term_ = 0;  // of the Lease, which somebody may delete
  std::int64_t handled_ = 0, noticed_ = 0;
  SessionId last_session_ = 0;
  int last_key_ = 0, last_port_ = 0, starts_ = 0, warm_starts_ = 0, partly_kept_ = 0, released_ = 0, aborted_ = 0,
      evicted_ = 0;
  std::set<std::int64_t> smaller_;

  SimulatedTraining training_{{[this](int wait, std::function<void()> act) { after(ms(wait), std::move(act)); },
                               [this](int least, int most) { return between(least, most); },
                               [this](const std::string& what) { violate(what); },
                               [this](const std::string& pod, const std::string& other) {
                                 return cut_pods_.count(std::minmax(pod, other)) != 0;
                               }}};

  SimulatedStore store_{[this](int least, int most) { return between(least, most); },
                        [this](const std::string& what) { violate(what); }};
  std::map<std::int64_t, std::string> agreed_;  // what members of a generation were given
  std::string violation_;
};

}  // namespace lockstep::rendezvous
