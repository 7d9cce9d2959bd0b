// A world in virtual time for the state machines: pods with agents and processes, a store of records, coordinators that
// come, linger and go, links that delay and break, a user who scales, and a controller that does what decide() does. It
// checks the invariants of the protocol at each step and keeps the first violation as a sentence.
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

class SimulatedWorld {
 public:
  // `regroups`: whether processes keep their memory when others die. `elastic`: whether the gang may run with fewer,
  // and is scaled.
  // `spares`: whether there may be more pods than the gang takes.
  // `watched`: processes say what they are doing, and the job is watched for hangs.
  explicit SimulatedWorld(unsigned seed, bool regroups = true, bool elastic = false, bool spares = false,
                          bool watched = false)
      : random_(seed),
        slots_(between(1, 5)),
        procs_(between(1, 2)),
        regroups_(regroups),
        min_slots_(elastic ? between(1, slots_) : 0),
        spares_(spares ? between(1, 2) : 0),
        watched_(watched) {
    for (int slot = 0; slot < slots_ + spares_; ++slot) create_pod(slot);
    start_leader();
  }

  // Faults for `seconds` of virtual time.
  void disturb(int seconds) {
    faults_ = true;
    const MonotonicTime end = now_ + std::chrono::seconds(seconds);
    while (now_ < end && violation_.empty()) {
      run_for(ms(between(20, 1500)));
      fault();
    }
    faults_ = false;
    store_.set_trouble(0);
  }

  void run_for(Duration duration) {
    const MonotonicTime end = now_ + duration;
    while (!events_.empty() && events_.top().at <= end && violation_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.act();
    }
    now_ = end;
  }

  // True once `condition` holds, trying for `seconds`.
  bool reaches(int seconds, const std::function<bool()>& condition) {
    for (int i = 0; i < seconds * 20 && violation_.empty(); ++i) {
      if (condition()) return true;
      run_for(ms(50));
    }
    return condition();
  }

  bool all_up() const {
    const auto view = leader_view();
    if (!view || view->phase != Phase::kUp || view->world_size != slots_ * procs_) return false;
    for (const auto& pod : pods_) {
      for (const auto& process : pod->processes) {
        const bool waits = process->generation == 0;  // in a spare
        if (process->alive && !waits && process->generation != view->generation) return false;
      }
    }
    return leaving_.empty();
  }
  bool all_left_with_zero() const {
    for (const auto& pod : pods_) {
      if (!pod->left || *pod->left != 0) return false;
    }
    return true;
  }
  std::optional<JobView> leader_view() const { return leader_ == nullptr ? std::nullopt : leader_->state->view(); }
  void finish_all_processes() {
    finishing_ = true;
    for (const auto& pod : everybody()) {
      for (const auto& process : pod->processes) {
        if (process->alive) finish(pod, process, 1);
      }
    }
  }
  // One process of the generation that is up makes no step any more, and is stopped or sleeps. False: none is up.
  bool hang() {
    const auto view = leader_view();
    if (!view || view->phase != Phase::kUp) return false;
    std::vector<std::shared_ptr<Process>> candidates;
    for (const auto& pod : pods_) {
      for (const auto& process : pod->processes) {
        const bool up = process->alive && pod->alive && !pod->left && process->generation == view->generation;
        if (up) candidates.push_back(process);
      }
    }
    if (candidates.empty()) return false;
    Process& chosen = *candidates[static_cast<std::size_t>(between(0, static_cast<int>(candidates.size()) - 1))];
    chosen.stuck = chosen.hangs = chosen.ignores_term = true;
    chosen.stopped = chance(50);
    return true;
  }
  // From now on nothing gets from one pod of the generation that is up to the next one, while both speak with the
  // coordinator. False: none is up, or it has one member.
  bool cut_two() {
    const auto view = leader_view();
    if (!view || view->phase != Phase::kUp) return false;
    std::vector<PodPtr> members;
    for (const auto& member : view->members) {
      if (member.in_gang && wanted(member.slot)) members.push_back(pods_[static_cast<std::size_t>(member.slot)]);
    }
    if (members.size() < 2) return false;
    const auto first = static_cast<std::size_t>(between(0, static_cast<int>(members.size()) - 1));
    const PodPtr a = members[first], b = members[(first + 1) % members.size()];
    cut_pods_.insert(std::minmax(a->uid, b->uid));
    miss_unreached(view->generation, 0);
    return true;
  }
  int members() const {
    const auto view = leader_view();
    return view ? static_cast<int>(std::count_if(view->members.begin(), view->members.end(),
                                                 [](const auto& member) { return member.in_gang; }))
                : 0;
  }
  // For so long no word of anybody gets to the coordinator, and none of it to anybody; they reach one another.
  void silence(Duration duration) {
    for (const auto& pod : everybody()) {
      pod->cut_off_until = now_ + duration;
      cut(pod);
    }
  }
  // Pods that were made anew because they did not reach another one.
  int evicted() const { return evicted_; }
  bool anybody_hangs() const {
    return std::any_of(pods_.begin(), pods_.end(), [](const auto& pod) {
      return std::any_of(pod->processes.begin(), pod->processes.end(),
                         [](const auto& process) { return process->alive && process->stuck; });
    });
  }
  int aborted() const { return aborted_; }  // processes that were ended because they hung
  void restart_leader() {
    kill_coordinator(leader_);
    start_leader();
  }
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
  std::string describe() const {
    const auto view = leader_view();
    std::string text = fmt::format("slots {} procs {}; ", slots_, procs_);
    if (view)
      text +=
          fmt::format("phase {} generation {}: {}; ", static_cast<int>(view->phase), view->generation, view->message);
    for (const auto& pod : pods_) {
      text += fmt::format("[slot {} inc {} phase {} gen {} promised {}/{} welcomed {}] ", pod->slot, pod->incarnation,
                          static_cast<int>(pod->state->phase()), pod->state->generation(), pod->state->promised().term,
                          pod->state->promised().generation, pod->state->welcomed());
    }
    return text;
  }

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
  Now clock() const { return {now_, WallTime(now_.time_since_epoch())}; }
  void violate(const std::string& what) {
    if (violation_.empty()) violation_ = fmt::format("at {} ms: {}", now_.time_since_epoch().count() / 1'000'000, what);
  }

