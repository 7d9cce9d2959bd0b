#include "operator/cli/explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "operator/base/timestamp.h"
#include "operator/cli/run_report.h"
#include "operator/cli/text.h"

namespace lockstep::cli {
namespace {

constexpr size_t kLabel = 12;  // columns of the label in front of a line

std::string line(const std::string& label, const std::string& text) {
  return fmt::format("  {:<{}}{}\n", label, kLabel, text);
}

std::string time_of(const std::optional<WallTime>& time) {
  return time ? format_timestamp(*time) : "?";
}

struct Part {
  const char* name;
  std::int64_t ms;
};

// "decide 31, abort 4", of the phases that are known.
std::string parts_of(const std::vector<Part>& parts) {
  std::string text;
  for (const Part& part : parts) {
    if (part.ms >= 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", part.name, part.ms);
  }
  return text;
}

std::string phase(const char* name, std::int64_t ms, const std::vector<Part>& parts = {}) {
  if (ms < 0) return "";
  const std::string of = parts_of(parts);
  return line("", fmt::format("{:<12}{:>8} ms{}", name, ms, of.empty() ? "" : "   of that " + of));
}

std::string recovery(const api::Attempt& attempt) {
  const std::int64_t ms = recovery_ms(attempt);
  if (ms < 0) return "";
  return line("recovery", fmt::format("{} ms", ms)) + phase("detect", attempt.detect_ms) +
         phase("agree", attempt.agree_ms,
               {{"decide", attempt.decide_ms}, {"abort", attempt.abort_ms}, {"record", attempt.record_ms}}) +
         phase("start", attempt.start_ms, {{"init", attempt.init_ms}, {"transfer", attempt.transfer_ms}}) +
         phase("first step", attempt.first_step_ms);
}

std::string who(const api::Attempt& attempt) {
  std::vector<std::string> words;
  if (attempt.first_failing_rank >= 0) words.push_back(fmt::format("rank {}", attempt.first_failing_rank));
  if (!attempt.pod.empty()) words.push_back("pod " + attempt.pod);
  if (!attempt.node.empty()) words.push_back("node " + attempt.node);
  if (attempt.exit_code) words.push_back(fmt::format("exit code {}", *attempt.exit_code));
  return fmt::format("{}", fmt::join(words, ", "));
}

const char* in_words(api::Strategy strategy) {
  switch (strategy) {
    case api::Strategy::kInPlace:
      return "the pods stayed, and their dead processes restarted";
    case api::Strategy::kReplaceFailed:
      return "a pod was recreated";
    case api::Strategy::kShrink:
      return "the others continued without it";
    case api::Strategy::kGang:
      return "all pods were recreated";
    case api::Strategy::kNone:
    case api::Strategy::kNothing:
      break;
  }
  return "";
}

std::string about(const api::Attempt& attempt) {
  std::string text = fmt::format("generation {}: {} to {}, to step {}\n", attempt.generation,
                                 time_of(attempt.start_time), time_of(attempt.end_time), attempt.step);
  const std::string by = who(attempt);
  text += line("ended by", attempt.cause.text() + (by.empty() ? "" : fmt::format(" ({})", by)));
  const std::string message = printable(attempt.message);
  for (size_t at = 0; at < message.size();) {
    const size_t end = std::min(message.find('\n', at), message.size());
    text += line("", message.substr(at, end - at));
    at = end + 1;
  }
  if (const std::string done = in_words(attempt.strategy); !done.empty()) {
    text += line("done", fmt::format("{}: {}", attempt.strategy.text(), done));
  }
  if (!attempt.decision.empty()) text += line("by rule", attempt.decision);
  return text + recovery(attempt);
}

}  // namespace

bool waits_for_nodes(const api::TrainingJob& job) {
  const auto& conditions = job.status.conditions;
  const api::Condition* placed = api::find_condition(conditions, "Placed");
  return placed != nullptr && placed->status == "False" && !job.spec.suspend &&
         !api::is_true(conditions, "Succeeded") && !api::is_true(conditions, "Failed");
}

std::string explanation(const api::TrainingJob& job, WallTime now) {
  const api::TrainingJobStatus& status = job.status;
  std::string text = fmt::format("{}: {}", job.meta.name, status.state.empty() ? "Pending" : status.state);
  if (!status.nodes.summary.empty()) text += fmt::format(", {} ready", status.nodes.summary);
  if (status.world_size > 0) text += fmt::format(", {} ranks", status.world_size);
  text += fmt::format(", {} restart{}, of which {} charged to restart.maxRestarts ({})\n", status.restarts.total,
                      status.restarts.total == 1 ? "" : "s", status.restarts.charged, job.spec.restart.max_restarts);
  for (const api::Condition& condition : status.conditions) {
    const bool spare_waits = condition.reason == "GangPlaced";
    const bool unplaced = condition.type == "Placed" && (spare_waits || waits_for_nodes(job));
    const bool matters =
        condition.type == status.state || unplaced || (condition.type == "Running" && condition.status != "True");
    if (!matters || condition.message.empty()) continue;
    const auto since = condition.last_transition
                           ? age(std::chrono::duration<double>(now - *condition.last_transition).count()) + " ago"
                           : std::string("some time ago");
    text += fmt::format("  {}: {} ({}, {})\n", condition.type, printable(condition.message), condition.reason, since);
  }
  if (status.attempts.empty()) return text + "No attempt has ended so far.\n";
  const auto listed = std::count_if(status.attempts.begin(), status.attempts.end(), [](const api::Attempt& attempt) {
    return attempt.strategy != api::Strategy::kNothing;
  });
  if (status.restarts.total > listed) {
    text += fmt::format("Earlier restarts that are not stored: {}.\n", status.restarts.total - listed);
  }
  for (const api::Attempt& attempt : status.attempts) text += "\n" + about(attempt);
  return text;
}

}  // namespace lockstep::cli
