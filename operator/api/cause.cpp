#include "operator/api/cause.h"

#include <algorithm>
#include <iterator>

namespace lockstep::api {
namespace {

struct Row {
  Cause cause;
  std::string_view name;
  bool agent_says = false;      // an agent may report it
  bool infrastructure = false;  // never charged to the job
};

constexpr Row kRows[] = {
    {.cause = Cause::kNone, .name = ""},
    {.cause = Cause::kProcessExit, .name = "ProcessExit", .agent_says = true},
    {.cause = Cause::kProcessSignal, .name = "ProcessSignal", .agent_says = true},
    {.cause = Cause::kProcessFailed, .name = "ProcessFailed", .agent_says = true},
    {.cause = Cause::kCommandNotFound, .name = "CommandNotFound", .agent_says = true},
    {.cause = Cause::kPortInUse, .name = "PortInUse", .agent_says = true},
    {.cause = Cause::kHang, .name = "Hang", .agent_says = true},
    {.cause = Cause::kStopped, .name = "Stopped", .infrastructure = true},
    {.cause = Cause::kMemberLost, .name = "MemberLost", .infrastructure = true},
    {.cause = Cause::kConnectionBroken, .name = "ConnectionBroken", .infrastructure = true},
    {.cause = Cause::kPartitioned, .name = "Partitioned", .infrastructure = true},
    {.cause = Cause::kStartTimeout, .name = "StartTimeout"},
    {.cause = Cause::kIdentityMismatch, .name = "IdentityMismatch"},
    {.cause = Cause::kPodDeleted, .name = "PodDeleted", .infrastructure = true},
    {.cause = Cause::kPodFailed, .name = "PodFailed"},
    {.cause = Cause::kOomKilled, .name = "OOMKilled"},
    {.cause = Cause::kNodeLost, .name = "NodeLost", .infrastructure = true},
    {.cause = Cause::kPreempted, .name = "Preempted", .infrastructure = true},
    {.cause = Cause::kEvicted, .name = "Evicted", .infrastructure = true},
    {.cause = Cause::kUnhealthy, .name = "Unhealthy", .infrastructure = true},
    {.cause = Cause::kNotStarted, .name = "NotStarted"},
    {.cause = Cause::kDeadlineExceeded, .name = "DeadlineExceeded"},
    {.cause = Cause::kSuspended, .name = "Suspended"},
    {.cause = Cause::kCompleted, .name = "Completed"},
};

constexpr bool rows_follow_the_enum() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].cause != static_cast<Cause>(i)) return false;
  }
  return std::size(kRows) == static_cast<size_t>(Cause::kCompleted) + 1;
}
static_assert(rows_follow_the_enum());

const Row& row_of(Cause cause) {
  return kRows[static_cast<size_t>(cause)];
}

}  // namespace

std::string_view name_of(Cause cause) {
  return row_of(cause).name;
}

std::optional<Cause> cause_named(std::string_view name) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == name; });
  if (row == std::end(kRows)) return std::nullopt;
  return row->cause;
}

const std::vector<Cause>& all_causes() {
  static const std::vector<Cause> causes = [] {
    std::vector<Cause> list;
    for (const Row& row : kRows) {
      if (row.cause != Cause::kNone) list.push_back(row.cause);
    }
    return list;
  }();
  return causes;
}

Cause cause_of_agent(std::string_view word) {
  const auto cause = cause_named(word);
  return cause && row_of(*cause).agent_says ? *cause : Cause::kProcessFailed;
}

bool is_infrastructure(Cause cause) {
  return row_of(cause).infrastructure;
}

}  // namespace lockstep::api