  // ---- pods ----

  void create_pod(int slot) {
    const auto pod = std::make_shared<Pod>();
    pod->slot = slot;
    pod->incarnation = ++incarnation_of_slot_[slot];
    pod->uid = fmt::format("pod-{}-{}", slot, pod->incarnation);
    MemberOptions options;
    options.name_space = "ns";
    options.pod_name = options.pod_uid = options.session = pod->uid;
    options.slot = slot;
    options.incarnation = pod->incarnation;
    pod->state = std::make_unique<MemberState>(options, now_);
    if (wanted(slot)) {
      pods_[static_cast<std::size_t>(slot)] = pod;
    } else {
      pods_.push_back(pod);
    }
    connect_later(pod);
    tick_later(pod);
  }

  bool wanted(int slot) const { return static_cast<std::size_t>(slot) < pods_.size(); }

  // Those that leave as well.
  std::vector<PodPtr> everybody() const {
    std::vector<PodPtr> all = pods_;
    all.insert(all.end(), leaving_.begin(), leaving_.end());
    return all;
  }

  // As many slots as the user wants from now on. What is above is told to end, and goes in its own time.
  void scale(int slots) {
    for (; static_cast<int>(pods_.size()) > slots + spares_; pods_.pop_back()) {
      const PodPtr pod = pods_.back();
      leaving_.push_back(pod);
      ++released_;
      if (!pod->alive || pod->left) gone_later(pod);
      after(ms(between(1, 1500)), [this, pod] {
        if (!pod->alive || pod->left) return;
        pod->state->on_terminate(143, std::chrono::seconds(1), now_);
        pump(pod);
      });
    }
    slots_ = slots;
    while (static_cast<int>(pods_.size()) < slots + spares_) create_pod(static_cast<int>(pods_.size()));
    plan_all();
  }

  // The controller sees that the pod of one that was to leave is no more.
  void gone_later(const PodPtr& pod) {
    after(ms(between(20, 1500)), [this, pod] {
      if (std::erase(leaving_, pod) > 0) plan_all();
    });
  }

