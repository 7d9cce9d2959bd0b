#include "operator/rendezvous/message_fields.h"

namespace lockstep::rendezvous {

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
