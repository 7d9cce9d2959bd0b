#include "tests/operator/rendezvous/explored_process.h"

#include <algorithm>
#include <string_view>

#include "operator/base/number.h"
#include "operator/rendezvous/mutation.h"

namespace lockstep::rendezvous::explorer {

History history_of(const std::string& digest) {
  History history;
  std::string_view rest = digest;
  if (rest == "initial") return history;
  while (!rest.empty()) {
    const auto point = std::min(rest.find('.'), rest.size());
    history.push_back(as_number<std::int64_t>(rest.substr(0, point)).value());
    rest.remove_prefix(std::min(point + 1, rest.size()));
  }
  return history;
}

bool other_state(const StateVersion& own, const StateVersion& wanted) {
  if (kMutation == Mutation::kVersionWithoutGeneration) return own.step != wanted.step || own.digest.empty();
  return own != wanted;
}

void Process::enter(const Go& go) {
  generation = go.id.generation;
  rank = go.first_rank;
  slots = go.peers ? go.peers->slots() : std::vector<int>();
  key = go.key;
  source = go.source;
  restore = go.restore;
  stage = Stage::kEntering;
  committing = broke = yields = yielding = false;
  asked.reset();
}

Holding Process::answer() {
  if (stage == Stage::kTaking) tear();
  const Holding holding{asked->term, asked->generation, version()};
  promised = std::max(promised, asked->generation);
  committing = yielding = false;  // what is staged is dropped
  asked.reset();
  return holding;
}

void Process::tear() {
  if (kMutation != Mutation::kTornReceive) return;  // it is received beside the state, and installed as a whole
  state = history_of(source.version.digest);
  torn = true;
}

void add(Fingerprint& to, const Process& process) {
  const auto& [generation, rank, slots, key, source, restore, stage, introduced, committing, yields, yielding, done,
               broke, told_to_end, asked, promised, state, torn, saves] = process;
  to.add(generation, rank, slots, key, source, restore, stage, introduced, committing, yields, yielding, done, broke,
         told_to_end, asked, promised, state, torn, saves);
}

}  // namespace lockstep::rendezvous::explorer