  void tick_later(const PodPtr& pod) {
    if (pod->ticking || !pod->alive || pod->left) return;
    pod->ticking = true;
    const MonotonicTime at = std::min(pod->state->deadline(), now_ + std::chrono::seconds(1));
    after(std::max<Duration>(ms(1), at - now_), [this, pod] {
      pod->ticking = false;
      if (!pod->alive || pod->left) return;
      if (watched_) tell_activities(pod);
      pod->state->on_tick(now_);
      pump(pod);
    });
  }

  // As the processes' links and the agent's look into /proc do.
  void tell_activities(const PodPtr& pod) {
    for (const auto& process : pod->processes) {
      if (!process->alive) continue;
      pod->state->on_process_state(process->rank, process->stopped ? 'T' : 'S');
      if (process->stopped) continue;
      pod->state->on_worker_message(process->rank, WorkerMessage{.activity = activity_of(*process)}, now_);
    }
  }
  Activity activity_of(const Process& process) const {
    Activity said;
    said.generation = process.generation;
    said.step = static_cast<std::int64_t>(process.history.size());
    said.sequence = said.step + (process.stuck ? 0 : 1);
    if (!process.stuck) said.waits_for_bytes_of = training_.before(process);
    return said;
  }

  void connect_later(const PodPtr& pod) {
    after(ms(between(5, 200)), [this, pod] {
      if (!pod->alive || pod->left || pod->link) return;
      if (now_ < pod->cut_off_until) return connect_later(pod);
      std::vector<std::shared_ptr<Coordinator>> there;
      for (const auto& coordinator : coordinators_) {
        if (coordinator->alive) there.push_back(coordinator);
      }
      if (there.empty()) return connect_later(pod);
      pod->link = std::make_shared<Link>();
      pod->link->id = ++last_session_;
      pod->link->coordinator = there[static_cast<std::size_t>(between(0, static_cast<int>(there.size()) - 1))];
      pod->link->to_coordinator = pod->link->to_agent = now_;
      pod->state->on_connected(now_);
      pump(pod);
    });
  }

  void cut(const PodPtr& pod) {
    const auto link = std::exchange(pod->link, nullptr);
    if (!link) return;
    link->open = false;
    pod->state->on_disconnected(now_);
    pump(pod);
    after(ms(between(0, 50)), [this, link] {
      at_coordinator(link->coordinator, [this, link] { link->coordinator->state->on_disconnected(link->id, clock()); });
    });
    connect_later(pod);
  }

  // Nothing gets to the pod or comes from it for a while; its processes are alive, and the others miss them.
  void cut_off(const PodPtr& pod) {
    if (!pod->alive || pod->left) return;
    pod->cut_off_until = now_ + ms(between(500, 9000));
    for (const auto& process : pod->processes) {
      if (process->alive) miss(process->generation);
    }
    cut(pod);
  }

  void kill_pod(const PodPtr& pod) {
    if (!pod->alive || pod->left) return;
    pod->alive = false;
    for (const auto& process : pod->processes) process->alive = false;
    if (const auto link = std::exchange(pod->link, nullptr)) {
      link->open = false;
      after(ms(between(0, 50)), [this, link] {
        at_coordinator(link->coordinator,
                       [this, link] { link->coordinator->state->on_disconnected(link->id, clock()); });
      });
    }
    end_of_pod(pod);
  }
  // A pod that has ended is made anew, if its slot is still wanted.
  void end_of_pod(const PodPtr& pod) {
    std::count(leaving_.begin(), leaving_.end(), pod) > 0 ? gone_later(pod) : replace_later(pod);
  }

  // The controller sees in its cache that the pod has ended, writes the attempt, and creates the next incarnation.
  void replace_later(const PodPtr& pod) {
    after(ms(between(50, 3000)), [this, pod] {
      if (!wanted(pod->slot) || pods_[static_cast<std::size_t>(pod->slot)] != pod) return;  // released meanwhile
      if (leader_ && chance(50)) {
        const auto view = leader_->state->view();
        const bool concerns =
            view && (min_slots_ + spares_ == 0 ||
                     std::any_of(view->members.begin(), view->members.end(), [&](const auto& member) {
                       return member.in_gang && member.slot == pod->slot && member.incarnation == pod->incarnation;
                     }));
        if (concerns) handled_ = std::max(handled_, view->generation);
      }
      create_pod(pod->slot);
      plan_all();
    });
  }

