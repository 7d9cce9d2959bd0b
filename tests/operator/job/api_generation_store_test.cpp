// Records in ConfigMaps: compare-and-set, ownership, and text that is none.
#include "operator/job/api_generation_store.h"

#include <gtest/gtest.h>

#include "operator/api/object.h"
#include "operator/local/memory_api.h"

namespace lockstep::job::api_generation_store_test {
namespace {

using rendezvous::Record;

Record some_record() {
  Record record;
  record.term = 3;
  record.writer = "0123456789abcdef";
  record.generation = 7;
  record.members = {{0, 1, 2}, {1, 4, 1}};
  record.checkpoint = rendezvous::CheckpointReport{"step-120.g3", 120, 3, "abc"};
  return record;
}

TEST(ApiGenerationStore, a_record_comes_back_as_it_went) {
  Record record = some_record();
  EXPECT_EQ(*record_from_text(record_to_text(record)), record);
  record.finished = true;
  record.progress = rendezvous::Progress{.step = 7, .total_steps = 9, .epoch = 1, .loss = 0.5};
  record.checkpoint.reset();
  EXPECT_EQ(*record_from_text(record_to_text(record)), record);
}

TEST(ApiGenerationStore, a_record_of_the_first_format_is_read_as_such) {
  const auto record = record_from_text(
      R"({"term":3,"generation":7,"members":[{"slot":1,"incarnation":4,"life":1},{"slot":0,"incarnation":1,"life":2}]})");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->format, 1);
  EXPECT_EQ(record->members.size(), 2U);
}

TEST(ApiGenerationStore, a_record_whose_ranks_follow_slots_is_one_for_the_baseline) {
  const api::Json json = api::Json::parse(record_to_text(some_record()));
  EXPECT_EQ(json.at("format"), 2);
  ASSERT_EQ(json.at("members").size(), 2U);
  EXPECT_EQ(json.at("members").at(1).at("incarnation"), 4);
}

// The baseline takes the ranks of `members` from their slots.
TEST(ApiGenerationStore, of_a_record_in_another_order_the_baseline_finds_nobody_who_is_expected) {
  Record record = some_record();
  std::swap(record.members[0], record.members[1]);
  const std::string text = record_to_text(record);
  const api::Json json = api::Json::parse(text);
  EXPECT_EQ(json.at("format"), 3);
  ASSERT_EQ(json.at("members").size(), 1U);
  EXPECT_LT(json.at("members").at(0).at("incarnation"), 0) << "pods have incarnations from 1 on";
  EXPECT_EQ(json.at("generation"), 7);
  EXPECT_EQ(*record_from_text(text), record);
}

TEST(ApiGenerationStore, a_record_of_the_second_format_is_in_order_of_rank) {
  const auto record =
      record_from_text(R"({"format":2,"term":3,"generation":7,"members":[{"slot":1,"incarnation":4,"life":1},)"
                       R"({"slot":0,"incarnation":1,"life":2}]})");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->format, rendezvous::kRecordFormat);
  EXPECT_EQ(record->members[0].slot, 1);
}

TEST(ApiGenerationStore, of_a_record_of_a_later_format_the_members_are_not_known) {
  const auto record =
      record_from_text(R"({"format":9,"term":3,"generation":7,"members":{"racks":[[0,1]]},"checkpoint":)"
                       R"({"name":"step-120.g3","step":120,"generation":3,"digest":"abc"}})");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->format, 9);
  EXPECT_EQ(record->generation, 7) << "its number is not used again";
  EXPECT_EQ(record->checkpoint->step, 120) << "training goes on from there";
  EXPECT_TRUE(record->members.empty());
}

