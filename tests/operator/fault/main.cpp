// lockstep-operator that dies by SIGKILL right after its k-th write, for tests on a real API server. It is the operator
// itself, with FaultApi between it and the server:
//   LOCKSTEP_FAULT_AFTER=k             dies after the k-th write; unset: never
//   LOCKSTEP_FAULT_ON=regex            dies after the first write whose line in the journal matches
//   LOCKSTEP_FAULT_JOURNAL=path        a line per write is appended to this file
//   LOCKSTEP_FAULT_HOLD_RENEWALS=path  while that file exists, renewals of the Lease wait before they are sent
//   LOCKSTEP_FAULT_MUTATION=twice      a bug on purpose: each pod is made once more under a second name
//   LOCKSTEP_FAULT_MUTATION=forgetful  a bug on purpose: pods that exist when the operator begins are deleted
#include <signal.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "operator/base/log.h"
#include "operator/options.h"
#include "operator/run_operator.h"
#include "tests/operator/fault/fault_api.h"

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  lockstep::OperatorOptions options;
  if (const auto status = lockstep::parse_options(argc, argv, options)) return *status;
  lockstep::log::configure(options.log_level, options.log_format);
  lockstep::fault::Fault fault;
  fault.die_after = std::atoi(variable("LOCKSTEP_FAULT_AFTER").c_str());
  fault.die_on = variable("LOCKSTEP_FAULT_ON");
  fault.journal = variable("LOCKSTEP_FAULT_JOURNAL");
  fault.hold_renewals = variable("LOCKSTEP_FAULT_HOLD_RENEWALS");
  fault.twice = variable("LOCKSTEP_FAULT_MUTATION") == "twice";
  fault.forgetful = variable("LOCKSTEP_FAULT_MUTATION") == "forgetful";
  return lockstep::run_operator(options, argv, [&](std::unique_ptr<lockstep::kube::Api> api) {
    return std::make_unique<lockstep::fault::FaultApi>(std::move(api), fault);
  });
}
