#include "operator/rendezvous/member_processes.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace lockstep::rendezvous {
namespace {

constexpr Duration kKillAgainAfter = std::chrono::milliseconds(20);  // what was killed may have left children behind

bool ended_by_itself(const MemberProcess& process) {
  return process.exit && process.exit->reason == Exit::Reason::kOwn;
}
bool well(const Exit& exit) {
  return exit.code == 0 && exit.signal == 0;
}
// One that lives, and that nothing is about to end.
bool regroups(const MemberProcess& process) {
  return process.regroups && !process.exit && !process.hang;
}

template <typename Test>
bool all_of(const std::map<int, MemberProcess>& ranks, const Test& test) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const auto& entry) { return test(entry.second); });
}

}  // namespace

MemberProcess* MemberProcesses::find(int rank) {
  const auto at = ranks_.find(rank);
  return at == ranks_.end() ? nullptr : &at->second;
}

bool MemberProcesses::all_exited() const {
  return all_of(ranks_, [](const MemberProcess& process) { return process.exit.has_value(); });
}

int MemberProcesses::exited() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const auto& entry) { return entry.second.exit.has_value(); }));
}

bool MemberProcesses::acknowledged() const {
  return all_of(ranks_, [](const MemberProcess& process) { return process.acknowledged || !process.exit; });
}

bool MemberProcesses::all_regroup() const {
  return alive_ && !ending_ && all_of(ranks_, regroups);
}

bool MemberProcesses::can_stay(int ranks) const {
  if (!go_ || go_->kind != Kind::kLockstep || ranks != go_->ranks) return false;
  if (all_regroup()) return true;
  return alive_ && !ending_ && !standby_ && !all_exited() && all_of(ranks_, [](const MemberProcess& process) {
           return process.exit ? !process.left_behind : regroups(process);
         });
}

bool MemberProcesses::ended_before_first() const {
  if (!before_first()) return false;
  const bool one_failed = std::any_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
    return ended_by_itself(entry.second) && !well(*entry.second.exit);
  });
  return one_failed || all_of(ranks_, ended_by_itself);
}

bool MemberProcesses::succeeded() const {
  return !ranks_.empty() &&
         all_of(ranks_, [](const MemberProcess& process) { return ended_by_itself(process) && well(*process.exit); });
}

int MemberProcesses::failure() const {
  const auto failed = std::find_if(ranks_.begin(), ranks_.end(),
                                   [](const auto& entry) { return entry.second.exit && entry.second.exit->code != 0; });
  return failed == ranks_.end() ? 1 : failed->second.exit->code;
}

std::vector<IdentityRun> MemberProcesses::identities() const {
  std::vector<IdentityRun> runs;
  bool said = false;
  for (const auto& [number, process] : ranks_) {
    const std::string line = process.exit ? "" : process.identity;
    said = said || !line.empty();
    if (!runs.empty() && runs.back().line == line) {
      ++runs.back().ranks;
    } else {
      runs.push_back({1, line});
    }
  }
  return said ? runs : std::vector<IdentityRun>();
}

std::vector<RankActivity> MemberProcesses::activities(MonotonicTime now) const {
  std::vector<RankActivity> found;
  if (!alive_) return found;
  for (const auto& [number, process] : ranks_) {
    // What was said after the caller had looked at its clock is new.
    const Duration age = process.activity ? std::max(now - process.activity_at, Duration::zero()) : Duration::zero();
    found.push_back(
        {process.state, std::chrono::duration_cast<std::chrono::milliseconds>(age).count(), process.activity});
  }
  return found;
}

EntryTimes MemberProcesses::entry() const {
  EntryTimes longest;
  for (const auto& [number, process] : ranks_) {
    longest.init_ms = std::max(longest.init_ms, process.entry.init_ms);
    longest.transfer_ms = std::max(longest.transfer_ms, process.entry.transfer_ms);
  }
  return longest;
}

void MemberProcesses::start(const Go& go) {
  go_ = go;
  ranks_.clear();
  for (int i = 0; i < go.ranks; ++i) ranks_[go.first_rank + i];
  alive_ = true;
  ending_.reset();
  up_ = standby_ = first_ = false;
  ++life_;
}

void MemberProcesses::wait(bool first) {
  standby_ = true;
  first_ = first;
}