  void pump(const PodPtr& pod) {
    for (auto actions = pod->state->take_actions(); !actions.empty(); actions = pod->state->take_actions()) {
      for (const MemberAction& action : actions) act(pod, action);
    }
    tick_later(pod);
  }

  void act(const PodPtr& pod, const MemberAction& action) {
    if (const auto* out = std::get_if<SendToCoordinator>(&action)) {
      const auto link = pod->link;
      if (!link) return;
      link->to_coordinator = std::max(link->to_coordinator, now_ + ms(between(0, chance(5) ? 400 : 10)));
      after(link->to_coordinator - now_, [this, link, message = out->message] {
        if (!link->open) return;
        at_coordinator(link->coordinator, [this, link, message] {
          CoordinatorState& state = *link->coordinator->state;
          if (const auto* hello = std::get_if<Hello>(&message)) {
            state.on_hello(link->id, *hello, clock());
          } else {
            state.on_message(link->id, message, clock());
          }
        });
      });
    } else if (const auto* prepare = std::get_if<PrepareSockets>(&action)) {
      Prepared prepared;
      prepared.host = pod->uid;
      prepared.master_port = between(20'000, 29'999);
      for (int i = 0; i < prepare->propose.ranks; ++i)
        prepared.addresses.push_back(fmt::format("{}:{}", pod->uid, ++last_port_));
      after(ms(between(0, 20)), [this, pod, epoch = prepare->propose.epoch, prepared] {
        if (!pod->alive || pod->left) return;
        pod->state->on_prepared(epoch, prepared, now_);
        pump(pod);
      });
    } else if (const auto* start = std::get_if<StartProcesses>(&action)) {
      start_processes(pod, start->go, start->only);
    } else if (const auto* ask = std::get_if<AskHoldings>(&action)) {
      for (const auto& process : pod->processes) {
        if (process->alive) regroup(pod, process, ask->epoch);
      }
    } else if (const auto* go_on = std::get_if<ContinueProcesses>(&action)) {
      check_generation(pod, go_on->go);
      for (const auto& process : pod->processes) {
        if (!process->alive) continue;
        training_.note_kept();
        enter(pod, process, go_on->go);
      }
    } else if (const auto* yield = std::get_if<AskYield>(&action)) {
      for (const auto& process : pod->processes) {
        if (process->alive && !process->regroups) violate("a process that cannot be regrouped is asked to yield");
        after(ms(between(0, 40)), [process, generation = yield->generation] { process->yields = generation; });
      }
    } else if (const auto* dial = std::get_if<DialAddresses>(&action)) {
      const bool cut = std::any_of(dial->addresses.begin(), dial->addresses.end(), [&](const std::string& address) {
        return cut_pods_.count(std::minmax(pod->uid, address.substr(0, address.find(':')))) != 0;
      });
      after(ms(cut ? 2000 : between(0, 40)), [this, pod, cut, generation = dial->generation] {
        if (!pod->alive || pod->left) return;
        pod->state->on_dialled(generation, cut ? "somebody: no answer" : "");
        pump(pod);
      });
    } else if (const auto* renumbering = std::get_if<RenumberProcesses>(&action)) {
      renumber(pod, renumbering->first_rank);
    } else if (const auto* abort = std::get_if<AbortProcess>(&action)) {
      for (const auto& process : pod->processes) {
        if (!process->alive || process->rank != abort->rank) continue;
        if (!process->stuck) violate(fmt::format("rank {}, which does not hang, is ended as if it did", abort->rank));
        ++aborted_;
        if (chance(70)) after(ms(between(0, 300)), [this, pod, process] { end_process(pod, process, 134, 6); });
      }
    } else if (const auto* hung = std::get_if<KillProcess>(&action)) {
      for (const auto& process : pod->processes) {
        if (process->alive && process->rank == hung->rank) end_process(pod, process, 137, 9);
      }
    } else if (std::holds_alternative<EndProcesses>(action)) {
      for (const auto& process : pod->processes) {
        if (!process->alive || process->ignores_term) continue;
        after(ms(between(0, 300)), [this, pod, process] { end_process(pod, process, 143, 15); });
      }
      after(ms(0), [this, pod] { look_for_processes(pod); });
    } else if (std::holds_alternative<KillProcesses>(action)) {
      for (const auto& process : pod->processes) {
        if (process->alive) after(ms(between(0, 5)), [this, pod, process] { end_process(pod, process, 137, 9); });
      }
      after(ms(0), [this, pod] { look_for_processes(pod); });
    } else if (std::holds_alternative<CloseConnection>(action)) {
      cut(pod);
    } else if (const auto* leave = std::get_if<ExitAgent>(&action)) {
      pod->left = leave->code;
      for (const auto& process : pod->processes) {
        if (process->alive) violate(fmt::format("the agent of slot {} left with a process alive", pod->slot));
      }
      if (pod->link) pod->link->open = false;
      if (leave->code != 0 || std::count(leaving_.begin(), leaving_.end(), pod) > 0) end_of_pod(pod);
    }
  }

