#include "trainer/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstring>
#include <random>

#include "tests/trainer/checkpoint/small_model.h"

namespace lockstep::trainer::checkpoint {
namespace {

class Safetensors : public CheckpointTest {};

TEST_F(Safetensors, entries_come_back_with_their_places) {
  const SmallModel model = SmallModel::of(1);
  ASSERT_TRUE(write_safetensors(dir_, "x.safetensors", model.state().parameters).ok());
  const auto entries = read_safetensors_entries(dir_, "x.safetensors");
  ASSERT_TRUE(entries.ok()) << entries.error().message;
  ASSERT_EQ(entries->size(), 2U);
  EXPECT_EQ((*entries)[0].name, "layer.weight");
  EXPECT_EQ((*entries)[0].begin % 64, 0U) << "mapped files give aligned tensors";
  EXPECT_EQ((*entries)[0].end - (*entries)[0].begin, 48U);
  EXPECT_EQ((*entries)[1].begin, (*entries)[0].end);
}

TEST_F(Safetensors, a_plain_reading_in_python_finds_the_numbers) {
  const SmallModel model = SmallModel::of(3);
  ASSERT_TRUE(write_safetensors(dir_, "x.safetensors", model.state().parameters).ok());
  write(dir_ + "/read.py", R"(
import json, struct, sys
raw = open(sys.argv[1], 'rb').read()
(length,) = struct.unpack('<Q', raw[:8])
header = json.loads(raw[8:8 + length])
assert header.pop('__metadata__')['format'] == 'pt'
assert set(header) == {'layer.weight', 'layer.bias'}, header
w = header['layer.weight']
assert w['dtype'] == 'F32' and w['shape'] == [4, 3], w
begin, end = (8 + length + x for x in w['data_offsets'])
assert struct.unpack('<12f', raw[begin:end]) == tuple(i + 1.5 for i in range(12))
)");
  const int status = std::system(("python3 " + dir_ + "/read.py " + dir_ + "/x.safetensors").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Safetensors, headers_that_lie_are_refused) {
  const auto parse = [](const std::string& json, std::uint64_t data) {
    std::string text(8, '\0');
    const std::uint64_t length = json.size();
    std::memcpy(text.data(), &length, 8);
    return parse_safetensors_header(text + json, 8 + length + data);
  };
  EXPECT_TRUE(parse(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8).ok());
  for (
      const char* json : {
          "",
          "[]",
          "{",
          R"({"a":3})",
          R"({"a":{"dtype":"F32","shape":[2]}})",
          R"({"a":{"dtype":"X","shape":[2],"data_offsets":[0,8]}})",
          R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
          R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
          R"({"a":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551608,18446744073709551615]}})",
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      }) {
    EXPECT_FALSE(parse(json, 8).ok()) << json;
  }
  EXPECT_FALSE(parse_safetensors_header("short", 5).ok());
  EXPECT_FALSE(parse_safetensors_header(std::string(8, '\xff') + "{}", 10).ok());
}

// A sparse file: a header that is read would be zeros, and no JSON.
TEST_F(Safetensors, a_header_without_bound_is_not_read) {
  const std::string path = dir_ + "/x";
  for (const std::uint64_t length : {kMostHeaderBytes, kMostHeaderBytes + 1}) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&length), sizeof length);
    std::filesystem::resize_file(path, 8 + length);
    const auto entries = read_safetensors_entries(dir_, "x");
    ASSERT_FALSE(entries.ok());
    EXPECT_EQ(entries.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(entries.error().message,
                ::testing::HasSubstr(length > kMostHeaderBytes ? "its header has 16777217 bytes, at most 16777216"
                                                               : "its header is no JSON object"));
  }
}

TEST_F(Safetensors, random_changes_to_a_header_are_survived) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const SmallModel model = SmallModel::of(1);
  const std::string header = safetensors_header(model.state().parameters).value();
  for (int i = 0; i < 2000; ++i) {
    std::string text = header;
    for (unsigned k = 0; k <= random() % 4; ++k) text[random() % text.size()] = static_cast<char>(random());
    (void)parse_safetensors_header(text, header.size() + 60);
  }
}

TEST_F(Safetensors, tensors_that_contradict_themselves_are_not_written) {
  const SmallModel model = SmallModel::of(1);
  auto twice = model.state().parameters;
  twice[1].name = twice[0].name;
  EXPECT_EQ(write_safetensors(dir_, "x", twice).error().code, ErrorCode::kInvalid);
  auto wrong = model.state().parameters;
  wrong[0].shape = {5, 3};
  EXPECT_EQ(write_safetensors(dir_, "x", wrong).error().code, ErrorCode::kInvalid);
}

TEST_F(Safetensors, the_state_digest_depends_on_contents_alone) {
  const SmallModel model = SmallModel::of(1);
  const State state = model.state();
  const std::string digest = state_digest(state).value();
  State shuffled;  // other order, other lists
  shuffled.optimizer = {state.optimizer[1], state.parameters[1], state.optimizer[0], state.parameters[0]};
  EXPECT_EQ(state_digest(shuffled).value(), digest);
  State renamed = state;
  renamed.parameters[0].name = "layer.w";
  EXPECT_NE(state_digest(renamed).value(), digest);
  State reshaped = state;
  reshaped.parameters[0].shape = {3, 4};
  EXPECT_NE(state_digest(reshaped).value(), digest);
  SmallModel changed = model;
  changed.counter += 1;
  EXPECT_NE(state_digest(changed.state()).value(), digest);
  State twice = state;
  twice.optimizer.push_back(state.parameters[0]);
  EXPECT_FALSE(state_digest(twice).ok());
}

}  // namespace
}  // namespace lockstep::trainer::checkpoint
