// Where a node stands in the topology, from its labels and the operator's profile.
#pragma once

#include "operator/api/pod.h"
#include "operator/base/result.h"
#include "operator/placement/profile.h"
#include "operator/placement/sickness.h"

namespace lockstep::job {

// Signs of nodes on which jobs have members.
struct NodeSigns {
  placement::SickSigns leave{};  // for Node::sickness
  placement::SickSigns dead{};   // for Node::death
};

// api::parse_node(), with Node::path, Node::sickness and Node::death filled in and without labels: a cache of nodes
// keeps what jobs ask for. A node that lacks the label of a level is alone in a domain of that level, which no label
// value can name. A node without any of the labels has no path.
Result<api::Node> parse_located_node(const api::Json& object, const placement::Profile& topology,
                                     const NodeSigns& signs = {});

}  // namespace lockstep::job