  void renumber(const PodPtr& pod, int first_rank) {
    for (const auto& process : pod->processes) process->rank = first_rank++;
  }

  void regroup(const PodPtr& pod, const SimulatedProcessPtr& process, const Epoch& epoch) {
    if (chance(3)) process->hangs = true;
    if (process->hangs) return;
    after(ms(between(0, 40)), [this, pod, process, epoch] {
      if (!process->alive || !pod->alive) return;
      WorkerMessage message;
      message.holding = Holding{epoch.term, epoch.generation, training_.regroup(process, epoch.generation)};
      pod->state->on_worker_message(process->rank, message, now_);
      pump(pod);
    });
  }

  // Whether this member may run that generation now.
  void check_generation(const PodPtr& pod, const Go& go) {
    const std::int64_t generation = go.epoch.generation;
    if (generation <= pod->last_started) {
      violate(fmt::format("slot {} started generation {} after {}", pod->slot, generation, pod->last_started));
    }
    pod->last_started = generation;
    const SimulatedStore::Members* const recorded = store_.members(generation);
    if (recorded == nullptr) {
      violate(fmt::format("slot {} started generation {}, which is not in the record", pod->slot, generation));
    } else if (recorded->count(pod->slot) == 0 || recorded->at(pod->slot) != pod->incarnation) {
      violate(fmt::format("slot {} incarnation {} started generation {}, whose record names another", pod->slot,
                          pod->incarnation, generation));
    }
    const std::string agreed = fmt::format("{} {} {} {} {}", go.peers.size(), go.key, go.master_addr, go.master_port,
                                           fmt::join(go.peers, ","));
    if (const auto at = agreed_.emplace(generation, agreed).first; at->second != agreed) {
      violate(fmt::format("members of generation {} were given different peers", generation));
    }
    if (go.world_size < slots_ * procs_) smaller_.insert(generation);
    // A GO that comes late may start processes of a generation that is over: it lacks those that went on without them.
    const auto went_on = [&](const PodPtr& other) {
      return recorded != nullptr && recorded->count(other->slot) != 0 &&
             recorded->at(other->slot) == other->incarnation && other->last_started > generation;
    };
    const auto everyone = everybody();
    if (std::any_of(everyone.begin(), everyone.end(), went_on)) return;
    for (const auto& other : everyone) {
      for (const auto& process : other->processes) {
        // Of a slot that the generation does without something may be left, if it cannot make a step any more.
        const bool without = recorded != nullptr &&
                             (recorded->count(other->slot) == 0 || recorded->at(other->slot) != other->incarnation);
        if (without && !training_.can_step(process->generation)) continue;
        if (process->alive && process->generation != generation && process->promised < generation) {
          violate(fmt::format("slot {} starts generation {} while slot {} runs {}", pod->slot, generation, other->slot,
                              process->generation));
        }
      }
    }
  }

  // One that has a generation ends well.
  void finish(const PodPtr& pod, const SimulatedProcessPtr& process, int least) {
    after(ms(between(least, least + 300)), [this, pod, process] {
      if (process->generation > 0) end_process(pod, process, 0, 0);
    });
  }

