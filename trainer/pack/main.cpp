// lockstep-data: makes data sets that lockstep-trainer reads.
#include "trainer/pack/data_cli.h"

int main(int argc, char** argv) {
  return lockstep::trainer::pack::run_data_cli(argc, argv);
}
