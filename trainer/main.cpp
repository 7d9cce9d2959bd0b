// lockstep-trainer: one rank of a training job, or a world of its own.
#include <sys/resource.h>

#include "trainer/elastic/abort_report.h"
#include "trainer/elastic/stop.h"
#include "trainer/flags.h"
#include "trainer/training.h"

namespace {

// Each file of a data set stays open: ImageNet has more than the usual soft limit of 1024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));  // else what does not fit says so
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::trainer::elastic::StopToken stop;
  const lockstep::trainer::elastic::SigtermListener listener(stop);
  const lockstep::trainer::elastic::AbortReport abort_report;
  lockstep::trainer::Flags flags;
  if (auto exit_code = lockstep::trainer::parse_flags(argc, argv, flags)) return *exit_code;
  raise_descriptor_limit();
  return lockstep::trainer::Training(flags, stop).run();
}
