#include "operator/base/version.h"

#include "lockstep_version.h"

namespace lockstep {

std::string version() {
  return LOCKSTEP_VERSION;
}
std::string version_and_commit() {
  return std::string(LOCKSTEP_VERSION) + " (commit " + LOCKSTEP_COMMIT + ")";
}

}  // namespace lockstep
