// The ledger of the program: each committed step once, and nothing else. tests/ledger has the checker that knows which
// bytes belong to which step.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/trainer/main/played_gang.h"

namespace lockstep::trainer {
namespace {

using nlohmann::json;
using testing::Ended;
using ::testing::HasSubstr;
using testing::PlayedGang;
namespace fs = std::filesystem;

class LedgerOfTraining : public testing::InFolder {
 protected:
  static std::vector<std::string> training(int steps, std::vector<std::string> more = {}) {
    more.insert(more.begin(),
                {"--model=mlp", "--width=16", "--steps=" + std::to_string(steps), "--deterministic", "--log-every=1"});
    return more;
  }
  std::string folder(const std::string& name) const { return (folder_ / name).string(); }

  // The lines of `kind` of each process.
  static std::vector<std::vector<json>> lines(const std::string& folder, const std::string& kind) {
    std::vector<std::vector<json>> all;
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::vector<json>& list = all.emplace_back();
      std::ifstream text(entry.path());
      for (std::string line; std::getline(text, line);) {
        json object = json::parse(line);
        if (object["kind"] == kind) list.push_back(std::move(object));
      }
    }
    return all;
  }
  // By step, of a run of one process.
  static std::map<int, std::string> digests(const std::string& folder) {
    std::map<int, std::string> found;
    const auto processes = lines(folder, "step");
    for (const json& line : processes.at(0)) found[line["step"]] = line["digest"];
    return found;
  }
};

TEST_F(LedgerOfTraining, the_flag_precedes_the_environment_for_the_ledgers_path) {
  ASSERT_EQ(run(training(3, {"--ledger=" + folder("flag")}), {{"LOCKSTEP_LEDGER", folder("unused")}}).code, 0);
  ASSERT_EQ(run(training(3), {{"LOCKSTEP_LEDGER", folder("environment")}}).code, 0);
  ASSERT_EQ(run(training(3)).code, 0);
  EXPECT_FALSE(fs::exists(folder("unused")));
  EXPECT_EQ(digests(folder("flag")).size(), 3U);
  EXPECT_EQ(digests(folder("flag")), digests(folder("environment")));
}

TEST_F(LedgerOfTraining, that_cannot_be_kept_ends_the_program_before_it_trains) {
  std::ofstream(folder_ / "file");
  Ended ended = run(training(3, {"--ledger=" + folder("file")}));
  EXPECT_EQ(ended.code, 78);
  EXPECT_THAT(ended.err, HasSubstr(folder("file")));
  EXPECT_EQ(ended.out, "");
}

TEST_F(LedgerOfTraining, has_each_step_of_each_rank_once_after_a_rank_was_lost) {
  constexpr int kSteps = 120;
  constexpr size_t kRanks = 4, kMicroBatches = 8;
  ASSERT_EQ(run(training(kSteps, {"--ledger=" + folder("alone")})).code, 0);
  const std::map<int, std::string> expected = digests(folder("alone"));

  PlayedGang gang(folder_, kRanks, training(kSteps, {"--ledger=" + folder("gang")}));
  gang.start();
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(2);
  gang.form(2);
  for (const Ended& ended : gang.wait()) EXPECT_EQ(ended.code, 0) << ended.err;

  std::map<int, std::map<int, std::set<int>>> ranks;       // by generation and step
  std::map<int, std::map<int, std::set<size_t>>> applied;  // micro-batches, the same
  auto processes = lines(folder("gang"), "step");
  EXPECT_EQ(processes.size(), kRanks + 1);
  for (const auto& process : processes) {
    for (size_t i = 0; i < process.size(); ++i) {
      const json& line = process[i];
      const int generation = line["generation"], step = line["step"], rank = line["rank"];
      if (i > 0) {  // in another generation it may take the state of one that was a step ahead
        const int before = process[i - 1]["step"];
        EXPECT_GE(step, before + 1);
        if (generation == process[i - 1]["generation"].get<int>()) {
          EXPECT_EQ(step, before + 1);
        }
      }
      EXPECT_EQ(line["digest"], expected.at(step)) << "step " << step;
      EXPECT_TRUE(ranks[generation][step].insert(rank).second) << "twice: step " << step << " of rank " << rank;
      for (const json& batch : line["batches"]) {
        EXPECT_TRUE(applied[generation][step].insert(batch[0].get<size_t>()).second)
            << "twice: a micro-batch of step " << step;
      }
    }
  }
  ASSERT_FALSE(ranks[2].empty());
  const int first = ranks[2].begin()->first;
  for (int step = 1; step <= kSteps; ++step) {
    // What the dead rank computed for the last step that the others committed is not in its ledger.
    if (step == first - 1) continue;
    const int generation = step < first ? 1 : 2;
    EXPECT_EQ(ranks[generation][step].size(), kRanks) << "step " << step;
    EXPECT_EQ(applied[generation][step].size(), kMicroBatches) << "step " << step;
  }
  EXPECT_EQ(ranks[1].size(), static_cast<size_t>(first - 1)) << "and nothing of a step that was not committed";
  for (const auto& process : lines(folder("gang"), "enter")) {
    for (const json& line : process) {
      if (line["from_step"] == 0) continue;
      EXPECT_EQ(line["digest"], expected.at(line["from_step"]));
      EXPECT_EQ(line["from_step"], first - 1);
      EXPECT_EQ(line["committed_in"], 1);
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer
