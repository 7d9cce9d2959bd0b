#include "trainer/report/ledger.h"

#include <gmock/gmock.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::trainer::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class LedgerFiles : public ::testing::Test {
 protected:
  LedgerFiles() {
    std::string name = (fs::temp_directory_path() / "lockstep-ledger-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~LedgerFiles() override { fs::remove_all(folder_); }

  std::vector<std::string> names(const fs::path& folder) const {
    std::vector<std::string> list;
    for (const auto& entry : fs::directory_iterator(folder)) list.push_back(entry.path().filename().string());
    return list;
  }
  static std::vector<json> lines(const fs::path& file) {
    std::vector<json> list;
    std::ifstream text(file);
    for (std::string line; std::getline(text, line);) list.push_back(json::parse(line));
    return list;
  }

  fs::path folder_;
};

// A process may be killed between any two instructions, and an empty file is no ledger.
TEST_F(LedgerFiles, have_their_name_once_they_have_their_first_line) {
  const int watch = ::inotify_init1(IN_NONBLOCK);
  ASSERT_GE(watch, 0);
  ASSERT_GE(::inotify_add_watch(watch, folder_.c_str(), IN_CREATE | IN_MODIFY | IN_MOVED_TO), 0);
  ASSERT_TRUE(Ledger::open(folder_.string(), "j", {.model = "mlp"}).ok());
  alignas(inotify_event) char events[4096];
  const ssize_t size = ::read(watch, events, sizeof(events));
  ::close(watch);
  bool written = false, named = false;
  for (ssize_t at = 0; at < size;) {
    const auto* event = reinterpret_cast<const inotify_event*>(events + at);
    at += static_cast<ssize_t>(sizeof(inotify_event)) + event->len;
    if (event->mask & IN_MODIFY) written = true;
    if (fs::path(event->name).extension() != ".jsonl") continue;
    named = true;
    EXPECT_TRUE(event->mask & IN_MOVED_TO && written) << event->name << " came into being empty";
  }
  EXPECT_TRUE(named);
  EXPECT_EQ(names(folder_).size(), 1U);
}

TEST_F(LedgerFiles, say_first_what_is_trained_then_where_a_generation_began_then_each_step) {
  const fs::path made = folder_ / "some" / "where";
  auto ledger = Ledger::open(made.string(), "0123-abc", {.model = "mlp", .backend = "cpu", .seed = 7, .steps = 9});
  ASSERT_TRUE(ledger.ok()) << ledger.error().message;
  ASSERT_TRUE(
      (*ledger)->enter({.generation = 2, .rank = 1, .world = 3, .step = 4, .committed_in = 1, .digest = 5}).ok());
  ASSERT_TRUE(
      (*ledger)
          ->step({.step = 5, .generation = 2, .rank = 1, .world = 3, .batches = {{1, 0xabcU}, {4, 1U}}, .digest = 6})
          .ok());
  ASSERT_TRUE((*ledger)->step({.step = 6, .generation = 2, .rank = 1, .world = 3}).ok());
  ASSERT_TRUE((*ledger)->skipped({.file = "f", .offset = 7, .why = "data 'f' at offset 7: damaged"}).ok());

  ASSERT_EQ(names(made).size(), 1U);
  EXPECT_THAT(names(made)[0], ::testing::StartsWith("0123-abc-" + std::to_string(::getpid()) + "-"));
  std::vector<json> said = lines(made / names(made)[0]);
  ASSERT_EQ(said.size(), 5U);
  std::int64_t before = 0;
  for (json& line : said) {
    EXPECT_GE(line["ns"].get<std::int64_t>(), before);
    before = line["ns"];
    line.erase("ns");
  }
  EXPECT_EQ(said[0], json::parse(R"({"kind":"process","pid":)" + std::to_string(::getpid()) +
                                 R"(,"job":"0123-abc","model":"mlp","data":[],"backend":"cpu","seed":7,
                                    "deterministic":false,"steps":9,"batch_size":0,"micro_batch_size":0,"context":0})"));
  EXPECT_EQ(said[1], json::parse(R"({"kind":"enter","generation":2,"rank":1,"world":3,"from_step":4,"committed_in":1,
                                    "digest":"0000000000000005"})"));
  EXPECT_EQ(said[2], json::parse(R"({"kind":"step","step":5,"generation":2,"rank":1,"world":3,
                                    "batches":[[1,"00000abc"],[4,"00000001"]],"digest":"0000000000000006"})"));
  EXPECT_EQ(said[3], json::parse(R"({"kind":"step","step":6,"generation":2,"rank":1,"world":3,"batches":[],
                                    "digest":"0000000000000000"})"));
  EXPECT_EQ(said[4], json::parse(R"({"kind":"skipped","file":"f","offset":7,"why":"data 'f' at offset 7: damaged"})"));
}

TEST_F(LedgerFiles, are_one_for_each_process_and_a_strange_uid_stays_in_the_folder) {
  for (const char* uid : {"", "../../etc/x"}) {
    auto ledger = Ledger::open(folder_.string(), uid, {});
    ASSERT_TRUE(ledger.ok()) << ledger.error().message;
  }
  EXPECT_THAT(names(folder_),
              ::testing::UnorderedElementsAre(::testing::StartsWith("alone-"), ::testing::StartsWith("______etc_x-")));
}

TEST_F(LedgerFiles, a_folder_that_cannot_be_made_is_an_error_that_names_it) {
  std::ofstream(folder_ / "file");
  auto ledger = Ledger::open((folder_ / "file" / "below").string(), "", {});
  ASSERT_FALSE(ledger.ok());
  EXPECT_THAT(ledger.error().message, ::testing::HasSubstr((folder_ / "file" / "below").string()));
}

}  // namespace
}  // namespace lockstep::trainer::report