  void enter(const PodPtr& pod, const SimulatedProcessPtr& process, const Go& go) {
    if (finishing_) finish(pod, process, 200);
    // The process keeps this, and the pod keeps the process.
    const auto say = [this, weak = std::weak_ptr(pod), process = process.get()](const WorkerMessage& message) {
      const PodPtr there = weak.lock();
      if (!there || !there->alive || there->left || process->stopped) return;
      there->state->on_worker_message(process->rank, message, now_);
      pump(there);
    };
    training_.enter(
        process, go,
        [this, say, process = process.get()] {
          if (watched_) say({.activity = activity_of(*process)});  // it does from its start on
          say({.up = true, .regroups = process->regroups});
        },
        [say](std::int64_t step) {
          WorkerMessage message;
          message.progress = Progress{.step = step};
          say(message);
        },
        [say, generation = go.epoch.generation] {
          WorkerMessage message;
          message.broken = BrokenReport{generation, -1, "others join", true};
          say(message);
        });
    // When all are there whose links are to stand.
    if (!cut_pods_.empty()) after(ms(0), [this, generation = go.epoch.generation] { miss_unreached(generation, 400); });
  }

  // Those of `only`, local ranks, take the places of dead ones; empty: all are started.
  void start_processes(const PodPtr& pod, const Go& go, std::vector<int> only) {
    const bool warm = go.epoch.generation == 0;
    ++(warm ? warm_starts_ : starts_);
    if (only.empty()) {
      if (!warm) check_generation(pod, go);
      std::erase_if(pod->processes, [](const auto& process) { return !process->alive; });
      for (int i = 0; i < go.ranks; ++i) only.push_back(i);
    } else {
      partly_kept_ += 1;
      for (auto i = only.rbegin(); i != only.rend(); ++i) {
        const auto at = pod->processes.begin() + *i;
        if ((*at)->alive) violate("a process is started in the place of one that lives");
        pod->processes.erase(at);
      }
    }
    for (const int i : only) {
      const auto process = std::make_shared<Process>();
      process->generation = go.epoch.generation;
      process->rank = go.first_rank + i;
      process->pod = pod->uid;
      process->ignores_term = chance(20);
      process->regroups = regroups_;
      pod->processes.insert(pod->processes.begin() + std::min<std::ptrdiff_t>(i, std::ssize(pod->processes)), process);
      after(ms(between(5, 100)), [this, pod, process, go, warm] {
        if (!process->alive || !pod->alive) return;
        if (!warm) return enter(pod, process, go);
        pod->state->on_worker_message(process->rank, {.up = true, .regroups = true}, now_);
        pump(pod);
      });
    }
  }

  void end_process(const PodPtr& pod, const std::shared_ptr<Process>& process, int code, int signal) {
    if (!process->alive || !pod->alive) return;
    process->alive = false;
    ProcessEnd end;
    end.rank = process->rank;
    end.code = code;
    end.signal = signal;
    end.end_ms = now_.time_since_epoch().count() / 1'000'000;
    end.left_behind = chance(10);
    pod->state->on_exit(end, now_);
    if (code != 0 && process->generation > 0) miss(process->generation);
    look_for_processes(pod);
    pump(pod);
  }

  // Somebody of that generation cannot be reached: peers see it, sooner or later, or never.
  void miss(std::int64_t generation) {
    for (const auto& other : everybody()) {
      for (const auto& peer : other->processes) {
        if (!peer->alive || peer->generation != generation || !chance(70)) continue;
        after(ms(between(5, 500)), [this, other, peer, generation] {
          if (!peer->alive || !other->alive || peer->generation != generation) return;
          WorkerMessage report;
          if (peer->regroups) {
            report.broken = BrokenReport{generation, -1, "a peer went away"};
            other->state->on_worker_message(peer->rank, report, now_);
            return pump(other);
          }
          report.failure = FailureReport{FailureReport::Class::kCommunication, -1, "a peer went away"};
          other->state->on_worker_message(peer->rank, report, now_);
          end_process(other, peer, kExitCommunication, 0);
        });
      }
    }
  }

