// The contract tests of the CUDA backend run on a GPU. Its libraries are those that LOCKSTEP_CUDART_LIBRARY,
// LOCKSTEP_CUBLASLT_LIBRARY and LOCKSTEP_CUDNN_LIBRARY name; an unset one is what the dynamic linker finds. Where the
// backend cannot be created, the program ends with the reason and exit code 69, as the trainer does.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/trainer/backend/cuda/under_test.h"

namespace lockstep::trainer::testing {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class Gpu : public ::testing::Environment {
 public:
  void SetUp() override {
    const auto made = backend::make_cuda_backend(libraries());
    if (!made) {
      std::fprintf(stderr, "%s\n", made.error().message.c_str());
      std::_Exit(69);
    }
    std::printf("on %s\n", (*made)->numerics().c_str());
  }
};

[[maybe_unused]] ::testing::Environment* const kGpu = ::testing::AddGlobalTestEnvironment(new Gpu);

}  // namespace

backend::CudaOptions libraries(backend::Precision precision) {
  return {.precision = precision,
          .cudart = variable("LOCKSTEP_CUDART_LIBRARY"),
          .cublaslt = variable("LOCKSTEP_CUBLASLT_LIBRARY"),
          .cudnn = variable("LOCKSTEP_CUDNN_LIBRARY")};
}

// A GPU chooses its order of threads itself.
int runs() {
  return 3;
}

void begin_run(int) {}

// The stated tolerance of float32 (tests/trainer/backend/layer_checks.h).
double sum_tolerance(std::int64_t terms) {
  return 1e-5 * std::sqrt(static_cast<double>(terms));
}

}  // namespace lockstep::trainer::testing
