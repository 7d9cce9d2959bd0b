#include "operator/cli/cli.h"

int main(int argc, char** argv) {
  return lockstep::cli::run_cli(argc, argv);
}
