// lockstep-trainer: one rank of a training job, or a world of its own.
#include "trainer/elastic/abort_report.h"
#include "trainer/elastic/stop.h"
#include "trainer/flags.h"
#include "trainer/training.h"

int main(int argc, char** argv) {
  lockstep::trainer::elastic::StopToken stop;
  const lockstep::trainer::elastic::SigtermListener listener(stop);
  const lockstep::trainer::elastic::AbortReport abort_report;
  lockstep::trainer::Flags flags;
  if (auto exit_code = lockstep::trainer::parse_flags(argc, argv, flags)) return *exit_code;
  return lockstep::trainer::Training(flags, stop).run();
}
