// Signs by which other tools say that a node is sick: a condition, a taint or a label of it. A node with one gets no
// pods. job/ says what becomes of the pods that are there. Plain data, its reading and its check.
//
// What a sign means is never guessed from its name: NVSentinel's conditions are "True" where something is wrong, those
// of EKS are "False".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::placement {

enum class SignKind : std::uint8_t { kCondition, kTaint, kLabel };

struct Sign {
  SignKind kind = SignKind::kCondition;
  std::string key;    // the type of the condition; the key of the taint or label
  std::string value;  // the condition's status, of which there is one; of a taint or label; "": any

  bool operator==(const Sign&) const = default;
};

// As a flag names it and as errors show it: "condition:XIDErrors=True", "taint:karpenter.sh/disrupted".
std::string text_of(const Sign& sign);

// A name for a table of signs that a tool or a cloud uses.
struct SignPreset {
  std::string name;
  std::vector<Sign> signs;
};

// All presets, which of_flags() accepts:
//   nvsentinel     conditions of NVIDIA's NVSentinel
//   eks, aks       conditions of the agents of Amazon and of Azure
//   hyperpod       a node of SageMaker HyperPod that is checked, or waits for a reboot or its replacement
//   gke            a node under maintenance, or about to be ended
//   gke-scheduled  a node with a date for maintenance, which may be a week away: a preset of its own
//   autoscalers    a node that an autoscaler is about to remove, also for pods that tolerate every taint
const std::vector<SignPreset>& sign_presets();

// The signs to look for. A value that does not change.
class SickSigns {
 public:
  // More would make every node event slow.
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kNone = ~std::size_t{0};

  SickSigns() = default;  // no sign

  // Of the values of flags: "condition:TYPE=STATUS", "taint:KEY[=VALUE]", "label:KEY[=VALUE]", "preset:NAME". kInvalid,
  // with one sentence: a value of another form, an empty key or value, a condition with another status than True, False
  // or Unknown, or more than kMost signs.
  static Result<SickSigns> of_flags(const std::vector<std::string>& flags);

  const std::vector<Sign>& all() const { return signs_; }
  // The first sign of this kind and key that the value shows, as an index of all(); kNone.
  std::size_t find(SignKind kind, std::string_view key, std::string_view value) const;

 private:
  std::vector<Sign> signs_;
  std::map<std::string, std::vector<std::size_t>, std::less<>> by_key_;  // indices of signs_, in their order
};

}  // namespace lockstep::placement
