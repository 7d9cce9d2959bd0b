// What an agent says to the coordinator, to JSON and back.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/api/cause.h"
#include "operator/rendezvous/activity_codec.h"
#include "operator/rendezvous/message_fields.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {
namespace {

constexpr const char* kPhases[] = {"idle", "ready", "running", "exited", "warm"};
constexpr const char* kReasons[] = {"own", "ordered", "terminated"};

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

Json write(const std::vector<IdentityRun>& runs) {
  Json json = Json::array();
  for (const IdentityRun& run : runs) {
    if (json.size() < kMostIdentityRuns) {
      json.push_back({{"ranks", run.ranks}, {"line", clipped(run.line, kMaxMessage)}});
    } else {
      json.back()["ranks"] = json.back()["ranks"].get<int>() + run.ranks;
    }
  }
  return json;
}
std::vector<IdentityRun> read_identities(const Json* json) {
  std::vector<IdentityRun> runs;
  if (json == nullptr) return runs;
  if (!json->is_array() || json->size() > kMostIdentityRuns) throw Malformed("field identities must be a short array");
  for (const Json& item : *json) {
    const Fields fields(item);
    IdentityRun& run = runs.emplace_back();
    fields.read("ranks", run.ranks, 1, static_cast<std::int64_t>(kMaxRanksPerMember));
    fields.read("line", run.line, kMaxMessage);
  }
  return runs;
}

void put_problem(Json& json, api::Cause problem, const std::string& message) {
  if (problem == api::Cause::kNone) return;
  json["problem"] = api::name_of(problem);
  json["message"] = clipped(message, kMaxMessage);
}

// Any process of a pod can speak as its agent: a word that no agent may use becomes part of the message.
void read_problem(const Fields& fields, api::Cause& problem, std::string& message) {
  std::string word;
  fields.read("problem", word, kMaxWord);
  fields.read("message", message, kMaxMessage);
  if (word.empty()) return;
  problem = api::cause_of_agent(word);
  if (api::name_of(problem) != word) message = fmt::format("the agent says \"{}\": {}", word, message);
}

template <typename T>
void put_optional(Json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = write(*value);
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
          {"welcomed", m.welcomed},
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
  if (!m.identities.empty()) json["identities"] = write(m.identities);
  return json;
}
Json write(const Ready& m) {
  Json json{
      {"type", "READY"}, {"addresses", m.addresses}, {"host", m.host}, {"masterPort", m.master_port}, {"life", m.life}};
  put_generation_id(json, m.id);
  for (const StateVersion& version : m.holdings) json["holdings"].push_back(write_version(version));
  if (!m.identities.empty()) json["identities"] = write(m.identities);
  put_problem(json, m.problem, m.message);
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
  put_problem(json, m.problem, m.message);
  return json;
}
Json write(const Echoed& m) {
  return {{"type", "ECHOED"}, {"generation", m.generation}, {"problem", clipped(m.problem, kMaxMessage)}};
}
Json write(const Unknown&) {
  return {{"type", "UNKNOWN"}};
}

// What "ip:port" is made of; a name stands for an address in tests.
bool in_an_address(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view(".:[]%-_").find(c) != std::string_view::npos;
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
  fields.read("welcomed", m.welcomed, 0, kMostCount);
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
  m.identities = read_identities(fields.find("identities"));
  return m;
}
Ready read_ready(const Fields& fields) {
  Ready m;
  m.id = read_generation_id(fields);
  fields.read("addresses", m.addresses);
  if (m.addresses.size() > kMaxRanksPerMember) throw Malformed("field addresses must be shorter");
  for (const std::string& address : m.addresses) {
    if (address.size() > kMaxWord || !std::all_of(address.begin(), address.end(), in_an_address)) {
      throw Malformed("field addresses must be ip:port");
    }
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
  read_problem(fields, m.problem, m.message);
  m.identities = read_identities(fields.find("identities"));
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
  read_problem(fields, m.problem, m.message);
  return m;
}
}  // namespace

Result<std::string> encode_frame(const AgentToCoordinator& message) {
  const std::string text = text_of(std::visit([](const auto& m) { return write(m); }, message));
  LOCKSTEP_TRY(std::string length, encode_length(text.size()));
  return std::move(length) + text;
}

Result<AgentToCoordinator> decode_from_agent(std::string_view json) {
  return decode_message<AgentToCoordinator>(
      json, [](const std::string& type, const Fields& fields) -> AgentToCoordinator {
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
}  // namespace lockstep::rendezvous
