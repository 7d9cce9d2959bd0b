#include "trainer/comm/nccl_api.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lockstep::trainer::comm {
namespace {

TEST(NcclApi, the_configuration_has_the_layout_of_the_release_that_it_names) {
  EXPECT_EQ(sizeof(NcclUniqueId), 128U);
  EXPECT_EQ(offsetof(NcclConfig, blocking), 16U);
  EXPECT_EQ(offsetof(NcclConfig, net_name), 32U);
  EXPECT_EQ(offsetof(NcclConfig, comm_name), 48U);
  EXPECT_EQ(offsetof(NcclConfig, nvlink_centric_scheduling), 76U);
  EXPECT_EQ(sizeof(NcclConfig), 80U);
}

TEST(NcclApi, a_library_with_all_functions_is_loaded_under_any_name) {
  const auto api = load_nccl(FAKE_NCCL_LIBRARY, FAKE_NCCL_LIBRARY);
  ASSERT_TRUE(api.ok()) << api.error().message;
  int version = 0;
  EXPECT_EQ(api->get_version(&version), NcclResult::kSuccess);
  EXPECT_EQ(version, 23003);
}

TEST(NcclApi, an_older_release_is_refused_with_both_versions) {
  ASSERT_EQ(setenv("FAKE_NCCL_VERSION", "22907", 1), 0);
  const auto api = load_nccl(FAKE_NCCL_LIBRARY, FAKE_NCCL_LIBRARY);
  ASSERT_EQ(unsetenv("FAKE_NCCL_VERSION"), 0);
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.error().code, ErrorCode::kNotFound);
  EXPECT_NE(api.error().message.find("is NCCL 2.29.7, and --transport=nccl needs 2.30.3 or later"), std::string::npos)
      << api.error().message;
}

TEST(NcclApi, a_missing_library_is_named_with_a_remedy) {
  const auto none = load_nccl("/no/such/libnccl.so", FAKE_NCCL_LIBRARY);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_NE(none.error().message.find("/no/such/libnccl.so"), std::string::npos) << none.error().message;
  EXPECT_NE(none.error().message.find("--nccl-library"), std::string::npos) << none.error().message;
  const auto no_cuda = load_nccl(FAKE_NCCL_LIBRARY, "/no/such/libcudart.so");
  ASSERT_FALSE(no_cuda.ok());
  EXPECT_NE(no_cuda.error().message.find("--cudart-library"), std::string::npos) << no_cuda.error().message;
}

TEST(NcclApi, a_library_without_a_function_is_refused_by_its_name) {
  const auto other = load_nccl("libm.so.6", FAKE_NCCL_LIBRARY);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("libm.so.6 has no ncclGetVersion"), std::string::npos) << other.error().message;
}

TEST(NcclApi, processes_that_see_several_gpus_take_one_each) {
  auto api = load_nccl(FAKE_NCCL_LIBRARY, FAKE_NCCL_LIBRARY);
  ASSERT_TRUE(api.ok());
  api->cuda.get_device_count = [](int* count) {
    *count = 2;
    return cuda::CudaError::kSuccess;
  };
  EXPECT_EQ(choose_device(*api, 1).value(), 1);
  EXPECT_EQ(choose_device(*api, 2).value(), 0) << "each sees its own pair";
}

TEST(NcclApi, a_machine_without_a_gpu_gets_one_sentence) {
  auto api = load_nccl(FAKE_NCCL_LIBRARY, FAKE_NCCL_LIBRARY);
  ASSERT_TRUE(api.ok());
  api->cuda.get_device_count = [](int*) {
    return cuda::CudaError::kInsufficientDriver;
  };  // no driver, and the count unchanged
  const auto device = choose_device(*api, 0);
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().message.find("needs a GPU"), std::string::npos) << device.error().message;
}

}  // namespace
}  // namespace lockstep::trainer::comm
