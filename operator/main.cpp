// lockstep-operator: reads its command line and runs.
#include <malloc.h>
#include <signal.h>

#include "operator/base/log.h"
#include "operator/kube/tls_context.h"
#include "operator/options.h"
#include "operator/run_operator.h"

int main(int argc, char** argv) {
  // Threads that wait for the network share two arenas of malloc: each further one keeps memory resident.
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_TRIM_THRESHOLD, 128 << 10);
  signal(SIGPIPE, SIG_IGN);  // a peer that hangs up is an error of a write, not the end of the operator
  lockstep::kube::spare_system_authorities();
  lockstep::OperatorOptions options;
  if (const auto status = lockstep::parse_options(argc, argv, options)) return *status;
  lockstep::log::configure(options.log_level, options.log_format);
  return lockstep::run_operator(options, argv);
}
