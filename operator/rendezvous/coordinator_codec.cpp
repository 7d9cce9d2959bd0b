// What the coordinator says to an agent, to JSON and back. Protocol 2 sends the peers of a generation once on each
// connection, in PEERS frames ahead of the first message that names them; protocol 1 lists them in each message.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/rendezvous/message_fields.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {
namespace {

constexpr const char* kKinds[] = {"Lockstep", "Torch", "None"};

Json write(const StateSource& s) {
  return {{"rank", s.rank}, {"version", write_version(s.version)}, {"send", s.send}};
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

Json write(const Welcome& m) {
  return {{"type", "WELCOME"}, {"term", m.term}, {"heartbeatMilliseconds", m.heartbeat_ms}};
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
  put_generation_id(json, m.id);
  return json;
}
// Without the peers.
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
            {"masterAddr", m.master_addr},
            {"masterPort", m.master_port},
            {"key", m.key},
            {"source", write(m.source)},
            {"restore", m.restore},
            {"checkpointPath", m.program.checkpoint_path},
            {"checkpointEvery", m.program.checkpoint_every_seconds},
            {"maxRestarts", m.program.max_restarts},
            {"env", m.program.env}};
  put_generation_id(json, m.id);
  return json;
}
Json write(const Warm& m) {
  Json json = write(m.go);
  json["type"] = "WARM";
  if (m.first) json["first"] = true;
  return json;
}
// Without the addresses.
Json write(const Echo& m) {
  return {{"type", "ECHO"}, {"generation", m.generation}};
}
Json write(const Ack& m) {
  return {{"type", "ACK"}, {"generation", m.generation}, {"rank", m.rank}};
}
Json write(const Halt& m) {
  Json json{{"type", "HALT"}};
  put_generation_id(json, m.id);
  return json;
}
Json write(const Yield& m) {
  Json json{{"type", "YIELD"}};
  put_generation_id(json, m.id);
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

Propose read_propose(const Fields& fields) {
  Propose m;
  m.id = read_generation_id(fields);
  fields.read("firstRank", m.first_rank, 0, kMostRanks);
  fields.read("ranks", m.ranks, 1, static_cast<std::int64_t>(kMaxRanksPerMember));
  fields.read("worldSize", m.world_size, 1, kMostRanks);
  fields.read("port", m.port, 0, 65535);
  return m;
}
// One member of a PEERS frame: [slot, incarnation, "address,address"].
PeerBlock::Member read_peer(const Json& json) {
  const auto number = [](const Json& value, std::int64_t most) {
    const auto within = integer_within(value, 0, most);
    if (!within) throw Malformed("field members must hold slots and incarnations");
    return *within;
  };
  if (!json.is_array() || json.size() != 3 || !json[2].is_string()) {
    throw Malformed("field members must be [slot, incarnation, addresses]");
  }
  PeerBlock::Member member;
  member.slot = static_cast<int>(number(json[0], kMostRanks));
  member.incarnation = number(json[1], kMostCount);
  std::string_view text = json[2].get_ref<const std::string&>();
  while (true) {
    const std::size_t comma = text.find(',');
    member.addresses.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return member;
    text.remove_prefix(comma + 1);
  }
}

void read_part(const Fields& fields, PeerParts& parts) {
  std::string digest;
  int part = 0;
  int count = 1;
  fields.read("digest", digest, kMaxWord);
  fields.read("part", part, 0, kMostRanks);
  fields.read("parts", count, 1, kMostRanks);
  std::vector<PeerBlock::Member> members;
  if (const Json* list = fields.find("members")) {
    if (!list->is_array()) throw Malformed("field members must be an array");
    for (const Json& member : *list) members.push_back(read_peer(member));
  }
  if (const Status added = parts.add(digest, part, count, std::move(members)); !added) {
    throw Malformed(added.error().message);
  }
}

// The block that a message names.
Peers read_block(const Fields& fields, const PeerParts& parts) {
  std::string digest;
  fields.read("block", digest, kMaxWord);
  if (digest.empty()) return {};
  Peers peers = parts.find(digest);
  if (!peers) throw Malformed("field block must name the peers that were sent last");
  return peers;
}

// `addresses` as a block; `slots` says for each of them whose it is.
Peers block_of(std::vector<std::string> addresses, const std::vector<int>& slots) {
  if (addresses.size() != slots.size()) throw Malformed("field members must have an entry for each of the peers");
  if (addresses.empty()) return {};
  std::vector<PeerBlock::Member> members;
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    if (rank == 0 || slots[rank] != slots[rank - 1]) members.push_back({slots[rank], 0, {}});
    members.back().addresses.push_back(std::move(addresses[rank]));
  }
  return Peers(std::move(members));
}

// In the form of either protocol.
Peers read_peers(const Fields& fields, const PeerParts& parts) {
  if (Peers block = read_block(fields, parts)) return block;
  std::vector<std::string> addresses;
  std::vector<int> slots;
  fields.read("peers", addresses);
  fields.read("members", slots);
  return block_of(std::move(addresses), slots);
}

Echo read_echo(const Fields& fields, const PeerParts& parts) {
  Echo m;
  fields.read("generation", m.generation, 0, kMostCount);
  m.peers = read_block(fields, parts);
  if (m.peers) return m;
  std::vector<std::string> addresses;
  fields.read("addresses", addresses);
  const std::vector<int> slots(addresses.size(), 0);
  m.peers = block_of(std::move(addresses), slots);
  return m;
}

