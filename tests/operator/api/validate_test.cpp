#include "operator/api/validate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "operator/api/lookup.h"
#include "operator/api/schema.h"
#include "operator/api/training_job.h"
#include "operator/api/validation_rules.h"

namespace lockstep::api::validate_test {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = LOCKSTEP_SOURCE_DIR;

std::string read(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// "9:3: spec.nodes: must be at least 1"
std::vector<std::string> problems_of(const std::string& text) {
  std::vector<std::string> result;
  for (const Problem& problem : read_job_file(text).problems) {
    result.push_back(fmt::format("{}:{}: {}", problem.at.line, problem.at.column, problem.text()));
  }
  return result;
}

std::vector<fs::path> files_in(const char* folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kRoot / folder)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Every file has its expected errors in its first lines, verbatim:
//   # expect: <line>:<column>: <path>: <sentence>      without a cluster
//   # expect-apply: <part of the API server's answer>  checked if there is one
class BadInput : public testing::TestWithParam<fs::path> {};

TEST_P(BadInput, is_refused_with_the_sentence_that_it_names) {
  const std::string text = read(GetParam());
  std::vector<std::string> expected;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# expect: ", 0) == 0) expected.push_back(line.substr(10));
  }
  ASSERT_FALSE(expected.empty()) << "no '# expect:' line";
  EXPECT_EQ(problems_of(text), expected);
}

INSTANTIATE_TEST_SUITE_P(Files, BadInput, testing::ValuesIn(files_in("tests/bad_input")),
                         [](const auto& file) { return file.param.stem().string(); });

class Example : public testing::TestWithParam<fs::path> {};

TEST_P(Example, has_no_problem) {
  EXPECT_EQ(problems_of(read(GetParam())), std::vector<std::string>());
  EXPECT_TRUE(parse_training_job(read_job_file(read(GetParam())).json));
}

INSTANTIATE_TEST_SUITE_P(Files, Example, testing::ValuesIn(files_in("examples")), [](const auto& file) {
  std::string name = file.param.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

Json small_job() {
  return Json::parse(R"({"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "a"},
                         "spec": {"image": "i", "command": ["c"], "nodes": 1}})");
}

// Every CEL rule of the schema that does not compare with the old object: place, message, fieldPath.
using RuleName = std::tuple<std::string, std::string, std::string>;
void collect_rules(const Json& schema, const std::string& place, std::set<RuleName>& rules) {
  for (const Json& rule : at(schema, "x-kubernetes-validations")) {
    if (text_of(at(rule, "rule")).find("oldSelf") != std::string::npos) continue;
    const std::string field = text_of(at(rule, "fieldPath"));
    rules.emplace(place, text_of(at(rule, "message")), field.empty() ? field : field.substr(1));
  }
  for (const auto& [key, field] : at(schema, "properties").items()) {
    collect_rules(field, place.empty() ? key : place + "." + key, rules);
  }
  if (schema.contains("items")) collect_rules(schema["items"], place + "[]", rules);
  if (schema.contains("additionalProperties")) collect_rules(schema["additionalProperties"], place + "{}", rules);
}

TEST(ValidationRules, are_those_of_the_crd) {
  std::set<RuleName> in_crd, in_program;
  collect_rules(training_job_schema(), "", in_crd);
  for (const ValidationRule& rule : validation_rules()) in_program.emplace(rule.place, rule.message, rule.field);
  EXPECT_GT(in_crd.size(), 30u);
  EXPECT_EQ(in_crd, in_program);
}

TEST(ValidationRules, hold_for_values_of_any_type) {
  const Json values =
      Json::parse(R"([null, true, 0, -1, 1.5, "", "x", [], [null], [[1]], {}, {"a": null}, {"env": 1}])");
  for (const ValidationRule& rule : validation_rules()) {
    for (const Json& value : values) (void)rule.holds(value);
  }
}

TEST(Validate, takes_the_smallest_job) {
  EXPECT_TRUE(validate(small_job()).empty());
}

TEST(Validate, takes_every_field_that_a_struct_can_write) {
  auto job = parse_training_job(small_job());
  ASSERT_TRUE(job);
  TrainingJobStatus& status = job->status;
  status.conditions = {{"Running", "True", "Up", "all", 1, WallTime{}}};
  status.attempts.push_back({.generation = 1,
                             .cause = Cause::kProcessExit,
                             .first_failing_rank = 0,
                             .pod = "p",
                             .node = "n",
                             .exit_code = 1,
                             .message = "m",
                             .strategy = api::Strategy::kInPlace,
                             .counted = true,
                             .start_time = WallTime{},
                             .end_time = WallTime{},
                             .step = 1,
                             .detect_ms = 1,
                             .agree_ms = 1,
                             .start_ms = 1,
                             .first_step_ms = 1});
  status.progress = ProgressStatus{.step = 1,
                                   .total_steps = 2,
                                   .epoch = 3,
                                   .loss = "1.0",
                                   .samples_per_second = "2.0",
                                   .percentage = 50,
                                   .eta_seconds = 10,
                                   .last_update = WallTime{}};
  status.start_time = status.completion_time = WallTime{};
  status.state = status.selector = status.nodes.summary = "x";
  status.restarts.last_cause = Cause::kHang;
  status.slots = {{1, SlotTrouble::kSilent, "p", "n", WallTime{}, 3}};
  job->spec.restart.rules.push_back({{"NodeLost"}, {3}, RuleAction::kRestart, true});
  status.placement = PlacementStatus{{"b1/r1"}, "rack", "1.5"};
  job->spec.placement = {"block", "rack", 5, true, 6};
  job->spec.scheduling = {SchedulingBackend::kLockstep, "high", "other"};
  job->spec.shm_size = "1Gi";
  job->spec.deadlines.active_seconds = 1;
  job->spec.ttl_seconds_after_finished = 1;
  for (const Problem& problem : validate(to_json(*job))) ADD_FAILURE() << problem.text();
}

TEST(Validate, says_at_most_a_hundred_things) {
  Json job = small_job();
  for (int i = 0; i < 1000; ++i) job["spec"][fmt::format("x{}", i)] = i;
  EXPECT_EQ(validate(job).size(), 100u);
}

TEST(Validate, any_value_anywhere_is_accepted_or_refused_with_a_sentence) {
  const Json values = Json::parse(R"([null, true, -1, 1e300, "", "x", [], [null], [[]], {}, {"a": null}])");
  Json job = with_defaults(small_job());
  job["spec"]["env"] = Json::parse(R"([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}])");
  job["spec"]["resources"] = Json::parse(R"({"limits": {"cpu": 1}})");
  job["spec"]["placement"] = Json::parse(R"({"required": "a", "preferred": "b", "preferredWaitSeconds": 1})");
  job["spec"]["scheduling"] = Json::parse(R"({"backend": "None", "priorityClassName": "a", "schedulerName": "b"})");
  job["spec"]["restart"]["rules"] = Json::parse(R"([{"onReasons": ["A"], "onExitCodes": [1]}])");
  const Json flat = job.flatten();
  for (const auto& [pointer, unused] : flat.items()) {
    for (const Json& value : values) {
      for (Json::json_pointer place(pointer);; place.pop_back()) {
        Json broken = job;
        broken[place] = value;
        for (const Problem& problem : validate(broken)) EXPECT_FALSE(problem.sentence.empty());
        if (place.empty()) break;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::api::validate_test
