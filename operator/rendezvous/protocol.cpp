#include "operator/rendezvous/protocol.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "operator/rendezvous/activity_codec.h"
#include "operator/rendezvous/limits.h"

namespace lockstep::rendezvous {
namespace {

using Json = nlohmann::json;

// Thrown inside this file for a field that is missing or wrong; its what() goes into the kInvalid.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Reads typed fields out of one JSON object. A field that is absent keeps its default.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {
    if (!object.is_object()) throw Malformed("a message must be an object");
  }

  void read(const char* name, bool& value) const {
    if (const Json* field = find(name)) {
      if (!field->is_boolean()) throw wrong(name, "a boolean");
      value = field->get<bool>();
    }
  }
  void read(const char* name, double& value) const {
    if (const Json* field = find(name)) {
      if (!field->is_number()) throw wrong(name, "a number");
      value = field->get<double>();
    }
  }
  void read(const char* name, std::string& value, std::size_t most = kMaxFrame) const {
    if (const Json* field = find(name)) {
      if (!field->is_string()) throw wrong(name, "a string");
      value = field->get<std::string>();
      if (value.size() > most) throw wrong(name, "shorter");
    }
  }
  template <typename Integer>
  void read(const char* name, Integer& value, std::int64_t least, std::int64_t most) const {
    if (const Json* field = find(name)) value = static_cast<Integer>(integer(name, *field, least, most));
  }
  void read(const char* name, std::vector<std::string>& values) const {
    if (const Json* field = find(name)) {
      if (!field->is_array()) throw wrong(name, "an array");
      for (const Json& item : *field) {
        if (!item.is_string()) throw wrong(name, "an array of strings");
        values.push_back(item.get<std::string>());
      }
    }
  }
  void read(const char* name, std::vector<int>& values) const {
    if (const Json* field = find(name)) {
      if (!field->is_array()) throw wrong(name, "an array");
      for (const Json& item : *field) values.push_back(static_cast<int>(integer(name, item, 0, kMostRanks)));
    }
  }
  void read(const char* name, std::map<std::string, std::string>& values) const {
    if (const Json* field = find(name)) {
      if (!field->is_object()) throw wrong(name, "an object");
      for (const auto& [key, item] : field->items()) {
        if (!item.is_string()) throw wrong(name, "an object of strings");
        values[key] = item.get<std::string>();
      }
    }
  }
  // Null when absent.
  const Json* find(const char* name) const {
    const auto at = object_.find(name);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }

 private:
  static Malformed wrong(const char* name, const char* what) {
    return Malformed(fmt::format("field {} must be {}", name, what));
  }
  static std::int64_t integer(const char* name, const Json& field, std::int64_t least, std::int64_t most) {
    if (!field.is_number_integer()) throw wrong(name, "an integer");
    const auto value = integer_within(field, least, most);
    if (!value) throw wrong(name, "in range");
    return *value;
  }

  const Json& object_;
};

constexpr const char* kPhases[] = {"idle", "ready", "running", "exited", "warm"};
constexpr const char* kReasons[] = {"own", "ordered", "terminated"};
constexpr const char* kKinds[] = {"Lockstep", "Torch", "None"};

template <typename Enum, std::size_t N>
void read_enum(const Fields& fields, const char* name, const char* const (&names)[N], Enum& value) {
  std::string text;
  fields.read(name, text);
  if (text.empty()) return;
  for (std::size_t i = 0; i < N; ++i) {
    if (text == names[i]) {
      value = static_cast<Enum>(i);
      return;
    }
  }
  throw Malformed(fmt::format("field {} has an unknown value", name));
}

Json write(const Progress& p) {
  return {{"step", p.step}, {"total", p.total_steps},       {"epoch", p.epoch},
          {"loss", p.loss}, {"rate", p.samples_per_second}, {"eta", p.eta_seconds}};
}
Json write(const CheckpointReport& c) {
  return {{"name", c.name}, {"step", c.step}, {"generation", c.generation}, {"digest", c.digest}};
}
Json write(const FailureReport& f) {
  return {{"kind", f.kind == FailureReport::Class::kOwn ? "own" : "communication"},
          {"suspect", f.suspect_rank},
          {"message", clipped(f.message, kMaxMessage)}};
}

