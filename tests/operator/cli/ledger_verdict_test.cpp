#include "operator/cli/ledger_verdict.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lockstep::cli::ledger_verdict_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kMs = 1'000'000;
constexpr int kRanks = 2, kBatches = 4, kSteps = 10;

// Two ranks, ten steps of 10 ms. Rank 1 is killed in step 5; generation 2 begins 100 ms after step 4.
class Ledgers : public testing::Test {
 protected:
  void say(const std::string& line) { add_ledger_line(record_, "file", line); }
  void process() { say(R"({"kind":"process","pid":1,"ns":0,"steps":10,"batch_size":8,"micro_batch_size":2})"); }
  void enter(int generation, int rank, int from, int committed_in, std::int64_t ms, const std::string& digest = "") {
    say(fmt::format(R"({{"kind":"enter","generation":{},"rank":{},"world":{},"ns":{},"from_step":{},"committed_in":{},)"
                    R"("digest":"{}"}})",
                    generation, rank, kRanks, ms * kMs, from, committed_in,
                    digest.empty() ? fmt::format("{:016x}", from) : digest));
  }
  void commit(int generation, int rank, int step, std::int64_t ms, const std::string& batches = "",
              const std::string& digest = "") {
    say(fmt::format(R"({{"kind":"step","step":{},"generation":{},"rank":{},"world":{},"ns":{},"batches":[{}],)"
                    R"("digest":"{}"}})",
                    step, generation, rank, kRanks, ms * kMs,
                    !batches.empty() ? batches : fmt::format(R"([{},"0"],[{},"0"])", rank, rank + kRanks),
                    digest.empty() ? fmt::format("{:016x}", step) : digest));
  }
  void steps(int generation, int first, int last, std::int64_t from_ms) {
    for (int step = first; step <= last; ++step) {
      for (int rank = 0; rank < kRanks; ++rank) commit(generation, rank, step, from_ms + 10 * (step - first + 1));
    }
  }
  void entered(int generation, int from, int committed_in, std::int64_t ms) {
    for (int rank = 0; rank < kRanks; ++rank) enter(generation, rank, from, committed_in, ms);
  }
  void whole() {
    process();
    entered(1, 0, 0, 1000);
    steps(1, 1, 4, 1000);
    entered(2, 4, 1, 1140);
    steps(2, 5, kSteps, 1140);
  }
  LedgerVerdict judged(bool finished = true) const { return judge_ledger(record_, finished); }

  LedgerRecord record_;
};

TEST_F(Ledgers, of_a_job_that_recovered_have_no_violation_and_show_the_lost_time) {
  whole();
  const LedgerVerdict verdict = judged();
  EXPECT_THAT(verdict.violations, IsEmpty());
  EXPECT_EQ(verdict.effective.size(), 10U);
  EXPECT_EQ(verdict.effective.at(4), 1);
  EXPECT_EQ(verdict.effective.at(5), 2);
  EXPECT_EQ(verdict.wall_ns, 200 * kMs);
  EXPECT_EQ(verdict.lost_ns(), 100 * kMs);
  EXPECT_DOUBLE_EQ(verdict.goodput(), 0.5);
  ASSERT_EQ(verdict.lost.size(), 1U);
  EXPECT_EQ(verdict.lost[0].end_ns, 1150 * kMs);
  EXPECT_EQ(record_.total_steps, 10);
  EXPECT_EQ(record_.newest_step, 10);
  EXPECT_EQ(record_.commits, 10);
}

TEST_F(Ledgers, a_delayed_step_counts_as_four_of_the_mean_and_the_rest_is_lost) {
  process();
  entered(1, 0, 0, 1000);
  steps(1, 1, 9, 1000);
  for (int rank = 0; rank < kRanks; ++rank) commit(1, rank, 10, 1090 + 300);
  EXPECT_THAT(judged().violations, IsEmpty());
  EXPECT_EQ(judged().lost_ns(), (300 - 4 * 39) * kMs);
}

TEST_F(Ledgers, a_later_generation_takes_the_place_of_steps_that_it_does_again) {
  process();
  entered(1, 0, 0, 1000);
  steps(1, 1, 4, 1000);
  commit(1, 0, 5, 1050);  // and died with it
  entered(2, 4, 1, 1100);
  steps(2, 5, kSteps, 1100);
  const LedgerVerdict verdict = judged();
  EXPECT_THAT(verdict.violations, IsEmpty());
  EXPECT_EQ(verdict.effective.at(5), 2);
  EXPECT_EQ(verdict.done_again, 1);
}

TEST_F(Ledgers, a_step_of_one_rank_counts_when_the_others_took_its_state) {
  process();
  entered(1, 0, 0, 1000);
  steps(1, 1, 4, 1000);
  commit(1, 0, 5, 1050);
  entered(2, 5, 1, 1100);
  steps(2, 6, kSteps, 1100);
  EXPECT_THAT(judged().violations, IsEmpty());
  EXPECT_EQ(judged().effective.at(5), 1);
}

