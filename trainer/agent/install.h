// `lockstep-agent install PATH`: the init container copies the agent into the volume that the trainer shares.
#pragma once

#include <string>

#include "operator/base/result.h"

namespace lockstep::trainer::agent {

// Copies this program to `path`, mode 0755, atomically.
Status install(const std::string& path);

}  // namespace lockstep::trainer::agent
