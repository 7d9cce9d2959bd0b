#include <algorithm>
#include <iterator>

#include "operator/api/reader.h"
#include "operator/api/training_job.h"
#include "operator/api/training_job_names.h"
#include "operator/base/timestamp.h"

namespace lockstep::api {
namespace {

void put(Json& json, const char* key, const std::string& text) {
  if (!text.empty()) json[key] = text;
}

template <typename Enum>
void read_name(const Reader& item, const char* key, std::optional<Enum> (*named)(std::string_view),
               StoredName<Enum>& value) {
  std::string name;
  item.read(key, name);
  const auto known = named(name);
  value = known ? StoredName<Enum>(*known) : StoredName<Enum>::unknown(std::move(name));
}

std::string field_of(const RecoveryPhase& phase) {
  return std::string(phase.name) + "Milliseconds";
}

void read_restarts(const Reader& root, RestartsStatus& restarts) {
  root.read("total", restarts.total);
  root.read("charged", restarts.charged);
  root.read("counted", restarts.counted);
  read_name(root, "lastCause", cause_named, restarts.last_cause);
  if (root.has("window")) restarts.window.emplace();
  for (const Reader& item : root.children("window")) {
    std::optional<WallTime> time;
    item.read("time", time);
    CountedRestarts& entry = restarts.window->emplace_back();
    entry.time = time.value_or(WallTime());
    item.read("count", entry.count);
  }
  root.read("withoutProgress", restarts.without_progress);
  root.read("bestStep", restarts.best_step);
  if (root.has("lastFailure")) {
    OwnFailure& failure = restarts.last_failure.emplace();
    root.child("lastFailure").read("step", failure.step);
    root.child("lastFailure").read("exitCode", failure.exit_code);
  }
  root.read("outOfMemory", restarts.out_of_memory);
}

Json restarts_json(const RestartsStatus& restarts) {
  Json json{{"total", restarts.total}, {"charged", restarts.charged}, {"counted", restarts.counted}};
  put(json, "lastCause", restarts.last_cause.text());
  if (restarts.window) {
    Json& window = json["window"] = Json::array();
    for (const CountedRestarts& entry : *restarts.window) {
      window.push_back({{"time", format_timestamp(entry.time)}, {"count", entry.count}});
    }
  }
  if (restarts.without_progress > 0) json["withoutProgress"] = restarts.without_progress;
  if (restarts.best_step > 0) json["bestStep"] = restarts.best_step;
  if (restarts.last_failure) {
    json["lastFailure"] = {{"step", restarts.last_failure->step}, {"exitCode", restarts.last_failure->exit_code}};
  }
  if (restarts.out_of_memory) json["outOfMemory"] = true;
  return json;
}

void read_attempt(const Reader& item, Attempt& attempt) {
  item.read("generation", attempt.generation);
  read_name(item, "cause", cause_named, attempt.cause);
  item.read("firstFailingRank", attempt.first_failing_rank);
  item.read("pod", attempt.pod);
  item.read("node", attempt.node);
  item.read("exitCode", attempt.exit_code);
  item.read("message", attempt.message);
  read_name(item, "strategy", strategy_named, attempt.strategy);
  item.read("decision", attempt.decision);
  item.read("counted", attempt.counted);
  item.read("startTime", attempt.start_time);
  item.read("endTime", attempt.end_time);
  item.read("step", attempt.step);
  const Reader phases = item.child("phases");
  for (const RecoveryPhase& phase : kRecoveryPhases) {
    phases.read(field_of(phase).c_str(), attempt.*phase.ms);
  }
}

// Times of attempts keep their microseconds: recovery is counted in milliseconds.
Json attempt_json(const Attempt& attempt) {
  Json json{{"generation", attempt.generation}, {"counted", attempt.counted}, {"step", attempt.step}};
  put(json, "cause", attempt.cause.text());
  if (attempt.first_failing_rank >= 0) json["firstFailingRank"] = attempt.first_failing_rank;
  put(json, "pod", attempt.pod);
  put(json, "node", attempt.node);
  if (attempt.exit_code) json["exitCode"] = *attempt.exit_code;
  put(json, "message", attempt.message);
  put(json, "strategy", attempt.strategy.text());
  put(json, "decision", attempt.decision);
  if (attempt.start_time) json["startTime"] = format_micro_timestamp(*attempt.start_time);
  if (attempt.end_time) json["endTime"] = format_micro_timestamp(*attempt.end_time);
  Json phases = Json::object();
  for (const RecoveryPhase& phase : kRecoveryPhases) {
    if (attempt.*phase.ms >= 0) phases[field_of(phase)] = attempt.*phase.ms;
  }
  if (!phases.empty()) json["phases"] = std::move(phases);
  return json;
}

constexpr std::string_view kTroubleNames[] = {"", "Silent", "Partitioned", "NodeLost", "Unhealthy"};
static_assert(std::size(kTroubleNames) == static_cast<size_t>(SlotTrouble::kUnhealthy) + 1);

void read_slot(const Reader& item, SlotStatus& entry) {
  item.read("slot", entry.slot);
  read_name(item, "trouble", slot_trouble_named, entry.trouble);
  item.read("pod", entry.pod);
  item.read("node", entry.node);
  item.read("since", entry.since);
  item.read("generation", entry.generation);
  item.read("sign", entry.sign);
}

Json slot_json(const SlotStatus& entry) {
  Json json{{"slot", entry.slot}, {"generation", entry.generation}};
  put(json, "trouble", entry.trouble.text());
  put(json, "pod", entry.pod);
  put(json, "node", entry.node);
  put(json, "sign", entry.sign);
  if (entry.since) json["since"] = format_timestamp(*entry.since);
  return json;
}

void read_progress(const Reader& item, ProgressStatus& progress) {
  item.read("step", progress.step);
  item.read("totalSteps", progress.total_steps);
  item.read("epoch", progress.epoch);
  item.read("loss", progress.loss);
  item.read("samplesPerSecond", progress.samples_per_second);
  item.read("percentage", progress.percentage);
  item.read("etaSeconds", progress.eta_seconds);
  item.read("lastUpdateTime", progress.last_update);
}

Json progress_json(const ProgressStatus& progress) {
  Json json{{"step", progress.step},
            {"totalSteps", progress.total_steps},
            {"epoch", progress.epoch},
            {"percentage", progress.percentage},
            {"etaSeconds", progress.eta_seconds}};
  put(json, "loss", progress.loss);
  put(json, "samplesPerSecond", progress.samples_per_second);
  if (progress.last_update) json["lastUpdateTime"] = format_timestamp(*progress.last_update);
  return json;
}

}  // namespace

std::string_view name_of(SlotTrouble trouble) {
  return kTroubleNames[static_cast<size_t>(trouble)];
}

std::optional<SlotTrouble> slot_trouble_named(std::string_view name) {
  const auto* at = std::find(std::begin(kTroubleNames), std::end(kTroubleNames), name);
  if (at == std::end(kTroubleNames)) return std::nullopt;
  return static_cast<SlotTrouble>(at - std::begin(kTroubleNames));
}

void read_status(const Reader& root, TrainingJobStatus& status) {
  root.read("observedGeneration", status.observed_generation);
  for (const Reader& item : root.children("conditions")) read_condition(item, status.conditions.emplace_back());
  root.read("state", status.state);
  root.read("incarnation", status.incarnation);
  for (const Reader& item : root.children("released")) {
    Release& release = status.released.emplace_back();
    item.read("fromSlot", release.from_slot);
    item.read("incarnation", release.incarnation);
  }
  root.read("membershipGeneration", status.membership_generation);
  const Reader nodes = root.child("nodes");
  nodes.read("desired", status.nodes.desired);
  nodes.read("ready", status.nodes.ready);
  nodes.read("min", status.nodes.min);
  nodes.read("max", status.nodes.max);
  nodes.read("spare", status.nodes.spare);
  nodes.read("summary", status.nodes.summary);
  root.read("procsPerNode", status.procs_per_node);
  root.read("worldSize", status.world_size);
  if (root.has("placement")) {
    PlacementStatus& placement = status.placement.emplace();
    root.child("placement").read("domains", placement.domains);
    root.child("placement").read("levelSpanned", placement.level_spanned);
    root.child("placement").read("score", placement.score);
  }
  read_restarts(root.child("restarts"), status.restarts);
  for (const Reader& item : root.children("attempts")) read_attempt(item, status.attempts.emplace_back());
  if (root.has("slots")) status.slots.emplace();
  for (const Reader& item : root.children("slots")) read_slot(item, status.slots->emplace_back());
  if (root.has("progress")) read_progress(root.child("progress"), status.progress.emplace());
  root.read("startTime", status.start_time);
  root.read("completionTime", status.completion_time);
  root.read("selector", status.selector);
}

Json to_json(const TrainingJobStatus& status) {
  Json json{{"observedGeneration", status.observed_generation},
            {"incarnation", status.incarnation},
            {"membershipGeneration", status.membership_generation},
            {"nodes", {{"desired", status.nodes.desired}, {"ready", status.nodes.ready}, {"min", status.nodes.min}}},
            {"procsPerNode", status.procs_per_node},
            {"worldSize", status.world_size},
            {"restarts", restarts_json(status.restarts)}};
  if (status.nodes.max) json["nodes"]["max"] = *status.nodes.max;
  if (status.nodes.spare) json["nodes"]["spare"] = *status.nodes.spare;
  put(json["nodes"], "summary", status.nodes.summary);
  if (status.placement) {
    Json& placement = json["placement"] = {{"domains", status.placement->domains}};
    put(placement, "levelSpanned", status.placement->level_spanned);
    put(placement, "score", status.placement->score);
  }
  for (const Release& release : status.released) {
    json["released"].push_back({{"fromSlot", release.from_slot}, {"incarnation", release.incarnation}});
  }
  for (const Condition& condition : status.conditions) json["conditions"].push_back(to_json(condition));
  put(json, "state", status.state);
  for (const Attempt& attempt : status.attempts) json["attempts"].push_back(attempt_json(attempt));
  if (status.slots) {
    Json& slots = json["slots"] = Json::array();
    for (const SlotStatus& entry : *status.slots) slots.push_back(slot_json(entry));
  }
  if (status.progress) json["progress"] = progress_json(*status.progress);
  if (status.start_time) json["startTime"] = format_timestamp(*status.start_time);
  if (status.completion_time) json["completionTime"] = format_timestamp(*status.completion_time);
  put(json, "selector", status.selector);
  return json;
}

}  // namespace lockstep::api