std::optional<Progress> read_progress(const Json* json) {
  if (json == nullptr) return std::nullopt;
  const Fields fields(*json);
  Progress p;
  fields.read("step", p.step, 0, kMostCount);
  fields.read("total", p.total_steps, 0, kMostCount);
  fields.read("epoch", p.epoch, 0, kMostCount);
  fields.read("loss", p.loss);
  fields.read("rate", p.samples_per_second);
  fields.read("eta", p.eta_seconds);
  return p;
}
std::optional<CheckpointReport> read_checkpoint(const Json* json) {
  if (json == nullptr) return std::nullopt;
  const Fields fields(*json);
  CheckpointReport c;
  fields.read("name", c.name, kMaxName);
  fields.read("step", c.step, 0, kMostCount);
  fields.read("generation", c.generation, 0, kMostCount);
  fields.read("digest", c.digest, kMaxName);
  return c;
}
std::optional<FailureReport> read_failure(const Json* json) {
  if (json == nullptr) return std::nullopt;
  const Fields fields(*json);
  FailureReport f;
  constexpr const char* kClasses[] = {"own", "communication"};
  read_enum(fields, "kind", kClasses, f.kind);
  fields.read("suspect", f.suspect_rank, -1, kMostRanks);
  fields.read("message", f.message, kMaxMessage);
  return f;
}

void put_epoch(Json& json, const Epoch& epoch) {
  json["term"] = epoch.term;
  json["generation"] = epoch.generation;
}
Epoch read_epoch(const Fields& fields) {
  Epoch epoch;
  fields.read("term", epoch.term, 0, kMostCount);
  fields.read("generation", epoch.generation, 0, kMostCount);
  return epoch;
}

template <typename T>
void put_optional(Json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = write(*value);
}

Json write(const StateVersion& v) {
  return {{"generation", v.generation}, {"step", v.step}, {"digest", v.digest}};
}
StateVersion read_version(const Json& json) {
  const Fields fields(json);
  StateVersion v;
  fields.read("generation", v.generation, 0, kMostCount);
  fields.read("step", v.step, 0, kMostCount);
  fields.read("digest", v.digest, kMaxWord);
  return v;
}
Json write(const StateSource& s) {
  return {{"rank", s.rank}, {"version", write(s.version)}, {"send", s.send}};
}
StateSource read_source(const Json* json) {
  StateSource s;
  if (json == nullptr) return s;
  const Fields fields(*json);
  fields.read("rank", s.rank, -1, kMostRanks);
  if (const Json* version = fields.find("version")) s.version = read_version(*version);
  fields.read("send", s.send);
  return s;
}

