// The file itself: what it says, how it installs itself, and that it needs nothing from the image.
#include <elf.h>
#include <sys/stat.h>

#include <cstring>

#include "tests/trainer/agent/agents.h"

namespace lockstep::trainer::agent {
namespace {

TEST(AgentBinary, says_its_version_and_how_to_use_it) {
  const Folder folder;
  EXPECT_EQ(Child({LOCKSTEP_AGENT, "--version"}, {}, folder / "version").wait(), 0);
  EXPECT_EQ(contents(folder / "version").find("lockstep-agent 0."), 0U);
  EXPECT_EQ(Child({LOCKSTEP_AGENT, "--help"}, {}, folder / "help").wait(), 0);
  EXPECT_NE(contents(folder / "help").find("lockstep-agent run -- COMMAND"), std::string::npos);
}

TEST(AgentBinary, bad_usage_is_a_sentence_and_64) {
  const Folder folder;
  EXPECT_EQ(Child({LOCKSTEP_AGENT}, {}, folder / "out").wait(), 64);
  EXPECT_EQ(Child({LOCKSTEP_AGENT, "dance"}, {}, folder / "out").wait(), 64);
  EXPECT_EQ(Child({LOCKSTEP_AGENT, "run", "sh"}, {}, folder / "out").wait(), 64);
  EXPECT_EQ(Child({LOCKSTEP_AGENT, "run", "--", "true"}, {}, folder / "run").wait(), 64);
  EXPECT_EQ(contents(folder / "run").find("lockstep-agent: LOCKSTEP_COORDINATOR is not set"), 0U);
}

TEST(AgentBinary, installs_itself_whole_and_over_an_older_one) {
  const Folder folder;
  const std::string path = folder / "lockstep-agent";
  std::ofstream(path) << "older";
  ASSERT_EQ(Child({LOCKSTEP_AGENT, "install", path}, {}, folder / "out").wait(), 0) << contents(folder / "out");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0755U);
  EXPECT_EQ(contents(path), contents(LOCKSTEP_AGENT));
  EXPECT_EQ(Child({path, "--version"}, {}, folder / "version").wait(), 0);
  EXPECT_EQ(Child({LOCKSTEP_AGENT, "install", folder / "no/such/folder"}, {}, folder / "bad").wait(), 1);
  EXPECT_NE(contents(folder / "bad").find("no/such/folder"), std::string::npos);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / "")) ++files;
  EXPECT_EQ(files, 4) << "nothing half-written is left";
}

TEST(AgentBinary, is_static_and_small) {
  const std::string image = contents(LOCKSTEP_AGENT);
  std::cout << "lockstep-agent: " << image.size() / 1024 << " KiB\n";
  if (!LOCKSTEP_AGENT_IS_STATIC) GTEST_SKIP() << "sanitizers need shared libraries";
  Elf64_Ehdr header;
  ASSERT_GT(image.size(), sizeof header);
  std::memcpy(&header, image.data(), sizeof header);
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, image.data() + header.e_phoff + static_cast<std::size_t>(i) * sizeof segment, sizeof segment);
    EXPECT_NE(segment.p_type, static_cast<Elf64_Word>(PT_INTERP)) << "it asks for a dynamic linker";
    EXPECT_NE(segment.p_type, static_cast<Elf64_Word>(PT_DYNAMIC));
  }
}

}  // namespace
}  // namespace lockstep::trainer::agent
