// `lockstep-agent install PATH`: the init container copies the agent into the volume that the trainer shares.
#pragma once

#include <string>

#include "operator/base/result.h"

namespace lockstep::trainer::agent {

// Copies this program to `path`, mode 0755, so that `path` is never there half-written.
Status install(const std::string& path);

}  // namespace lockstep::trainer::agent
