#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "operator/cli/cli.h"

int main(int argc, char** argv) {
  const int status = lockstep::cli::run_cli(argc, argv);
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  // A full disk behind a redirection: the output was lost.
  std::fprintf(stderr, "lockstep: standard output cannot be written: %s\n", std::strerror(errno));
  return status == 0 ? 1 : status;
}