Json write(const Hello& m) {
  return {{"type", "HELLO"},
          {"protocol", m.protocol},
          {"namespace", m.name_space},
          {"pod", m.pod_name},
          {"uid", m.pod_uid},
          {"slot", m.slot},
          {"incarnation", m.incarnation},
          {"token", m.token},
          {"session", m.session},
          {"phase", kPhases[static_cast<int>(m.phase)]},
          {"generation", m.generation},
          {"up", m.up},
          {"regroups", m.regroups},
          {"promisedTerm", m.promised.term},
          {"promised", m.promised.generation},
          {"life", m.life}};
}
Json write(const Heartbeat& m) {
  Json json{{"type", "HEARTBEAT"},
            {"sequence", m.sequence},
            {"phase", kPhases[static_cast<int>(m.phase)]},
            {"generation", m.generation},
            {"up", m.up},
            {"regroups", m.regroups}};
  put_optional(json, "progress", m.progress);
  put_optional(json, "checkpoint", m.newest_checkpoint);
  if (!m.ranks.empty()) json["ranks"] = write_ranks(m.ranks);
  return json;
}
Json write(const Ready& m) {
  Json json{
      {"type", "READY"}, {"addresses", m.addresses}, {"host", m.host}, {"masterPort", m.master_port}, {"life", m.life}};
  put_epoch(json, m.epoch);
  for (const StateVersion& version : m.holdings) json["holdings"].push_back(write(version));
  if (!m.problem.empty()) json["problem"] = m.problem, json["message"] = clipped(m.message, kMaxMessage);
  return json;
}
Json write(const Up& m) {
  return {{"type", "UP"},
          {"generation", m.generation},
          {"regroups", m.regroups},
          {"initMilliseconds", m.entry.init_ms},
          {"transferMilliseconds", m.entry.transfer_ms}};
}
Json write(const Broken& m) {
  return {{"type", "BROKEN"},
          {"rank", m.rank},
          {"generation", m.report.generation},
          {"suspect", m.report.suspect_rank},
          {"message", clipped(m.report.message, kMaxMessage)},
          {"yielded", m.report.yielded},
          {"stepped", m.report.stepped}};
}
Json write(const Exit& m) {
  Json json{{"type", "EXIT"},          {"generation", m.generation},
            {"rank", m.rank},          {"code", m.code},
            {"signal", m.signal},      {"endMs", m.end_ms},
            {"stderr", m.stderr_tail}, {"reason", kReasons[static_cast<int>(m.reason)]}};
  put_optional(json, "report", m.report);
  if (!m.problem.empty()) json["problem"] = m.problem, json["message"] = clipped(m.message, kMaxMessage);
  return json;
}
Json write(const Welcome& m) {
  return {{"type", "WELCOME"}, {"term", m.term}};
}
Json write(const Refused& m) {
  return {{"type", "REFUSED"}, {"message", m.message}, {"final", m.final}};
}
Json write(const Propose& m) {
  Json json{{"type", "PROPOSE"},
            {"firstRank", m.first_rank},
            {"ranks", m.ranks},
            {"worldSize", m.world_size},
            {"port", m.port}};
  put_epoch(json, m.epoch);
  return json;
}
Json write(const Go& m) {
  Json json{{"type", "GO"},
            {"job", m.job},
            {"jobUid", m.job_uid},
            {"kind", kKinds[static_cast<int>(m.kind)]},
            {"firstRank", m.first_rank},
            {"ranks", m.ranks},
            {"worldSize", m.world_size},
            {"groupRank", m.group_rank},
            {"groupWorldSize", m.group_world_size},
            {"peers", m.peers},
            {"members", m.member_of_rank},
            {"masterAddr", m.master_addr},
            {"masterPort", m.master_port},
            {"key", m.key},
            {"source", write(m.source)},
            {"restore", m.restore},
            {"checkpointPath", m.checkpoint_path},
            {"checkpointEvery", m.checkpoint_every_seconds},
            {"maxRestarts", m.max_restarts},
            {"env", m.env}};
  put_epoch(json, m.epoch);
  return json;
}
Json write(const Warm& m) {
  Json json = write(m.go);
  json["type"] = "WARM";
  return json;
}
Json write(const Echo& m) {
  return {{"type", "ECHO"}, {"generation", m.generation}, {"addresses", m.addresses}};
}
Json write(const Echoed& m) {
  return {{"type", "ECHOED"}, {"generation", m.generation}, {"problem", clipped(m.problem, kMaxMessage)}};
}
Json write(const Ack& m) {
  return {{"type", "ACK"}, {"generation", m.generation}, {"rank", m.rank}};
}
Json write(const Halt& m) {
  Json json{{"type", "HALT"}};
  put_epoch(json, m.epoch);
  return json;
}
Json write(const Yield& m) {
  Json json{{"type", "YIELD"}};
  put_epoch(json, m.epoch);
  return json;
}
Json write(const Abort& m) {
  return {
      {"type", "ABORT"}, {"generation", m.generation}, {"rank", m.rank}, {"message", clipped(m.message, kMaxMessage)}};
}
Json write(const Stop& m) {
  return {{"type", "STOP"}, {"grace", m.grace_seconds}, {"exitCode", m.exit_code}};
}
Json write(const Done&) {
  return {{"type", "DONE"}};
}
Json write(const Unknown&) {
  return {{"type", "UNKNOWN"}};
}

