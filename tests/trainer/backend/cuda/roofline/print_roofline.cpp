// cuda_roofline: prints the table of bounds. Needs no GPU.
#include <cstdio>

#include "tests/trainer/backend/cuda/roofline/roofline_table.h"

int main() {
  std::fputs(lockstep::trainer::testing::roofline_table().c_str(), stdout);
}
