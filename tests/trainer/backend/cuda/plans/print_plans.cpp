// cuda_plans LIBRARIES: prints the table of plans that cuDNN of that folder makes. Needs no GPU.
#include <cstdio>

#include "tests/trainer/backend/cuda/plans/plan_table.h"
#include "tests/trainer/backend/cuda/plans/real_cudnn.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc != 2) {
    std::fputs("usage: cuda_plans LIBRARIES (a folder with libcudnn.so.9 and libcublasLt.so.13)\n", stderr);
    return 2;
  }
  const auto dnn = trainer::testing::open_real_dnn(argv[1]);
  const Result<std::string> table = dnn ? trainer::testing::plan_table(*dnn) : Result<std::string>(dnn.error());
  if (!table) {
    std::fprintf(stderr, "cuda_plans: %s\n", table.error().message.c_str());
    return 1;
  }
  std::fputs(table->c_str(), stdout);
}
