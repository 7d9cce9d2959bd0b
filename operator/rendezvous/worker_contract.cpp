#include "operator/rendezvous/worker_contract.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "operator/rendezvous/activity_codec.h"
#include "operator/rendezvous/limits.h"

namespace lockstep::rendezvous {
namespace {

using nlohmann::json;

// One member per message; the key is its kind.
constexpr const char* kUp = "up";
constexpr const char* kProgress = "progress";
constexpr const char* kCheckpoint = "checkpoint";
constexpr const char* kFailure = "failure";
constexpr const char* kBroken = "broken";
constexpr const char* kHolding = "holding";
constexpr const char* kActivity = "activity";
constexpr const char* kStop = "stop";
constexpr const char* kRegroup = "regroup";
constexpr const char* kJoin = "join";
constexpr const char* kYield = "yield";

// Bytes that are no UTF-8 are replaced, and there is never a newline of its own.
std::string line_of(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

std::string cut(const std::string& text) {
  return clipped(text, kMaxMessage);  // which keeps every line far below kMaxLinkLine
}

// JSON has no NaN and no infinity; a loss that became one is sent as null and comes back as NaN.
json number(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

Error bad(const std::string& what) {
  return fail(ErrorCode::kInvalid, "a line of the worker link " + what);
}

// Reads members of one JSON object; remembers the first that was of another type or out of range.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}
  Status good() const {
    if (wrong_.empty()) return {};
    return bad("holds the field \"" + wrong_ + "\" with a value that is of another type, or out of range");
  }

  std::int64_t integer(const char* name, std::int64_t least = 0, std::int64_t most = kMostCount) {
    const auto found = object_.find(name);
    if (found == object_.end()) return 0;
    const auto value = integer_within(*found, least, most);
    return value ? *value : wrong(name, std::int64_t{0});
  }
  double real(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) return 0;
    if (found->is_null()) return std::nan("");
    return found->is_number() ? found->get<double>() : wrong(name, 0.0);
  }
  std::string text(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) return "";
    return found->is_string() ? cut(found->get_ref<const std::string&>()) : wrong(name, std::string());
  }
  bool flag(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) return false;
    return found->is_boolean() ? found->get<bool>() : wrong(name, false);
  }
  int rank(const char* name) { return object_.contains(name) ? static_cast<int>(integer(name, -1, kMostRanks)) : -1; }
  std::int64_t milliseconds(const char* name) {  // -1: not known
    return object_.contains(name) ? integer(name, -1) : -1;
  }
  StateVersion version() {
    StateVersion found{integer("stateGeneration"), integer("step"), text("digest")};
    return found.digest.size() <= 16 ? found : wrong("digest", StateVersion());
  }
  std::vector<std::string> texts(const char* name) {
    std::vector<std::string> values;
    const auto found = object_.find(name);
    if (found == object_.end()) return values;
    if (!found->is_array()) return wrong(name, values);
    for (const json& item : *found) {
      if (!item.is_string()) return wrong(name, values);
      values.push_back(cut(item.get_ref<const std::string&>()));
    }
    return values;
  }
  std::vector<int> ranks(const char* name) {
    std::vector<int> values;
    const auto found = object_.find(name);
    if (found == object_.end()) return values;
    if (!found->is_array()) return wrong(name, values);
    for (const json& item : *found) {
      const auto value = integer_within(item, 0, kMostRanks);
      if (!value) return wrong(name, values);
      values.push_back(static_cast<int>(*value));
    }
    return values;
  }

 private:
  template <typename T>
  T wrong(const char* name, T value) {
    if (wrong_.empty()) wrong_ = name;
    return value;
  }
  const json& object_;
  std::string wrong_;
};

// The object of exactly one message, with its kind.
Result<std::pair<std::string, json>> only_message(std::string_view line, size_t most,
                                                  std::initializer_list<const char*> kinds) {
  if (line.size() > most) return bad("is too long");
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

json with_version(json body, const StateVersion& version) {
  body["stateGeneration"] = version.generation;
  body["step"] = version.step;
  body["digest"] = cut(version.digest);
  return body;
}

}  // namespace

std::string identity_line(const std::map<std::string, std::string>& fields) {
  std::string line;
  for (const auto& [name, value] : fields) {
    if (!line.empty()) line += ' ';
    line += name + '=';
    std::replace_copy(value.begin(), value.end(), std::back_inserter(line), ' ', '_');
  }
  return line;
}

std::string encode(const WorkerMessage& message) {
  json value = json::object();
  if (message.up) {
    value[kUp] = {{"regroups", message.regroups},
                  {"initMilliseconds", message.entry.init_ms},
                  {"transferMilliseconds", message.entry.transfer_ms}};
  }
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
  if (message.broken) {
    value[kBroken] = {{"generation", message.broken->generation},
                      {"suspectRank", message.broken->suspect_rank},
                      {"message", cut(message.broken->message)},
                      {"yielded", message.broken->yielded},
                      {"stepped", message.broken->stepped}};
  }
  if (message.holding) {
    const Holding& holding = *message.holding;
    value[kHolding] = with_version({{"term", holding.term}, {"generation", holding.generation}}, holding.version);
  }
  // An agent that knows no identity reads the rest of the message.
  if (message.activity || message.identity) {
    value[kActivity] = {{"now", write_activity(message.activity.value_or(Activity()))}};
    if (message.identity) value[kActivity]["identity"] = cut(*message.identity);
  }
  return line_of(value);
}

