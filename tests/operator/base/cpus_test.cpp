#include "operator/base/cpus.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// A tree of control groups, as the kernel shows it.
class Cpus : public ::testing::Test {
 protected:
  ~Cpus() override { fs::remove_all(folder_); }

  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void quota(const std::string& group, const std::string& text) const { write(mounted() / group / "cpu.max", text); }
  fs::path mounted() const { return folder_ / "cgroup"; }
  int of(int cpus, const std::string& groups) const {
    write(folder_ / "self", groups);
    return cpus_within_quota(cpus, folder_ / "self", mounted());
  }

 private:
  const fs::path folder_ = fs::temp_directory_path() / ("cpus_test." + std::to_string(::getpid()));
};

TEST_F(Cpus, a_quota_of_a_container_counts_in_whole_cpus) {
  quota("", "350000 100000\n");  // of a namespace of control groups, whose root is the container's
  EXPECT_EQ(of(64, "0::/\n"), 3);
  EXPECT_EQ(of(2, "0::/\n"), 2);
  quota("", "20000 100000\n");
  EXPECT_EQ(of(64, "0::/\n"), 1);
}

TEST_F(Cpus, the_least_quota_on_the_way_to_the_root_counts) {
  quota("pods/pod1", "400000 100000\n");
  quota("pods/pod1/container", "max 100000\n");
  EXPECT_EQ(of(64, "4:memory:/other\n0::/pods/pod1/container\n"), 4);
}

TEST_F(Cpus, what_cannot_be_read_limits_nothing) {
  EXPECT_EQ(of(64, "4:memory:/other\n"), 64);
  EXPECT_EQ(of(64, "0::/gone\n"), 64);
  for (const char* text : {"", "max 100000\n", "-1 100000\n", "100000 0\n", "words\n"}) {
    quota("", text);
    EXPECT_EQ(of(64, "0::/\n"), 64) << text;
  }
}

TEST_F(Cpus, this_process_has_at_least_one) {
  EXPECT_GE(usable_cpus(), 1);
}

}  // namespace
}  // namespace lockstep
