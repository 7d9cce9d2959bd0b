#include "operator/cli/run_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "operator/base/number.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::json;

// Changes the value of "--name=..." or "--name ..." if command or args have it; false if they do not.
bool replace_flag(Json& spec, const std::string& name, const std::string& value) {
  for (const char* field : {"command", "args"}) {
    if (!spec.contains(field) || !spec[field].is_array()) continue;
    Json& words = spec[field];
    for (size_t i = 0; i < words.size(); ++i) {
      if (!words[i].is_string()) continue;
      const std::string word = words[i];
      if (word.starts_with("--" + name + "=")) {
        words[i] = "--" + name + "=" + value;
        return true;
      }
      if (word == "--" + name && i + 1 < words.size()) {
        words[i + 1] = value;
        return true;
      }
    }
  }
  return false;
}

// The value of "--name=..." or "--name ..."; empty text for a bare "--name", nothing if there is none.
std::optional<std::string> flag_of(const Json& spec, const std::string& name) {
  for (const char* field : {"command", "args"}) {
    if (!spec.contains(field) || !spec[field].is_array()) continue;
    const Json& words = spec[field];
    for (size_t i = 0; i < words.size(); ++i) {
      if (!words[i].is_string()) continue;
      const std::string word = words[i];
      if (word.starts_with("--" + name + "=")) return word.substr(name.size() + 3);
      if (word != "--" + name) continue;
      return i + 1 < words.size() && words[i + 1].is_string() ? words[i + 1].get<std::string>() : "";
    }
  }
  return std::nullopt;
}

bool has_flag(const Json& spec, const std::string& name) {
  return flag_of(spec, name).has_value();
}

bool is_our_trainer(const Json& spec) {
  return std::filesystem::path(spec["command"][0].get<std::string>()).filename() == "lockstep-trainer";
}

// The flags of lockstep-trainer leave it no way to compute on the CPU.
bool needs_gpu(const Json& spec) {
  const std::string backend = flag_of(spec, "backend").value_or("auto");
  return backend == "cuda" || (backend == "auto" && flag_of(spec, "precision").value_or("fp32") != "fp32");
}

void add_argument(Json& spec, const std::string& word) {
  if (!spec.contains("args") || !spec["args"].is_array()) spec["args"] = Json::array();
  spec["args"].push_back(word);
}

}  // namespace

Result<WorkerKill> parse_worker_kill(const std::string& text) {
  const auto at = text.find('@');
  const auto rank = parse_number<int>(std::string_view(text).substr(0, at), 0);
  const auto step = parse_number<std::int64_t>(at == text.npos ? "" : std::string_view(text).substr(at + 1), 0);
  if (!rank || !step) {
    return fail(ErrorCode::kInvalid,
                "--kill-worker \"" + text + "\": give a rank and a step, as in --kill-worker 2@100");
  }
  return WorkerKill{*rank, *step};
}