std::string encode(const AgentMessage& message) {
  switch (message.kind) {
    case AgentMessage::Kind::kStop:
      return line_of(json{{kStop, json::object()}});
    case AgentMessage::Kind::kRegroup:
      return line_of(json{{kRegroup, {{"term", message.regroup.term}, {"generation", message.regroup.generation}}}});
    case AgentMessage::Kind::kYield:
      return line_of(json{{kYield, {{"generation", message.yields}}}});
    case AgentMessage::Kind::kJoin:
      break;
  }
  const Join& join = message.join;
  const json body = with_version({{"term", join.term},
                                  {"generation", join.generation},
                                  {"rank", join.rank},
                                  {"worldSize", join.world_size},
                                  {"peers", join.peers},
                                  {"members", join.member_of_rank},
                                  {"key", join.key},
                                  {"sourceRank", join.source.rank},
                                  {"send", join.source.send},
                                  {"restore", cut(join.restore)}},
                                 join.source.version);
  return line_of(json{{kJoin, body}});
}

Result<WorkerMessage> decode_worker_message(std::string_view line) {
  LOCKSTEP_TRY(const auto kind_and_body,
               only_message(line, kMaxLinkLine, {kUp, kProgress, kCheckpoint, kFailure, kBroken, kHolding, kActivity}));
  const auto& [kind, body] = kind_and_body;
  Fields fields(body);
  WorkerMessage message;
  if (kind == kUp) {
    message.up = true;
    message.regroups = fields.flag("regroups");
    message.entry = {fields.milliseconds("initMilliseconds"), fields.milliseconds("transferMilliseconds")};
  } else if (kind == kProgress) {
    message.progress = Progress{.step = fields.integer("step"),
                                .total_steps = fields.integer("totalSteps"),
                                .epoch = fields.integer("epoch"),
                                .loss = fields.real("loss"),
                                .samples_per_second = fields.real("samplesPerSecond"),
                                .eta_seconds = fields.real("etaSeconds")};
  } else if (kind == kCheckpoint) {
    message.checkpoint = CheckpointReport{fields.text("name"), fields.integer("step"), fields.integer("generation"),
                                          clipped(fields.text("digest"), kMaxName)};
    const std::string& name = message.checkpoint->name;
    if (name.empty() || name.size() > kMaxName || name.find('/') != std::string::npos) {
      return bad("names a checkpoint that is no folder of at most " + std::to_string(kMaxName) + " bytes");
    }
  } else if (kind == kBroken) {
    message.broken = BrokenReport{fields.integer("generation"), fields.rank("suspectRank"), fields.text("message"),
                                  fields.flag("yielded"), fields.flag("stepped")};
  } else if (kind == kActivity) {
    const auto now = body.find("now");
    if (now == body.end()) return bad("holds no activity");
    LOCKSTEP_TRY(message.activity, read_activity(*now));
    if (body.contains("identity")) message.identity = fields.text("identity");
  } else if (kind == kHolding) {
    message.holding = Holding{fields.integer("term"), fields.integer("generation"), fields.version()};
  } else {
    const std::string cause = fields.text("class");
    if (cause != "own" && cause != "communication") return bad("holds a failure of an unknown class");
    message.failure = FailureReport{cause == "own" ? FailureReport::Class::kOwn : FailureReport::Class::kCommunication,
                                    fields.rank("suspectRank"), fields.text("message")};
  }
  LOCKSTEP_CHECK_OK(fields.good());
  return message;
}

Result<AgentMessage> decode_agent_message(std::string_view line) {
  LOCKSTEP_TRY(const auto kind_and_body, only_message(line, kMaxAgentLine, {kStop, kRegroup, kJoin, kYield}));
  const auto& [kind, body] = kind_and_body;
  Fields fields(body);
  AgentMessage message;
  if (kind == kRegroup) {
    message.kind = AgentMessage::Kind::kRegroup;
    message.regroup = {fields.integer("term"), fields.integer("generation")};
  } else if (kind == kYield) {
    message.kind = AgentMessage::Kind::kYield;
    message.yields = fields.integer("generation");
  } else if (kind == kJoin) {
    message.kind = AgentMessage::Kind::kJoin;
    Join& join = message.join;
    join.term = fields.integer("term");
    join.generation = fields.integer("generation");
    join.rank = fields.rank("rank");
    join.world_size = fields.rank("worldSize");
    join.peers = fields.texts("peers");
    join.member_of_rank = fields.ranks("members");
    join.key = fields.text("key");
    join.source = {fields.rank("sourceRank"), fields.version(), fields.flag("send")};
    join.restore = fields.text("restore");
    if (join.rank < 0 || join.rank >= join.world_size) return bad("asks for a rank that the world does not have");
    if (join.peers.size() != static_cast<size_t>(join.world_size)) return bad("lists another number of peers");
    if (join.source.rank >= join.world_size) return bad("names a source that the world does not have");
  }
  LOCKSTEP_CHECK_OK(fields.good());
  return message;
}

}  // namespace lockstep::rendezvous