Go read_go(const Fields& fields, const PeerParts& parts) {
  Go m;
  m.id = read_generation_id(fields);
  fields.read("job", m.job);
  fields.read("jobUid", m.job_uid);
  read_enum(fields, "kind", kKinds, m.kind);
  fields.read("firstRank", m.first_rank, 0, kMostRanks);
  fields.read("ranks", m.ranks, 1, static_cast<std::int64_t>(kMaxRanksPerMember));
  fields.read("worldSize", m.world_size, 1, kMostRanks);
  fields.read("groupRank", m.group_rank, 0, kMostRanks);
  fields.read("groupWorldSize", m.group_world_size, 1, kMostRanks);
  m.peers = read_peers(fields, parts);
  fields.read("masterAddr", m.master_addr);
  fields.read("masterPort", m.master_port, 0, 65535);
  fields.read("key", m.key);
  m.source = read_source(fields.find("source"));
  fields.read("restore", m.restore);
  fields.read("checkpointPath", m.program.checkpoint_path);
  fields.read("checkpointEvery", m.program.checkpoint_every_seconds, 0, kMostRanks * 1000);
  fields.read("maxRestarts", m.program.max_restarts, 0, kMostRanks * 1000);
  fields.read("env", m.program.env);
  return m;
}

Abort read_abort(const Fields& fields) {
  Abort m;
  fields.read("generation", m.generation, 0, kMostCount);
  fields.read("rank", m.rank, 0, kMostRanks);
  fields.read("message", m.message, kMaxMessage);
  return m;
}

CoordinatorToAgent read_message(const std::string& type, const Fields& fields, const PeerParts& parts) {
  if (type == "WELCOME") {
    Welcome m;
    fields.read("term", m.term, 0, kMostCount);
    fields.read("heartbeatMilliseconds", m.heartbeat_ms, 10, 60'000);
    return m;
  }
  if (type == "REFUSED") {
    Refused m;
    fields.read("message", m.message);
    fields.read("final", m.final);
    return m;
  }
  if (type == "PROPOSE") return read_propose(fields);
  if (type == "GO") return read_go(fields, parts);
  if (type == "WARM") {
    Warm m{read_go(fields, parts)};
    fields.read("first", m.first);
    if (m.go.id.generation != 0) throw Malformed("field generation of a WARM must be 0");
    return m;
  }
  if (type == "ECHO") return read_echo(fields, parts);
  if (type == "ACK") {
    Ack m;
    fields.read("generation", m.generation, 0, kMostCount);
    fields.read("rank", m.rank, 0, kMostRanks);
    return m;
  }
  if (type == "HALT") return Halt{read_generation_id(fields)};
  if (type == "YIELD") return Yield{read_generation_id(fields)};
  if (type == "ABORT") return read_abort(fields);
  if (type == "STOP") {
    Stop m;
    fields.read("grace", m.grace_seconds, 0, 7 * 24 * 3600);
    fields.read("exitCode", m.exit_code, 0, 255);
    return m;
  }
  if (type == "DONE") return Done{};
  return Unknown{};
}

// The peers that a message names; null when it is of another kind.
const Peers* peers_of(const CoordinatorToAgent& message) {
  if (const auto* go = std::get_if<Go>(&message)) return &go->peers;
  if (const auto* echo = std::get_if<Echo>(&message)) return &echo->peers;
  return nullptr;
}

Chunk own(std::string bytes) {
  return {std::make_shared<const std::string>(std::move(bytes)), false};
}

Result<std::vector<Chunk>> one_frame(const std::string& text) {
  LOCKSTEP_TRY(std::string length, encode_length(text.size()));
  return std::vector<Chunk>{own(std::move(length) + text)};
}

// A GO or WARM of protocol 1. JSON sorts the fields: the peers, whose text is shared, come between two others.
Result<std::vector<Chunk>> listing_frame(const Json& message, const Peers& peers) {
  static const Chunk kNobody = PeerBlock({}).listed();
  const Chunk listed = peers ? peers->listed() : kNobody;
  Json before = Json::object();
  Json after = Json::object();
  for (const auto& [name, value] : message.items()) (name < "members" ? before : after)[name] = value;
  std::string first = text_of(before);
  first.back() = ',';
  const std::string last = text_of(after).substr(1);
  LOCKSTEP_TRY(std::string length, encode_length(first.size() + listed.bytes->size() + last.size()));
  return std::vector<Chunk>{own(std::move(length) + first), listed, own(last)};
}

}  // namespace

Result<std::vector<Chunk>> CoordinatorWriter::encode(const CoordinatorToAgent& message) {
  Json json = std::visit([](const auto& m) { return write(m); }, message);
  const Peers* const peers = peers_of(message);
  if (protocol_ < kProtocolOfPeerBlocks) {
    if (const auto* go = std::get_if<Go>(&message)) return listing_frame(json, go->peers);
    if (std::holds_alternative<Warm>(message)) return listing_frame(json, {});
    if (const auto* echo = std::get_if<Echo>(&message)) {
      json["addresses"] = echo->peers ? echo->peers->addresses() : std::vector<std::string>();
    }
    return one_frame(text_of(json));
  }
  if (peers == nullptr || !*peers) return one_frame(text_of(json));
  json["block"] = (*peers)->digest();
  LOCKSTEP_TRY(std::vector<Chunk> named, one_frame(text_of(json)));
  if (sent_ == *peers) return named;
  std::vector<Chunk> chunks = (*peers)->frames();
  chunks.insert(chunks.end(), named.begin(), named.end());
  sent_ = *peers;
  return chunks;
}

Result<std::optional<CoordinatorToAgent>> CoordinatorReader::decode(std::string_view json) {
  using Message = std::optional<CoordinatorToAgent>;
  return decode_message<Message>(json, [this](const std::string& type, const Fields& fields) -> Message {
    if (type == "PEERS") {
      read_part(fields, parts_);
      return std::nullopt;
    }
    return read_message(type, fields, parts_);
  });
}

}  // namespace lockstep::rendezvous