  // Who does not reach a rank beside it says so, or has only lost its patience.
  void miss_unreached(std::int64_t generation, int least) {
    for (const auto& pod : everybody()) {
      for (const auto& process : pod->processes) {
        if (!process->alive || process->generation != generation || training_.unreached(*process) < 0) continue;
        after(ms(between(least, least + 300)),
              [this, pod, process, generation] { say_unreached(pod, process, generation); });
      }
    }
  }
  void say_unreached(const PodPtr& pod, const SimulatedProcessPtr& process, std::int64_t generation) {
    const int suspect = training_.unreached(*process);
    if (!process->alive || !pod->alive || process->generation != generation || process->promised > generation) return;
    if (suspect < 0) return;
    WorkerMessage report;
    if (process->regroups) {
      const bool stepped = process->state && process->state->generation == generation;
      report.broken = BrokenReport{generation, suspect, "it cannot be reached", false, stepped};
      pod->state->on_worker_message(process->rank, report, now_);
      return pump(pod);
    }
    report.failure = FailureReport{FailureReport::Class::kCommunication, suspect, "it cannot be reached"};
    pod->state->on_worker_message(process->rank, report, now_);
    end_process(pod, process, kExitCommunication, 0);
  }

  void look_for_processes(const PodPtr& pod) {
    if (!pod->alive || pod->left) return;
    for (const auto& process : pod->processes) {
      if (process->alive) return;
    }
    pod->state->on_no_process_left(now_);
    pump(pod);
  }

  // ---- coordinators, controller and store ----

  void start_leader() {
    leader_ = std::make_shared<Coordinator>();
    leader_->state = std::make_unique<CoordinatorState>(
        ++term_, CoordinatorTiming{}, [this] { return fmt::format("key-{}", ++last_key_); }, clock());
    coordinators_.push_back(leader_);
    plan_all();
    tick(leader_);
  }

  void kill_coordinator(const std::shared_ptr<Coordinator>& coordinator) {
    if (!coordinator || !coordinator->alive) return;
    coordinator->alive = false;
    for (const auto& pod : everybody()) {
      if (pod->link && pod->link->coordinator == coordinator) cut(pod);
    }
    if (leader_ == coordinator) leader_ = nullptr;
    std::erase(coordinators_, coordinator);
  }

  void tick(const std::shared_ptr<Coordinator>& coordinator) {
    const Duration wait = std::max<Duration>(ms(1), coordinator->state->deadline() - now_);
    after(wait, [this, coordinator] {
      if (!coordinator->alive) return;
      at_coordinator(coordinator, [this, coordinator] { coordinator->state->on_tick(clock()); });
      tick(coordinator);
    });
  }

  // A coordinator that is held up sees everything later, in order.
  void at_coordinator(const std::shared_ptr<Coordinator>& coordinator, const std::function<void()>& act) {
    if (!coordinator->alive) return;
    if (coordinator->paused_until > now_) {
      after(coordinator->paused_until - now_, [this, coordinator, act] { at_coordinator(coordinator, act); });
      return;
    }
    act();
    pump(coordinator);
  }

  JobPlan plan_now() const {
    JobPlan plan;
    plan.name_space = "ns";
    plan.name = plan.uid = "job";
    plan.slots = slots_;
    plan.min_slots = min_slots_;
    plan.spares = spares_;
    plan.stabilization_seconds = 1;
    plan.procs_per_node = procs_;
    plan.start_timeout_seconds = 10;
    plan.progress_seconds = watched_ ? 3 : 0;
    plan.handled_generation = handled_;
    // Where one that leaves is still there, its successor has to wait.
    std::map<int, ExpectedMember> members;
    for (const auto& pod : pods_) members[pod->slot] = {pod->slot, pod->incarnation, pod->uid, pod->uid, ""};
    for (const auto& pod : leaving_) {
      const auto known = members.find(pod->slot);
      if (known != members.end() && known->second.leaving && known->second.incarnation < pod->incarnation) continue;
      members[pod->slot] = {pod->slot, pod->incarnation, pod->uid, pod->uid, "", true};
    }
    for (const auto& [slot, member] : members) plan.members.push_back(member);
    return plan;
  }
  void plan_all() {
    for (const auto& coordinator : std::vector(coordinators_)) {
      // One that lost its lease may still be told things for a while, as its own caches see them.
      if (coordinator != leader_ && chance(50)) continue;
      at_coordinator(coordinator, [this, coordinator] { coordinator->state->on_plan(plan_now(), clock()); });
    }
  }

