// Reads a NodeRecord from the JSON text of a node, without a DOM.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "operator/base/result.h"
#include "operator/placement/node_record.h"
#include "operator/placement/sickness.h"

namespace lockstep::placement {

inline constexpr std::size_t kMostTaints = 256;  // a node with more is kInvalid

// The label keys that a scan keeps.
using LabelKeys = std::set<std::string, std::less<>>;

// kInvalid when `text` is not a JSON object with a name, or goes beyond a bound. A field of another type than the API's
// is as if it were not there; an amount of `allocatable` that cannot be read is none. Of several signs that the node is
// sick, the first of `signs`.
Result<NodeRecord> scan_node(std::string_view text, const LabelKeys& labels, const SickSigns& signs = {});

// metadata.name alone, which is all that the deletion of a node needs. kInvalid as above.
Result<std::string> scan_name(std::string_view text);

}  // namespace lockstep::placement
