// What must never be, whatever was chosen.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/operator/rendezvous/explored_world.h"

namespace lockstep::rendezvous::explorer {
namespace {

bool begins_with(const History& history, const History& start) {
  return history.size() >= start.size() && std::equal(start.begin(), start.end(), history.begin());
}

// The longest beginning of a state from which all ranks of some generation have gone on.
History confirmed_part(const Chronicle& chronicle, const std::optional<History>& state) {
  History part = state.value_or(History{});
  while (!part.empty() && chronicle.confirmed.count(digest_of(part)) == 0) part.pop_back();
  return part;
}

}  // namespace

// A member may follow the GO of a generation that is recorded with it, and that all its members were told the same of.
// The processes of all its members have promised it to be done with older ones. Of others no more is asked than that
// theirs cannot make a step.
std::string Explored::broken_by_following(const World& world, int slot, const Go& go) const {
  const std::int64_t generation = go.id.generation;
  const auto recorded = chronicle(world).recorded.find(generation);
  if (recorded == chronicle(world).recorded.end()) {
    return fmt::format("slot {} follows the GO of generation {}, which is not in the record", slot, generation);
  }
  const Chronicle::Members& members = recorded->second;
  if (members.count(slot) == 0 || members.at(slot) != pod(world, slot).incarnation) {
    return fmt::format("slot {} follows the GO of generation {}, whose record names another", slot, generation);
  }
  for (int other = 0; other < scenario_.slots; ++other) {
    for (const Process& process : pod(world, other).processes) {
      if (members.count(other) == 0 && !can_reduce(world, process)) continue;
      if (process.generation < generation && process.promised < generation) {
        return fmt::format("slot {} follows the GO of generation {} while slot {} is in generation {}", slot,
                           generation, other, process.generation);
      }
    }
  }
  if (go.peers->slots().at(at(go.first_rank)) != slot) {
    return fmt::format("slot {} is rank {} of generation {}, whose peers have another slot there", slot, go.first_rank,
                       generation);
  }
  const std::string agreed = fmt::format("{} {}", go.key, fmt::join(go.peers->addresses(), ","));
  const auto told = chronicle(world).agreed.find(generation);
  if (told != chronicle(world).agreed.end() && told->second != agreed) {
    return fmt::format("members of generation {} were told different things", generation);
  }
  const auto key = chronicle(world).generation_of_key.find(go.key);
  if (key != chronicle(world).generation_of_key.end() && key->second != generation) {
    return fmt::format("generation {} has the key of generation {}", generation, key->second);
  }
  return "";
}

std::string Explored::broken_by_linking(const World& world, const Process& process) const {
  const StateSource& source = process.source;
  const std::int64_t generation = process.generation;
  const History chosen = history_of(source.rank < 0 ? process.restore : source.version.digest);
  for (std::size_t rank = 0; rank < process.slots.size(); ++rank) {
    const Process& other = *pod(world, process.slots[rank]).process_in(generation);
    if (source.rank < 0) continue;
    if (static_cast<int>(rank) == source.rank && (other.version() != source.version || other.torn)) {
      return fmt::format("rank {} of generation {} is to give a state that it does not hold", rank, generation);
    }
    if (!source.send && other_state(other.version(), source.version)) {
      return fmt::format("rank {} of generation {} needs a state, and none is sent", rank, generation);
    }
    if (other.state && std::pair(other.version().generation, other.version().step) >
                           std::pair(source.version.generation, source.version.step)) {
      return fmt::format("generation {} goes on from step {} of generation {}, and rank {} holds a newer state",
                         generation, source.version.step, source.version.generation, rank);
    }
  }
  for (const int slot : process.slots) {
    const History known = confirmed_part(chronicle(world), pod(world, slot).process_in(generation)->state);
    if (begins_with(chosen, known)) continue;
    return fmt::format(
        "generation {} goes on from the steps [{}], and slot {} holds the steps [{}] that all ranks of "
        "its generation had made",
        generation, digest_of(chosen), slot, digest_of(known));
  }
  return "";
}

std::string Explored::broken_by_reducing(const World& world, const Process& process) const {
  const std::int64_t generation = process.generation;
  if (generation < chronicle(world).newest) {
    return fmt::format("two gangs: generation {} makes a step after generation {} made one", generation,
                       chronicle(world).newest);
  }
  for (std::size_t rank = 0; rank < process.slots.size(); ++rank) {
    const Process& other = *pod(world, process.slots[rank]).process_in(generation);
    if (other.torn) return fmt::format("rank {} makes a step of generation {} from a torn state", rank, generation);
    if (other.state != process.state) {
      return fmt::format(
          "a step of generation {} is made from different states: rank 0 has made the steps [{}], rank "
          "{} the steps [{}]",
          generation, digest_of(*process.state), rank, digest_of(*other.state));
    }
  }
  return "";
}

std::string Explored::broken_by_writing(const World& world, const Record& before, const Record& next) const {
  const Chronicle& past = chronicle(world);
  if (next.generation < before.generation) return "the record's generation goes back";
  Chronicle::Members members;
  for (const Record::Member& member : next.members) members[member.slot] = member.incarnation;
  const auto known = past.recorded.find(next.generation);
  if (known != past.recorded.end() && known->second != members) {
    return fmt::format("generation {} is recorded with other members than before", next.generation);
  }
  if (next.checkpoint && past.confirmed.count(next.checkpoint->digest) == 0) {
    return fmt::format("the checkpoint of the steps [{}] is recorded, and no step was made from them by all ranks",
                       next.checkpoint->digest);
  }
  if (!next.finished) return "";
  const auto succeeded = past.succeeded.find(next.generation);
  for (const auto& [slot, incarnation] : members) {
    if (succeeded == past.succeeded.end() || succeeded->second.count(slot) == 0) {
      return fmt::format("the end is recorded, and slot {} did not succeed in generation {}", slot, next.generation);
    }
    const std::string& state = succeeded->second.at(slot);
    if (state != succeeded->second.begin()->second ||
        history_of(state).size() != static_cast<std::size_t>(scenario_.steps)) {
      return fmt::format("the end is recorded, and slot {} ended with the steps [{}]", slot, state);
    }
  }
  if (past.newest > next.generation) {
    return fmt::format("the end of generation {} is recorded after generation {} made a step", next.generation,
                       past.newest);
  }
  return "";
}

}  // namespace lockstep::rendezvous::explorer
