// Whether all ranks of a generation are of one kind: their identity lines (worker_contract.h), compared field by field.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

// What the processes of one member say of themselves.
struct MemberIdentity {
  int slot = 0;
  const std::vector<IdentityRun>* runs = nullptr;  // by local rank; an empty line: that process has said nothing
};

// Two values of one field.
struct IdentityDifference {
  std::string field;
  int slot = 0;  // of the member that differs
  std::string value;
  int other_slot = 0;  // of a member with the value that most ranks have; `slot` where both are in one pod
  std::string other_value;

  bool operator==(const IdentityDifference&) const = default;
};

// The first field of which ranks have different values: `model`, `optimizer`, `precision`, which decide others, then by
// name; none where all agree. A rank without that field, or without a line, is not compared: its program may be of
// another version. Of several values the one of most ranks is `other_value`, of equally many that of the first member;
// `slot` is the first member with another one.
std::optional<IdentityDifference> identity_difference(const std::vector<MemberIdentity>& members);

// What to do where ranks differ in that field, as a sentence; empty: nothing is known.
std::string identity_advice(const std::string& field);

}  // namespace lockstep::rendezvous