TEST(ApiGenerationStore, text_that_is_no_record_is_corrupt) {
  for (
      const char* text :
      {"", "x", "[]", "{}", R"({"term":"1","generation":1,"members":[]})", R"({"term":1,"generation":1,"members":[1]})",
       R"({"term":9223372036854775807,"generation":1,"members":[]})", R"({"term":1,"generation":-1,"members":[]})",
       R"({"term":1,"generation":1,"members":[{"slot":-1,"incarnation":1,"life":0}]})",
       R"({"term":1,"generation":1,"members":[{"slot":4294967296,"incarnation":1,"life":0}]})",
       R"({"term":1,"generation":1,"members":[{"slot":0,"incarnation":1.5,"life":0}]})",
       R"({"term":1,"generation":1,"members":[{"slot":0,"incarnation":1,"life":0},{"slot":0,"incarnation":2,"life":0}]})",
       R"({"term":1,"generation":1,"format":4294967298,"members":[]})",
       R"({"term":1,"generation":1,"format":0,"members":[]})",
       R"({"term":1,"generation":1,"members":[],"progress":{"step":-1,"totalSteps":1,"epoch":0,"loss":1}})"}) {
    const auto record = record_from_text(text);
    ASSERT_FALSE(record) << text;
    EXPECT_EQ(record.error().code, ErrorCode::kCorrupt) << text;
  }
}

TEST(ApiGenerationStore, writes_are_compare_and_set) {
  local::MemoryApi api;
  ApiGenerationStore store(api);
  const auto none = store.load("default", "a", "uid-1");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->version, "");
  EXPECT_EQ(none->record, Record{});
  const auto first = store.compare_and_set("default", "a", "uid-1", "", some_record());
  ASSERT_TRUE(first);
  EXPECT_EQ(store.compare_and_set("default", "a", "uid-1", "", some_record()).error().code, ErrorCode::kConflict);
  Record next = some_record();
  ++next.generation;
  const auto second = store.compare_and_set("default", "a", "uid-1", *first, next);
  ASSERT_TRUE(second);
  EXPECT_EQ(store.compare_and_set("default", "a", "uid-1", *first, next).error().code, ErrorCode::kConflict);
  const auto loaded = store.load("default", "a", "uid-1");
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->record, next);
  EXPECT_EQ(loaded->version, *second);
  const auto object = api.get(kube::kConfigMaps, "default", "a-record");
  ASSERT_TRUE(object);
  EXPECT_EQ(api::parse_meta(*object)->controller_uid(), "uid-1");
}

TEST(ApiGenerationStore, the_record_of_an_earlier_job_of_that_name_is_not_used) {
  local::MemoryApi api;
  ApiGenerationStore store(api);
  ASSERT_TRUE(store.compare_and_set("default", "a", "uid-1", "", some_record()));
  EXPECT_EQ(store.load("default", "a", "uid-2").error().code, ErrorCode::kUnavailable);
}

// --cascade=orphan leaves the record, and its name is the new job's, too.
TEST(ApiGenerationStore, the_record_of_a_job_that_is_gone_is_taken_over_by_its_successor) {
  local::MemoryApi api;
  ApiGenerationStore store(api);
  const api::Json job{{"apiVersion", kube::kTrainingJobs.api_version()},
                      {"kind", kube::kTrainingJobs.kind},
                      {"metadata", {{"name", "a"}, {"namespace", "default"}}},
                      {"spec", api::Json::object()}};
  const auto uid_of = [](const Result<api::Json>& object) { return api::parse_meta(*object)->uid; };
  const auto old_uid = uid_of(api.create(kube::kTrainingJobs, "default", job));
  ASSERT_TRUE(store.compare_and_set("default", "a", old_uid, "", some_record()));
  ASSERT_TRUE(api.remove(kube::kTrainingJobs, "default", "a", {.propagation = "Orphan"}));
  const auto uid = uid_of(api.create(kube::kTrainingJobs, "default", job));

  EXPECT_EQ(store.load("default", "a", old_uid).error().code, ErrorCode::kUnavailable)
      << "a leader that has not seen the new job yet takes nothing";
  const auto found = store.load("default", "a", uid);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->record, Record{});
  EXPECT_FALSE(found->version.empty()) << "what is replaced is the very object that was looked at";
  EXPECT_EQ(store.compare_and_set("default", "a", uid, "1", some_record()).error().code, ErrorCode::kConflict);
  ASSERT_TRUE(store.compare_and_set("default", "a", uid, found->version, some_record()));
  EXPECT_EQ(store.load("default", "a", uid)->record, some_record());
}

}  // namespace
}  // namespace lockstep::job::api_generation_store_test