Hello read_hello(const Fields& fields) {
  Hello m;
  fields.read("protocol", m.protocol, 1, 1000);
  fields.read("namespace", m.name_space, kMaxName);
  fields.read("pod", m.pod_name, kMaxName);
  fields.read("uid", m.pod_uid, kMaxName);
  fields.read("slot", m.slot, 0, kMostRanks);
  fields.read("incarnation", m.incarnation, 0, kMostCount);
  fields.read("token", m.token, 16 * 1024);
  fields.read("session", m.session, kMaxName);
  read_enum(fields, "phase", kPhases, m.phase);
  fields.read("generation", m.generation, 0, kMostCount);
  fields.read("up", m.up);
  fields.read("regroups", m.regroups);
  fields.read("promisedTerm", m.promised.term, 0, kMostCount);
  fields.read("promised", m.promised.generation, 0, kMostCount);
  fields.read("life", m.life, 0, kMostCount);
  return m;
}
Heartbeat read_heartbeat(const Fields& fields) {
  Heartbeat m;
  fields.read("sequence", m.sequence, 0, kMostCount);
  read_enum(fields, "phase", kPhases, m.phase);
  fields.read("generation", m.generation, 0, kMostCount);
  fields.read("up", m.up);
  fields.read("regroups", m.regroups);
  m.progress = read_progress(fields.find("progress"));
  m.newest_checkpoint = read_checkpoint(fields.find("checkpoint"));
  if (const Json* ranks = fields.find("ranks")) {
    auto read = read_ranks(*ranks, kMaxRanksPerMember);
    if (!read) throw Malformed(read.error().message);
    m.ranks = std::move(*read);
  }
  return m;
}
Ready read_ready(const Fields& fields) {
  Ready m;
  m.epoch = read_epoch(fields);
  fields.read("addresses", m.addresses);
  if (m.addresses.size() > kMaxRanksPerMember) throw Malformed("field addresses must be shorter");
  for (const std::string& address : m.addresses) {
    if (address.size() > 64 || address.find(',') != std::string::npos)
      throw Malformed("field addresses must be ip:port");
  }
  if (const Json* holdings = fields.find("holdings")) {
    if (!holdings->is_array() || holdings->size() != m.addresses.size()) {
      throw Malformed("field holdings must have an entry for each address");
    }
    for (const Json& version : *holdings) m.holdings.push_back(read_version(version));
  }
  fields.read("host", m.host, kMaxWord);
  fields.read("masterPort", m.master_port, 0, 65535);
  fields.read("life", m.life, 0, kMostCount);
  fields.read("problem", m.problem, kMaxWord);
  fields.read("message", m.message, kMaxMessage);
  return m;
}
Broken read_broken(const Fields& fields) {
  Broken m;
  fields.read("rank", m.rank, 0, kMostRanks);
  fields.read("generation", m.report.generation, 0, kMostCount);
  fields.read("suspect", m.report.suspect_rank, -1, kMostRanks);
  fields.read("message", m.report.message, kMaxMessage);
  fields.read("yielded", m.report.yielded);
  fields.read("stepped", m.report.stepped);
  return m;
}
Exit read_exit(const Fields& fields) {
  Exit m;
  fields.read("generation", m.generation, 0, kMostCount);
  fields.read("rank", m.rank, 0, kMostRanks);
  fields.read("code", m.code, 0, 255);
  fields.read("signal", m.signal, 0, 127);
  fields.read("endMs", m.end_ms, 0, kMostCount / 1'000'000);
  read_enum(fields, "reason", kReasons, m.reason);
  m.report = read_failure(fields.find("report"));
  fields.read("stderr", m.stderr_tail, 4 * kMaxStderrTail);  // replacement characters may make it longer
  fields.read("problem", m.problem, kMaxWord);
  fields.read("message", m.message, kMaxMessage);
  return m;
}
Propose read_propose(const Fields& fields) {
  Propose m;
  m.epoch = read_epoch(fields);
  fields.read("firstRank", m.first_rank, 0, kMostRanks);
  fields.read("ranks", m.ranks, 1, static_cast<std::int64_t>(kMaxRanksPerMember));
  fields.read("worldSize", m.world_size, 1, kMostRanks);
  fields.read("port", m.port, 0, 65535);
  return m;
}
Go read_go(const Fields& fields) {
  Go m;
  m.epoch = read_epoch(fields);
  fields.read("job", m.job);
  fields.read("jobUid", m.job_uid);
  read_enum(fields, "kind", kKinds, m.kind);
  fields.read("firstRank", m.first_rank, 0, kMostRanks);
  fields.read("ranks", m.ranks, 1, static_cast<std::int64_t>(kMaxRanksPerMember));
  fields.read("worldSize", m.world_size, 1, kMostRanks);
  fields.read("groupRank", m.group_rank, 0, kMostRanks);
  fields.read("groupWorldSize", m.group_world_size, 1, kMostRanks);
  fields.read("peers", m.peers);
  fields.read("members", m.member_of_rank);
  fields.read("masterAddr", m.master_addr);
  fields.read("masterPort", m.master_port, 0, 65535);
  fields.read("key", m.key);
  m.source = read_source(fields.find("source"));
  fields.read("restore", m.restore);
  fields.read("checkpointPath", m.checkpoint_path);
  fields.read("checkpointEvery", m.checkpoint_every_seconds, 0, kMostRanks * 1000);
  fields.read("maxRestarts", m.max_restarts, 0, kMostRanks * 1000);
  fields.read("env", m.env);
  return m;
}

Abort read_abort(const Fields& fields) {
  Abort m;
  fields.read("generation", m.generation, 0, kMostCount);
  fields.read("rank", m.rank, 0, kMostRanks);
  fields.read("message", m.message, kMaxMessage);
  return m;
}