TEST_F(Ledgers, an_unfinished_job_is_in_order_as_far_as_it_came) {
  process();
  entered(1, 0, 0, 1000);
  steps(1, 1, 4, 1000);
  EXPECT_THAT(judged(false).violations, IsEmpty());
  EXPECT_THAT(judged(true).violations, testing::Contains("step 5 was committed by no rank"));
}

TEST_F(Ledgers, nothing_at_all_is_no_work) {
  EXPECT_EQ(judged(false).goodput(), 0);
  EXPECT_THAT(judged(false).violations, IsEmpty());
}

// Each of these has one violation.
TEST_F(Ledgers, each_violation_is_one_sentence) {
  struct Case {
    const char* sentence;
    std::function<void()> make;
  };
  const std::vector<Case> cases = {
      {"file: step 5 was committed twice by rank 1 of generation 2", [&] { whole(), commit(2, 1, 5, 2000); }},
      {"file: two processes were rank 0 of generation 2", [&] { whole(), enter(2, 0, 4, 1, 2000); }},
      {"file: it is of another job",
       [&] { whole(), say(R"({"kind":"process","steps":9,"batch_size":8,"micro_batch_size":2})"); }},
      {"file: a line is not one of a ledger", [&] { whole(), say("{"); }},
      {"step 3 of generation 1: 1 of 2 ranks committed it, and yet the generation continued",
       [&] { whole(), record_.generations[1].steps[3].erase(0); }},
      {"step 3 of generation 1: the ranks held different states after it",
       [&] { whole(), record_.generations[1].steps[3][1].digest = "f"; }},
      {"step 3 of generation 1: micro-batch 1 was applied twice",
       [&] {
         whole(), record_.generations[1].steps[3][0].batches = {1, 2};
       }},
      {"step 3 of generation 1: 3 of 4 micro-batches were applied",
       [&] { whole(), record_.generations[1].steps[3][0].batches = {2}; }},
      {"generation 1 went from step 2 to step 4", [&] { whole(), record_.generations[1].steps.erase(3); }},
      {"step 3 was committed by no rank", [&] { whole(), record_.generations[1].steps.erase(3); }},
      {"ranks 0 and 1 of generation 2 did not start from the same state",
       [&] { whole(), record_.generations[2].entered[1].digest = "f"; }},
      {"generation 2 continued from step 4 of generation 7, which does not count",
       [&] {
         whole();
         for (auto& [rank, line] : record_.generations[2].entered) line.committed_in = 7;
       }},
      {"generation 2 continued from another state than generation 1 had after step 4",
       [&] {
         whole();
         for (auto& [rank, line] : record_.generations[2].entered) line.digest = "f";
       }},
      {"generation 3 continued from step 5 of generation 1, which does not count",
       [&] {
         process(), entered(1, 0, 0, 1000), steps(1, 1, 5, 1000);
         entered(2, 4, 1, 1100), steps(2, 5, 5, 1100);
         entered(3, 5, 1, 1200), steps(3, 6, kSteps, 1200);
       }},
  };
  for (const Case& one : cases) {
    record_ = {};
    one.make();
    EXPECT_THAT(judged().violations, testing::Contains(HasSubstr(one.sentence)));
  }
}

TEST(LedgerReader, reads_lines_as_files_grow_and_ignores_files_that_existed) {
  std::string name = (std::filesystem::temp_directory_path() / "lockstep-ledgers-XXXXXX").string();
  const std::filesystem::path folder = std::filesystem::path(::mkdtemp(name.data())) / "deep";
  std::filesystem::create_directories(folder);
  const auto step = [](int number) {
    return fmt::format(R"({{"kind":"step","step":{},"generation":1,"rank":0,"world":1,"ns":1,"batches":[]}})", number);
  };
  std::ofstream(folder / "old.jsonl") << step(99) << "\n";
  auto reader = LedgerReader::open(folder.string());
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  std::ofstream(folder / "old.jsonl", std::ios::app) << step(100) << "\n";
  std::ofstream file(folder / "new.jsonl");
  file << step(1) << "\n" << step(2).substr(0, 10) << std::flush;
  (*reader)->read();
  EXPECT_EQ((*reader)->record().newest_step, 1);
  file << step(2).substr(10) << "\n" << step(3) << "\n" << std::flush;
  std::ofstream(folder / "notes.txt") << "nothing";
  (*reader)->read();
  (*reader)->read();
  EXPECT_EQ((*reader)->record().newest_step, 3);
  EXPECT_EQ((*reader)->record().generations.at(1).steps.size(), 3U);
  EXPECT_THAT((*reader)->record().oddities, IsEmpty());
  std::filesystem::remove_all(folder.parent_path());
}

}  // namespace
}  // namespace lockstep::cli::ledger_verdict_test
