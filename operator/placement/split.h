// How the pods that a domain gets are split among its nodes: the way back through the tables, and a greedy way.
#pragma once

#include "operator/placement/choice.h"

namespace lockstep::placement {

// Appends the cheapest split of `pods` ≤ view.of(domain).pods, in depth-first order. Of equal costs, the child that
// comes first by name takes the most; equal children are filled in that order, all but one completely or not at all.
void split(View& view, DomainId domain, int pods, NodePods& nodes);

// Appends a split that is found in O(children · log children) per domain. It takes the tightest child that holds what
// is left, else the largest child completely; children with survivors first.
void fill(View& view, DomainId domain, int pods, NodePods& nodes);

}  // namespace lockstep::placement
