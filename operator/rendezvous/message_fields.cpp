#include "operator/rendezvous/message_fields.h"

namespace lockstep::rendezvous {

void put_generation_id(Json& json, const GenerationId& id) {
  json["term"] = id.term;
  json["generation"] = id.generation;
}

GenerationId read_generation_id(const Fields& fields) {
  GenerationId id;
  fields.read("term", id.term, 0, kMostCount);
  fields.read("generation", id.generation, 0, kMostCount);
  return id;
}

Json write_version(const StateVersion& version) {
  return {{"generation", version.generation}, {"step", version.step}, {"digest", version.digest}};
}

StateVersion read_version(const Json& json) {
  const Fields fields(json);
  StateVersion version;
  fields.read("generation", version.generation, 0, kMostCount);
  fields.read("step", version.step, 0, kMostCount);
  fields.read("digest", version.digest, kMaxWord);
  return version;
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::rendezvous
