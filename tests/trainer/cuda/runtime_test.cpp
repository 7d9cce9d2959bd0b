#include "trainer/cuda/runtime.h"

#include <gtest/gtest.h>

namespace lockstep::trainer::cuda {
namespace {

// A table whose driver answers as the test says.
int driver = 13020;
int devices = 1;
CudaError counting = CudaError::kSuccess;

class CountGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    driver = 13020;
    devices = 1;
    counting = CudaError::kSuccess;
    table_.driver_get_version = [](int* version) {
      *version = driver;
      return CudaError::kSuccess;
    };
    table_.runtime_get_version = [](int* version) {
      *version = 13020;
      return CudaError::kSuccess;
    };
    table_.get_device_count = [](int* count) {
      if (counting == CudaError::kSuccess) *count = devices;
      return counting;
    };
    table_.get_last_error = [] { return CudaError::kSuccess; };
    table_.get_error_string = [](CudaError) { return "initialization error"; };
  }
  std::string refusal() const {
    const auto count = count_gpus(table_);
    EXPECT_FALSE(count.ok());
    if (count) return "";
    EXPECT_EQ(count.error().code, ErrorCode::kNotFound);
    return count.error().message;
  }
  CudaRuntime table_;
};

TEST_F(CountGpus, a_machine_with_gpus_tells_how_many) {
  devices = 8;
  EXPECT_EQ(count_gpus(table_).value(), 8);
}

TEST_F(CountGpus, no_driver_is_one_sentence) {
  driver = 0;
  counting = CudaError::kInsufficientDriver;
  EXPECT_EQ(refusal(), "this machine has no NVIDIA driver, or the container does not show it");
}

TEST_F(CountGpus, an_old_driver_is_named_beside_the_runtime) {
  driver = 12040;
  counting = CudaError::kInsufficientDriver;
  EXPECT_EQ(refusal(),
            "the NVIDIA driver supports CUDA 12.4, and the runtime is CUDA 13.2; install a newer driver or an older "
            "runtime");
}

TEST_F(CountGpus, no_gpu_is_one_sentence) {
  counting = CudaError::kNoDevice;
  EXPECT_EQ(refusal(), "the NVIDIA driver shows this process no GPU");
  counting = CudaError::kSuccess;
  devices = 0;
  EXPECT_EQ(refusal(), "the NVIDIA driver shows this process no GPU");
}

TEST_F(CountGpus, a_driver_that_does_not_start_gives_its_reason) {
  counting = CudaError::kInitialization;
  EXPECT_EQ(refusal(), "the NVIDIA driver does not start: CUDA says 'initialization error'");
}

TEST(LoadCudaRuntime, a_library_is_loaded_once) {
  const auto first = load_cuda_runtime(FAKE_CUDA_LIBRARY);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(*first, load_cuda_runtime(FAKE_CUDA_LIBRARY).value());
}

TEST(LoadCudaRuntime, a_missing_library_is_named_with_a_remedy) {
  const auto none = load_cuda_runtime("/no/such/libcudart.so");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_NE(none.error().message.find("no CUDA runtime can be loaded (/no/such/libcudart.so"), std::string::npos)
      << none.error().message;
  EXPECT_NE(none.error().message.find("--cudart-library"), std::string::npos) << none.error().message;
}

TEST(LoadCudaRuntime, a_library_without_a_function_is_refused_by_its_name) {
  const auto other = load_cuda_runtime("libm.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("libm.so.6 has no cudaDriverGetVersion"), std::string::npos)
      << other.error().message;
}

}  // namespace
}  // namespace lockstep::trainer::cuda
