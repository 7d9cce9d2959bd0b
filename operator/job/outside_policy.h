// Pods that the generation does without: those that it left behind, and spares. They are replaced while it goes on; one
// that fails by itself again and again ends the job, as it would inside.
#pragma once

#include "operator/job/course.h"
#include "operator/job/snapshot.h"

namespace lockstep::job {

Course replace_outside(const Snapshot& snapshot, Course course);

}  // namespace lockstep::job
