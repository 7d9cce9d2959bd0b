#include "operator/cli/run_report.h"

#include <fmt/format.h>

#include <fstream>

#include "operator/cli/text.h"

namespace lockstep::cli {

void read_metrics(const std::string& path, LossCurve& curve) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer()) continue;
    if (!record.contains("loss") || !record["loss"].is_number()) continue;
    const LossPoint point{record["step"], record["loss"]};
    const auto kind = record.find("kind");
    if (kind == record.end()) continue;
    if (*kind == "step") curve.training.push_back(point);
  }
}

std::int64_t recovery_ms(const api::Attempt& attempt) {
  std::int64_t sum = -1;
  for (const std::int64_t part : {attempt.detect_ms, attempt.agree_ms, attempt.start_ms, attempt.first_step_ms}) {
    if (part >= 0) sum = std::max<std::int64_t>(sum, 0) + part;
  }
  return sum;
}

std::string attempts_table(const std::vector<api::Attempt>& attempts) {
  if (attempts.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"GENERATION", "ENDED BY", "RANK", "EXIT", "STEP", "DONE", "RECOVERY", "MESSAGE"}};
  for (const api::Attempt& attempt : attempts) {
    const std::int64_t ms = recovery_ms(attempt);
    rows.push_back({std::to_string(attempt.generation), attempt.cause.text(),
                    attempt.first_failing_rank < 0 ? "-" : std::to_string(attempt.first_failing_rank),
                    attempt.exit_code ? std::to_string(*attempt.exit_code) : "-", std::to_string(attempt.step),
                    attempt.strategy == api::Strategy::kNone || attempt.strategy == api::Strategy::kNothing
                        ? "-"
                        : attempt.strategy.text(),
                    ms < 0 ? "-" : fmt::format("{} ms", ms),
                    shortened(printable(attempt.message.substr(0, attempt.message.find('\n'))), 80)});
  }
  return table(rows);
}

std::string verdict(const api::TrainingJob& job, double seconds) {
  const int restarts = job.status.restarts.total;
  const std::string after = fmt::format("after {}{}", clock_time(seconds),
                                        restarts == 0   ? ""
                                        : restarts == 1 ? " with 1 restart"
                                                        : fmt::format(" with {} restarts", restarts));
  if (api::is_true(job.status.conditions, "Succeeded")) return fmt::format("{} succeeded {}", job.meta.name, after);
  const api::Condition* failed = api::find_condition(job.status.conditions, "Failed");
  if (failed == nullptr || failed->status != "True") return fmt::format("{} was stopped {}", job.meta.name, after);
  return fmt::format("{} failed {}: {}: {}", job.meta.name, after, failed->reason, printable(failed->message));
}

int exit_status(const api::TrainingJobStatus& status) {
  if (api::is_true(status.conditions, "Succeeded")) return 0;
  for (auto attempt = status.attempts.rbegin(); attempt != status.attempts.rend(); ++attempt) {
    if (attempt->exit_code && *attempt->exit_code != 0) return *attempt->exit_code & 0xFF;
  }
  return 1;
}

}  // namespace lockstep::cli
