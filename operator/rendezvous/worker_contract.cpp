#include "operator/rendezvous/worker_contract.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep::rendezvous {
namespace {

using nlohmann::json;

// One member per message; the key is its kind.
constexpr const char* kUp = "up";
constexpr const char* kProgress = "progress";
constexpr const char* kCheckpoint = "checkpoint";
constexpr const char* kFailure = "failure";
constexpr const char* kStop = "stop";

constexpr size_t kMaxText = 4096;  // of one string; keeps every line far below kMaxLinkLine

// Text as JSON can carry it: at most kMaxText bytes, bytes that are no UTF-8 replaced, never a newline of its own.
std::string line_of(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

std::string cut(const std::string& text) {
  return text.substr(0, kMaxText);
}

// JSON has no NaN and no infinity; a loss that became one is sent as null and comes back as NaN.
json number(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

Error bad(const char* what) {
  return fail(ErrorCode::kInvalid, std::string("a line of the worker link ") + what);
}

// Reads members of one JSON object; remembers whether all had their type.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}
  bool good() const { return good_; }

  std::int64_t integer(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) return 0;
    if (!found->is_number_integer()) return wrong(std::int64_t{0});
    if (found->is_number_unsigned() && found->get<std::uint64_t>() > std::uint64_t{INT64_MAX})
      return wrong(std::int64_t{0});
    return found->get<std::int64_t>();
  }
  double real(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) return 0;
    if (found->is_null()) return std::nan("");
    return found->is_number() ? found->get<double>() : wrong(0.0);
  }
  std::string text(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) return "";
    return found->is_string() ? cut(found->get_ref<const std::string&>()) : wrong(std::string());
  }

 private:
  template <typename T>
  T wrong(T value) {
    good_ = false;
    return value;
  }
  const json& object_;
  bool good_ = true;
};

// The object of exactly one message, with its kind.
Result<std::pair<std::string, json>> only_message(std::string_view line, std::initializer_list<const char*> kinds) {
  if (line.size() > kMaxLinkLine) return bad("is too long");
  json value = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return bad("is not a JSON object");
  std::string kind;
  for (const char* known : kinds) {
    if (!value.contains(known)) continue;
    if (!kind.empty()) return bad("holds two messages");
    kind = known;
  }
  if (kind.empty()) return bad("holds no message that is known");
  json body = std::move(value[kind]);
  if (!body.is_object()) return bad("holds a message that is not an object");
  return std::pair(kind, std::move(body));
}

}  // namespace

std::string encode(const WorkerMessage& message) {
  json value = json::object();
  if (message.up) value[kUp] = json::object();
  if (message.progress) {
    const Progress& progress = *message.progress;
    value[kProgress] = {{"step", progress.step},
                        {"totalSteps", progress.total_steps},
                        {"epoch", progress.epoch},
                        {"loss", number(progress.loss)},
                        {"samplesPerSecond", number(progress.samples_per_second)},
                        {"etaSeconds", number(progress.eta_seconds)}};
  }
  if (message.checkpoint) {
    const CheckpointReport& report = *message.checkpoint;
    value[kCheckpoint] = {{"name", cut(report.name)},
                          {"step", report.step},
                          {"generation", report.generation},
                          {"digest", cut(report.digest)}};
  }
  if (message.failure) {
    const FailureReport& failure = *message.failure;
    value[kFailure] = {{"class", failure.kind == FailureReport::Class::kOwn ? "own" : "communication"},
                       {"suspectRank", failure.suspect_rank},
                       {"message", cut(failure.message)}};
  }
  return line_of(value);
}

std::string encode(const AgentMessage&) {
  return line_of(json{{kStop, json::object()}});
}

Result<WorkerMessage> decode_worker_message(std::string_view line) {
  LOCKSTEP_TRY(const auto kind_and_body, only_message(line, {kUp, kProgress, kCheckpoint, kFailure}));
  const auto& [kind, body] = kind_and_body;
  Fields fields(body);
  WorkerMessage message;
  if (kind == kUp) {
    message.up = true;
  } else if (kind == kProgress) {
    message.progress = Progress{fields.integer("step"), fields.integer("totalSteps"),    fields.integer("epoch"),
                                fields.real("loss"),    fields.real("samplesPerSecond"), fields.real("etaSeconds")};
  } else if (kind == kCheckpoint) {
    message.checkpoint = CheckpointReport{fields.text("name"), fields.integer("step"), fields.integer("generation"),
                                          fields.text("digest")};
    if (message.checkpoint->name.empty() || message.checkpoint->name.find('/') != std::string::npos) {
      return bad("names a checkpoint that is no folder");
    }
  } else {
    const std::string cause = fields.text("class");
    if (cause != "own" && cause != "communication") return bad("holds a failure of an unknown class");
    const std::int64_t suspect = body.contains("suspectRank") ? fields.integer("suspectRank") : -1;
    if (suspect < -1 || suspect > INT32_MAX) return bad("suspects a rank that cannot be");
    message.failure = FailureReport{cause == "own" ? FailureReport::Class::kOwn : FailureReport::Class::kCommunication,
                                    static_cast<int>(suspect), fields.text("message")};
  }
  if (!fields.good()) return bad("holds a field of another type");
  return message;
}

Result<AgentMessage> decode_agent_message(std::string_view line) {
  LOCKSTEP_TRY(const auto kind_and_body, only_message(line, {kStop}));
  return AgentMessage{AgentMessage::Kind::kStop};
}

}  // namespace lockstep::rendezvous