void MemberProcesses::adopt(const Go& go) {
  std::map<int, MemberProcess> before = std::exchange(ranks_, {});
  for (auto& [number, process] : before) {
    const int in_go = go.first_rank + (number - go_->first_rank);
    process.up = process.acknowledged = false;
    process.entry = {};
    process.broken.reset();
    if (process.exit) {
      process.exit->generation = go.id.generation;
      process.exit->rank = in_go;
    }
    ranks_[in_go] = std::move(process);
  }
  go_ = go;
  up_ = standby_ = first_ = false;
}

std::vector<int> MemberProcesses::replace_exited() {
  std::vector<int> anew;
  for (auto& [number, process] : ranks_) {
    process.report.reset();
    if (!process.exit) continue;
    anew.push_back(number - go_->first_rank);
    process = MemberProcess{};
  }
  return anew;
}

bool MemberProcesses::become_up() {
  if (up_ || !all_of(ranks_, [](const MemberProcess& process) { return process.up; })) return false;
  up_ = true;
  return true;
}

bool MemberProcesses::started(int rank) {
  MemberProcess* process = find(rank);
  if (process == nullptr || go_->kind == Kind::kLockstep) return false;
  process->up = true;
  return become_up();
}

bool MemberProcesses::hear(int rank, const WorkerMessage& message, MonotonicTime now) {
  MemberProcess& process = ranks_.at(rank);
  if (message.activity) {
    process.activity = message.activity;
    process.activity_at = now;
  }
  if (message.failure) process.report = message.failure;
  if (message.broken && message.broken->generation == generation()) process.broken = message.broken;
  if (message.up) {
    process.regroups = message.regroups;
    process.entry = message.entry;
  }
  // Progress alone is what foreign programs say; of a process that stays it may be of the generation before.
  if (!message.up && !(message.progress && !process.regroups)) return false;
  process.up = true;
  return become_up();
}

bool MemberProcesses::identify(int rank, const std::string& line) {
  return std::exchange(ranks_.at(rank).identity, line) != line;
}

void MemberProcesses::note_state(int rank, char state) {
  if (MemberProcess* process = find(rank)) process->state = state;
}

std::optional<Exit> MemberProcesses::exit(const ProcessEnd& end) {
  MemberProcess* process = find(end.rank);
  if (process == nullptr || process->exit) return std::nullopt;
  Exit exit;
  exit.generation = generation();
  exit.rank = end.rank;
  exit.code = end.code;
  exit.signal = end.signal;
  exit.end_ms = end.end_ms;
  exit.reason = ending_ ? ending_->reason : Exit::Reason::kOwn;
  exit.report = process->report;
  exit.stderr_tail = end.stderr_tail;
  exit.problem = end.problem;
  exit.message = end.message;
  if (process->hang && (end.code != 0 || end.signal != 0)) {
    exit.problem = api::Cause::kHang;
    exit.message = *process->hang;
  }
  process->exit = exit;
  process->left_behind = end.left_behind;
  return exit;
}

void MemberProcesses::acknowledge(int rank) {
  if (MemberProcess* process = find(rank)) process->acknowledged = true;
}

void MemberProcesses::forget_acknowledgements() {
  for (auto& [number, process] : ranks_) process.acknowledged = false;
}

void MemberProcesses::vanish() {
  alive_ = false;
  ending_.reset();
}

bool MemberProcesses::abort(int rank, const std::string& message, MonotonicTime kill_at) {
  MemberProcess* process = find(rank);
  if (process == nullptr || process->exit || process->hang || ending_) return false;
  process->hang = message;
  process->kill_at = kill_at;
  return true;
}

bool MemberProcesses::end(Exit::Reason reason, MonotonicTime kill_at) {
  if (ending_) {
    ending_->kill_at = std::min(ending_->kill_at, kill_at);
    return false;
  }
  ending_ = Ending{kill_at, reason};
  return true;
}

std::vector<int> MemberProcesses::overdue(MonotonicTime now) {
  std::vector<int> found;
  for (auto& [number, process] : ranks_) {
    if (process.exit || now < process.kill_at) continue;
    process.kill_at = MonotonicTime::max();
    found.push_back(number);
  }
  return found;
}

bool MemberProcesses::kill_due(MonotonicTime now) {
  if (!ending_ || now < ending_->kill_at) return false;
  ending_->kill_at = now + kKillAgainAfter;
  return true;
}

MonotonicTime MemberProcesses::next_kill() const {
  MonotonicTime next = ending_ ? ending_->kill_at : MonotonicTime::max();
  for (const auto& [number, process] : ranks_) {
    if (!process.exit) next = std::min(next, process.kill_at);
  }
  return next;
}

}  // namespace lockstep::rendezvous