template <typename Message>
Result<std::string> encode(const Message& message) {
  const Json json = std::visit([](const auto& m) { return write(m); }, message);
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMaxFrame) {
    return fail(ErrorCode::kExhausted,
                fmt::format("a message of {} bytes is over the limit of {} of a frame", text.size(), kMaxFrame));
  }
  std::string frame(4, '\0');
  for (int i = 0; i < 4; ++i)
    frame[static_cast<std::size_t>(i)] = static_cast<char>((text.size() >> (24 - 8 * i)) & 0xff);
  return frame + text;
}

template <typename Message, typename Read>
Result<Message> decode(std::string_view text, Read read) {
  try {
    const Json json = Json::parse(text);
    const Fields fields(json);
    std::string type;
    fields.read("type", type);
    if (type.empty()) throw Malformed("a message must have a type");
    return read(type, fields);
  } catch (const Malformed& error) {
    return fail(ErrorCode::kInvalid, error.what());
  } catch (const Json::exception&) {
    return fail(ErrorCode::kInvalid, "a frame does not hold JSON");
  }
}

}  // namespace

Result<std::string> encode_frame(const AgentToCoordinator& message) {
  return encode(message);
}
Result<std::string> encode_frame(const CoordinatorToAgent& message) {
  return encode(message);
}

Result<AgentToCoordinator> decode_from_agent(std::string_view json) {
  return decode<AgentToCoordinator>(json, [](const std::string& type, const Fields& fields) -> AgentToCoordinator {
    if (type == "HEARTBEAT") return read_heartbeat(fields);
    if (type == "HELLO") return read_hello(fields);
    if (type == "READY") return read_ready(fields);
    if (type == "EXIT") return read_exit(fields);
    if (type == "BROKEN") return read_broken(fields);
    if (type == "ECHOED") {
      Echoed m;
      fields.read("generation", m.generation, 0, kMostCount);
      fields.read("problem", m.problem, kMaxMessage);
      return m;
    }
    if (type == "UP") {
      Up m;
      fields.read("generation", m.generation, 0, kMostCount);
      fields.read("regroups", m.regroups);
      fields.read("initMilliseconds", m.entry.init_ms, -1, kMostCount);
      fields.read("transferMilliseconds", m.entry.transfer_ms, -1, kMostCount);
      return m;
    }
    return Unknown{};
  });
}

Result<CoordinatorToAgent> decode_from_coordinator(std::string_view json) {
  return decode<CoordinatorToAgent>(json, [](const std::string& type, const Fields& fields) -> CoordinatorToAgent {
    if (type == "WELCOME") {
      Welcome m;
      fields.read("term", m.term, 0, kMostCount);
      return m;
    }
    if (type == "REFUSED") {
      Refused m;
      fields.read("message", m.message);
      fields.read("final", m.final);
      return m;
    }
    if (type == "PROPOSE") return read_propose(fields);
    if (type == "GO") return read_go(fields);
    if (type == "WARM") {
      Warm m{read_go(fields)};
      if (m.go.epoch.generation != 0) throw Malformed("field generation of a WARM must be 0");
      return m;
    }
    if (type == "ECHO") {
      Echo m;
      fields.read("generation", m.generation, 0, kMostCount);
      fields.read("addresses", m.addresses);
      return m;
    }
    if (type == "ACK") {
      Ack m;
      fields.read("generation", m.generation, 0, kMostCount);
      fields.read("rank", m.rank, 0, kMostRanks);
      return m;
    }
    if (type == "HALT") return Halt{read_epoch(fields)};
    if (type == "YIELD") return Yield{read_epoch(fields)};
    if (type == "ABORT") return read_abort(fields);
    if (type == "STOP") {
      Stop m;
      fields.read("grace", m.grace_seconds, 0, 7 * 24 * 3600);
      fields.read("exitCode", m.exit_code, 0, 255);
      return m;
    }
    if (type == "DONE") return Done{};
    return Unknown{};
  });
}

Result<std::size_t> decode_length(std::string_view four_bytes, std::size_t most) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(four_bytes[i]);
  if (length == 0 || length > most) {
    return fail(ErrorCode::kInvalid, fmt::format("a frame of {} bytes; 1 to {} are allowed", length, most));
  }
  return length;
}

Result<std::optional<std::string>> FrameReader::next() {
  if (buffer_.size() < 4) return std::optional<std::string>();
  LOCKSTEP_TRY(const std::size_t length, decode_length(buffer_, most_));
  if (buffer_.size() < 4 + length) return std::optional<std::string>();
  std::optional<std::string> frame = buffer_.substr(4, length);
  buffer_.erase(0, 4 + length);
  return frame;
}

}  // namespace lockstep::rendezvous
