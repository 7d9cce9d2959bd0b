#include "operator/cli/rank_logs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace lockstep::cli::rank_logs_test {
namespace {

TEST(RankLogs, a_tag_is_a_number_in_brackets) {
  EXPECT_EQ(parse_tagged("[12] hello")->rank, 12);
  EXPECT_EQ(parse_tagged("[12] hello")->text, "hello");
  EXPECT_EQ(parse_tagged("[0] ")->text, "");
  for (const char* bad : {"", "hello", "[", "[]", "[1]x", "[a] b", "[-1] x", "[99999999999999] x"}) {
    EXPECT_FALSE(parse_tagged(bad)) << bad;
  }
}

TEST(RankLogs, every_rank_has_a_file_and_rank_0_is_listened_to) {
  const std::string folder = testing::TempDir() + "lockstep-ranks-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  {
    RankLogs logs(folder);
    for (const char* line : {"[0] eval step 0  held-out loss 4.5000", "[1] hello", "agent: words",
                             "[1] eval step 9  held-out loss 1", "[0] sample of 5 characters:", "[0] ab", "[0] [1] c",
                             "[0] end of sample", "[0] sample of 9 characters:", "[0] cut off", "[1] bye"}) {
      logs.add(line);
    }
    EXPECT_EQ(logs.held_out(), (std::vector<LossPoint>{{0, 4.5}}));
    EXPECT_EQ(logs.sample(), "ab\n[1] c\n");
  }
  std::ifstream file(folder + "/rank-1.log");
  EXPECT_EQ((std::stringstream() << file.rdbuf()).str(), "hello\neval step 9  held-out loss 1\nbye\n");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::cli::rank_logs_test
