#include "trainer/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <random>

namespace lockstep::trainer::checkpoint {
namespace {

Manifest sample() {
  Manifest manifest;
  manifest.step = 120;
  manifest.generation = 3;
  manifest.lineage = 1;
  manifest.job_uid = "uid";
  manifest.identity = {"mlp", "abc", 18446744073709551615ULL, "onednn-avx512"};
  manifest.cursor = {2, 345};
  manifest.digest = "d1";
  manifest.created_at = "2026-11-20T12:34:56Z";
  manifest.files = {{"model.safetensors", 1234, "aa"}, {"optimizer.safetensors", 0, "bb"}};
  manifest.metadata = R"({"lr":0.1,"names":["a","b"]})";
  return manifest;
}

TEST(Manifest, comes_back_as_it_was) {
  const auto back = decode_manifest(encode(sample()).value());
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, sample());
}

TEST(Manifest, any_changed_character_is_noticed_or_means_the_same) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string whole = encode(sample()).value();
  for (int i = 0; i < 500; ++i) {
    std::string text = whole;
    text[random() % text.size()] = static_cast<char>(random());
    const auto back = decode_manifest(text);
    EXPECT_TRUE(!back.ok() || *back == sample()) << "changed white space at most";
  }
}

TEST(Manifest, a_later_format_says_so) {
  Manifest later = sample();
  later.format_version = kFormatVersion + 1;
  const auto back = decode_manifest(encode(later).value());
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(back.error().message, "it has format version 3, this program reads up to 2");
}

TEST(Manifest, metadata_that_is_no_object_is_refused) {
  Manifest manifest = sample();
  for (const char* metadata : {"", "3", "[1]", "{", "{}x"}) {
    manifest.metadata = metadata;
    EXPECT_FALSE(encode(manifest).ok()) << metadata;
  }
}

TEST(Manifest, deep_nesting_and_other_files_are_refused) {
  EXPECT_FALSE(decode_manifest(std::string(100'000, '[')).ok());
  EXPECT_FALSE(decode_manifest(std::string(50'000, '[') + std::string(50'000, ']')).ok());
  EXPECT_FALSE(decode_manifest("{}").ok());
  EXPECT_FALSE(decode_manifest(R"({"kind":"lockstep-checkpoint"})").ok());
}

TEST(Manifest, folder_names_are_read_only_in_the_form_in_which_they_are_written) {
  const auto read = parse_folder_name("step-120.g3");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->step, 120);
  EXPECT_EQ(read->generation, 3);
  EXPECT_EQ(folder_name(120, 3), "step-120.g3");
  for (const char* name : {"", "step-", "step-1", "step-1.g", "step-.g1", "step--1.g1", "step-1.g1/", "step-01.g1",
                           "Step-1.g1", "step-1.g1.tmp", "step-99999999999999999999.g1", "../step-1.g1"}) {
    EXPECT_FALSE(parse_folder_name(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace lockstep::trainer::checkpoint