Status apply_setting(Json& job, const std::string& setting) {
  const auto equals = setting.find('=');
  if (equals == std::string::npos || (!setting.starts_with("spec.") && !setting.starts_with("metadata."))) {
    return fail(ErrorCode::kInvalid,
                "--set \"" + setting + "\": give a field and a value, as in --set spec.restart.maxRestarts=3");
  }
  Json* at = &job;
  std::string_view path = std::string_view(setting).substr(0, equals);
  while (!path.empty()) {
    const auto dot = path.find('.');
    const std::string name(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    if (at->is_array()) {
      const auto index = parse_number<size_t>(name);
      if (!index || *index >= at->size()) {
        return fail(ErrorCode::kInvalid, "--set \"" + setting + "\": the list has no element " + name);
      }
      at = &(*at)[*index];
    } else if (name.empty() || (!at->is_object() && !at->is_null())) {
      return fail(ErrorCode::kInvalid, "--set \"" + setting + "\": the field before \"" + name + "\" has no fields");
    } else {
      at = &(*at)[name];
    }
  }
  const std::string value = setting.substr(equals + 1);
  Json parsed = Json::parse(value, nullptr, false);
  *at = parsed.is_discarded() ? Json(value) : std::move(parsed);
  return {};
}

Status apply_run_options(Json& job, const RunOptions& options) {
  if (!job.is_object() || !job.contains("spec") || !job["spec"].is_object()) return {};  // validation reports it better
  for (const std::string& setting : options.settings) LOCKSTEP_CHECK_OK(apply_setting(job, setting));
  Json& spec = job["spec"];
  if (options.workers) spec["nodes"] = *options.workers;
  std::vector<std::string> added;
  if (!options.data.empty()) {
    std::error_code error;
    const std::string path = std::filesystem::absolute(options.data, error).lexically_normal();
    if (!replace_flag(spec, "data", path)) added.push_back("--data=" + path);
  }
  if (options.deterministic && !has_flag(spec, "deterministic")) added.push_back("--deterministic");
  for (const std::string& word : options.program_args) {
    const auto equals = word.find('=');
    const bool flag = word.starts_with("--") && equals != std::string::npos;
    if (!flag || !replace_flag(spec, word.substr(2, equals - 2), word.substr(equals + 1))) added.push_back(word);
  }
  if (!added.empty() && (!spec.contains("args") || spec["args"].is_null())) spec["args"] = Json::array();
  for (const std::string& word : added) {
    if (spec["args"].is_array()) spec["args"].push_back(word);
  }
  return {};
}

Result<std::string> ledger_of(Json& job, const std::string& folder) {
  Json& spec = job["spec"];
  if (const auto own = flag_of(spec, "ledger"); own && !own->empty()) return *own;
  if (!is_our_trainer(spec)) {
    return fail(ErrorCode::kInvalid,
                "--chaos needs a program that keeps a ledger: lockstep-trainer, or one with a --ledger=DIR of its own");
  }
  add_argument(spec, "--ledger=" + folder + "/ledger");
  return folder + "/ledger";
}

std::string gpu_note(const Json& job, bool machine_has_gpu) {
  const Json& spec = job["spec"];
  const int gpus = spec.value("gpusPerNode", 0);
  if (gpus == 0) return "";
  if (machine_has_gpu) {
    return fmt::format(
        "spec.gpusPerNode is {}: lockstep run assigns no GPUs, so each process sees all of this machine's", gpus);
  }
  if (is_our_trainer(spec) && needs_gpu(spec)) {
    return fmt::format(
        "spec.gpusPerNode is {}, and this machine has no GPU: its flags ask lockstep-trainer for one, so it ends; to "
        "compute on the CPU instead, append -- --backend=cpu --precision=fp32 --transport=auto",
        gpus);
  }
  return fmt::format("spec.gpusPerNode is {}, and this machine has no GPU: the processes run without one{}", gpus,
                     is_our_trainer(spec) ? "; lockstep-trainer computes on the CPU" : "");
}

Result<std::vector<std::string>> fit_to_machine(Json& job, const std::string& folder) {
  Json& spec = job["spec"];
  if (spec.value("suspend", false)) {
    return fail(ErrorCode::kInvalid,
                "spec.suspend is true, so the job would never start: remove it or add "
                "--set spec.suspend=false");
  }
  std::vector<std::string> dropped;
  const int gpus = spec.value("gpusPerNode", 0);
  if (gpus > 0 && spec.value("procsPerNode", 0) == 0) spec["procsPerNode"] = gpus;
  for (const char* field :
       {"resources", "podTemplate", "gpusPerNode", "shmSize", "imagePullSecrets", "placement", "scheduling"}) {
    if (!spec.contains(field)) continue;
    const Json& value = spec[field];
    if (!value.is_null() && !value.empty() && value != 0) dropped.push_back(std::string("spec.") + field);
    spec.erase(field);
  }
  // Our own trainer then writes every step, for the loss curve; other programs show the steps that they report.
  if (is_our_trainer(spec) && !has_flag(spec, "metrics-file")) {
    add_argument(spec, "--metrics-file=" + folder + "/metrics.jsonl");
  }
  if (spec.contains("checkpoint") && spec["checkpoint"].is_object()) {
    spec["checkpoint"]["path"] = folder + "/checkpoints";
    spec["checkpoint"].erase("claimName");
  }
  return dropped;
}

}  // namespace lockstep::cli