  void pump(const std::shared_ptr<Coordinator>& coordinator) {
    for (const CoordinatorAction& action : coordinator->state->take_actions()) {
      if (const auto* out = std::get_if<SendToMember>(&action)) {
        for (const auto& pod : everybody()) {
          const auto link = pod->link;
          if (!link || link->id != out->session) continue;
          link->to_agent = std::max(link->to_agent, now_ + ms(between(0, chance(5) ? 400 : 10)));
          after(link->to_agent - now_, [this, pod, link, message = out->message] {
            if (!link->open || !pod->alive || pod->left || pod->link != link) return;
            pod->state->on_message(message, now_);
            pump(pod);
          });
        }
      } else if (const auto* closing = std::get_if<CloseSession>(&action)) {
        for (const auto& pod : everybody()) {
          if (pod->link && pod->link->id == closing->session) {
            after(ms(20), [this, pod, link = pod->link] {
              if (pod->link == link && pod->alive && !pod->left) cut(pod);
            });
          }
        }
      } else if (std::holds_alternative<LoadRecord>(action)) {
        after(ms(between(1, 60)), [this, coordinator] {
          const auto loaded = store_.load();
          after(ms(between(1, 60)), [this, coordinator, loaded] {
            at_coordinator(coordinator,
                           [this, coordinator, loaded] { coordinator->state->on_loaded(loaded, clock()); });
          });
        });
      } else if (const auto* writing = std::get_if<WriteRecord>(&action)) {
        after(ms(between(1, 60)), [this, coordinator, write = *writing] {
          const auto written = store_.compare_and_set(write);
          after(ms(between(1, chance(10) ? 800 : 60)), [this, coordinator, written] {
            at_coordinator(coordinator,
                           [this, coordinator, written] { coordinator->state->on_written(written, clock()); });
          });
        });
      }
    }
    const auto view = coordinator->state->view();
    if (coordinator == leader_ && view && view->phase == Phase::kBroken && view->generation > noticed_) {
      noticed_ = view->generation;
      const bool evicts = view->failure && view->failure->cause == "Partitioned";
      after(ms(between(1, 300)), [this, generation = view->generation, slot = evicts ? view->failure->slot : -1] {
        handled_ = std::max(handled_, generation);
        if (slot >= 0 && wanted(slot)) {
          ++evicted_;
          kill_pod(pods_[static_cast<std::size_t>(slot)]);
        }
        plan_all();
      });
    }
  }

  // ---- faults ----

  void fault() {
    const auto all = everybody();
    const PodPtr pod = all[static_cast<std::size_t>(between(0, static_cast<int>(all.size()) - 1))];
    switch (between(0, min_slots_ > 0 ? 11 : 9)) {
      case 0:
      case 1:
        for (const auto& process : pod->processes) {
          if (process->alive && chance(60)) end_process(pod, process, chance(50) ? 137 : 1, chance(50) ? 9 : 0);
        }
        break;
      case 2:
      case 3:
        min_slots_ + spares_ > 0 && chance(50) ? cut_off(pod) : cut(pod);
        break;
      case 4:
        kill_pod(pod);
        break;
      case 5: {
        kill_coordinator(leader_);
        after(ms(between(10, 3000)), [this] {
          if (!leader_) start_leader();
        });
        break;
      }
      case 6: {  // another leads, and this one does not know yet
        if (!leader_) break;
        const auto old = leader_;
        start_leader();
        after(ms(between(10, 4000)), [this, old] { kill_coordinator(old); });
        break;
      }
      case 7:
        store_.set_trouble(chance(50) ? 0 : between(10, 90));
        break;
      case 8:
        if (leader_) leader_->paused_until = now_ + ms(between(100, 3000));
        break;
      case 10:
      case 11:
        scale(between(min_slots_, 5));
        break;
      default:
        const bool for_long = min_slots_ + spares_ > 0 && chance(50);
        for (const auto& each : everybody()) {
          if (chance(50)) for_long ? cut_off(each) : cut(each);
        }
    }
  }

  std::mt19937 random_;
  int slots_;
  const int procs_;
  const bool regroups_;
  const int min_slots_;  // 0: not elastic
  const int spares_;
  const bool watched_;
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
  std::int64_t term_ = 0, handled_ = 0, noticed_ = 0;
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
