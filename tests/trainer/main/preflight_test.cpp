#include "trainer/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lockstep::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST(Preflight, a_machine_with_enough_of_everything_raises_no_doubt) {
  EXPECT_THAT(doubts_about_nccl({.infiniband = true}, 8), IsEmpty());
  EXPECT_THAT(doubts_about_nccl({.shared_memory = 256 * kMiB, .lockable = 64 * kMiB, .infiniband = true}, 2),
              IsEmpty());
}

TEST(Preflight, little_shared_memory_is_told_where_ranks_share_a_pod) {
  // The 64 MiB that container runtimes give.
  EXPECT_THAT(doubts_about_nccl({.shared_memory = 64 * kMiB}, 2),
              ElementsAre(HasSubstr("/dev/shm has 64 MiB free, and NCCL takes about 73 MiB for 2 ranks")));
  EXPECT_THAT(doubts_about_nccl({.shared_memory = 0}, 1), IsEmpty());
}

TEST(Preflight, little_lockable_memory_is_told_where_there_is_rdma) {
  EXPECT_THAT(doubts_about_nccl({.lockable = 64 * 1024, .infiniband = true}, 1),
              ElementsAre(HasSubstr("RLIMIT_MEMLOCK is 64 KiB")));
  EXPECT_THAT(doubts_about_nccl({.lockable = 64 * 1024}, 1), IsEmpty());
}

TEST(Preflight, a_uuid_is_written_as_nvidia_smi_writes_it) {
  cuda::CudaRuntime table;
  table.get_device_properties = [](cuda::CudaDeviceProperties* properties, int device) {
    for (size_t i = 0; i < sizeof properties->uuid; ++i) properties->uuid[i] = static_cast<unsigned char>(0xa0 + i);
    return device == 0 ? cuda::CudaError::kSuccess : cuda::CudaError::kInvalidDevice;
  };
  EXPECT_EQ(gpu_uuid(table, 0), "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
  EXPECT_EQ(gpu_uuid(table, 1), "");
}

TEST(Preflight, this_machine_is_looked_at) {
  namespace fs = std::filesystem;
  std::string folder = fs::temp_directory_path() / "preflight-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  EXPECT_FALSE(this_machine("/dev/shm", folder).infiniband) << "no device";
  std::ofstream(folder + "/mlx5_0") << "";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit little{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &little), 0);
  const Machine machine = this_machine("/proc", folder);  // a file system without room
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before), 0);
  fs::remove_all(folder);
  EXPECT_TRUE(machine.infiniband);
  EXPECT_EQ(machine.lockable, 4096U);
  EXPECT_EQ(machine.shared_memory, 0U);
  EXPECT_EQ(this_machine("/nowhere", "/nowhere").shared_memory, Machine::kUnlimited);
  EXPECT_FALSE(this_machine("/nowhere", "/nowhere").infiniband);
}

}  // namespace
}  // namespace lockstep::trainer
