// From a snapshot to a plan. Pure: no I/O, no clock but snapshot.now, no memory; the same snapshot gives the same plan.
//
// Guarantees, whatever order events come in:
//  * pods of an incarnation are created only when status.incarnation of the stored object is that incarnation;
//  * a generation is passed on as handled only when its attempt is in a status. That is the stored one, or that of this
//    plan, which the reconciler writes first;
//  * Succeeded and Failed are never left;
//  * with nothing new, the plan writes nothing.
#pragma once

#include "operator/job/plan.h"
#include "operator/job/snapshot.h"

namespace lockstep::job {

Plan decide(const Snapshot& snapshot);

}  // namespace lockstep::job
