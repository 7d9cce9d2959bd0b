// The text of --version.
#pragma once

#include <string>

namespace lockstep {

// "0.1.0 (commit 1a2b3c4d5e6f)"; the commit is "unknown" if the sources are not a git checkout.
std::string version_and_commit();
// "0.1.0"
std::string version();

}  // namespace lockstep
