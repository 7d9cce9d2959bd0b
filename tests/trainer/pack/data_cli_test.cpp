// The program, as `lockstep data` runs it.
#include "trainer/pack/data_cli.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/wait.h>

#include "tests/trainer/pack/in_folder.h"

namespace lockstep::trainer::pack {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class DataCli : public testing::InFolder {
 protected:
  // Starts the program with its output in files.
  pid_t start(std::vector<std::string> words) const {
    words.insert(words.begin(), LOCKSTEP_DATA);
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::dup2(::open((folder_ / "stdout").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), 1);
    ::dup2(::open((folder_ / "stderr").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), 2);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  static int end(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  int run(const std::vector<std::string>& words) const { return end(start(words)); }
  std::string out() const { return testing::content(folder_ / "stdout"); }
  std::string err() const { return testing::content(folder_ / "stderr"); }
};

TEST_F(DataCli, tells_what_it_made) {
  ASSERT_EQ(run({"synth", out_, "--images", "20", "--size", "16", "--classes", "2"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr(out_ + ": 18 images to train on, 2 held out, 2 classes; 2 files of "));
  EXPECT_EQ(err(), "") << "no progress where no terminal is";
  testing::write(folder_ / "photos/a/1.jpg", testing::jpeg(1, 16, 24));
  testing::write(folder_ / "photos/b/2.jpg", testing::jpeg(2, 20, 16));
  ASSERT_EQ(run({"pack", (folder_ / "photos").string(), out_ + "2"}), 0) << err();
  EXPECT_THAT(out(), EndsWith("\nnote: the images have different sizes, from 16 x 16 to 24 x 20 pixels; models of "
                              "photographs alone read them\n"));
}

TEST_F(DataCli, reads_what_it_made_in_either_form) {
  for (const std::vector<std::string>& form : std::vector<std::vector<std::string>>{{}, {"--files"}}) {
    std::vector<std::string> words = {"synth", out_, "--images", "20", "--size", "16", "--classes", "2"};
    words.insert(words.end(), form.begin(), form.end());
    ASSERT_EQ(run(words), 0) << err();
    EXPECT_THAT(out(), HasSubstr("18 images to train on, 2 held out, 2 classes; "));
    ASSERT_EQ(run({"read", out_, "--size", "16", "--seconds", "0.001", "--threads", "2", "--in-memory"}), 0) << err();
    EXPECT_THAT(out(), ::testing::MatchesRegex(
                           (form.empty() ? "1 files" : "images of 2 sub-folders") +
                           std::string(": [0-9]+ images in [0-9.]+ s, [0-9.]+ images/s\nresult \\{\"images\":[0-9]+,"
                                       "\"seconds\":[-+.e0-9]+,\"images_per_second\":[-+.e0-9]+\\}\n")));
    fs::remove_all(out_);
  }
}

TEST_F(DataCli, wrong_words_are_told_in_one_sentence) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "lockstep data: A subcommand is required\nSee lockstep data --help.\n"},
      {{"pack", "x"}, "lockstep data pack: out is required\nSee lockstep data pack --help.\n"},
      {{"synth", out_, "--images", "0"},
       "lockstep data synth: --images: Value 0 not in range 1 to 4294967296\nSee lockstep data synth --help.\n"}};
  for (const auto& [words, sentence] : cases) {
    EXPECT_EQ(run(words), 2);
    EXPECT_EQ(err(), sentence);
  }
  EXPECT_EQ(run({"synth", out_, "--images", "2", "--files", "--shard-mib", "1"}), 2);
  EXPECT_EQ(err(), "lockstep data synth: --shard-mib excludes --files\nSee lockstep data synth --help.\n");
  EXPECT_EQ(run({"read", "synthetic", "--threads", "2"}), 1);
  EXPECT_EQ(err(),
            "lockstep data read: synthetic images have no files; leave out --threads, --in-memory, --latency-ms, "
            "--bandwidth-mib and --cache-...\n");
  EXPECT_EQ(run({"read", "/nowhere"}), 1);
  EXPECT_EQ(err(), "lockstep data read: cannot read data '/nowhere': No such file or directory\n");
  EXPECT_EQ(run({"pack", "/nowhere", out_}), 1);
  EXPECT_EQ(err(), "lockstep data pack: cannot read data '/nowhere': No such file or directory\n");
}

TEST_F(DataCli, the_help_of_every_command_has_an_example) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{}, {"pack"}, {"synth"}, {"read"}}) {
    std::vector<std::string> asked = words;
    asked.emplace_back("--help");
    EXPECT_EQ(run(asked), 0);
    EXPECT_THAT(out(), HasSubstr("Examples:\n  lockstep data "));
  }
}

TEST_F(DataCli, ctrl_c_leaves_nothing_behind) {
  const int watch = ::inotify_init1(IN_CLOEXEC);
  ASSERT_GE(::inotify_add_watch(watch, folder_.c_str(), IN_CREATE | IN_ONLYDIR), 0);
  const pid_t pid = start({"synth", out_, "--images", "100000000"});
  while (fs::is_empty(folder_) || files(folder_).size() < 3) {  // its output, and the folder that it fills
    alignas(inotify_event) char events[4096];
    ASSERT_GT(::read(watch, events, sizeof events), 0);
  }
  ::close(watch);
  ::kill(pid, SIGINT);
  EXPECT_EQ(end(pid), 130);
  EXPECT_EQ(err(), "lockstep data synth: stopped; '" + out_ + "' was not created\n");
  EXPECT_EQ(files(folder_).size(), 2U);
}

}  // namespace
}  // namespace lockstep::trainer::pack
