// Finding, loading and pruning: whole checkpoints load bit by bit, anything else gives one sentence.
#include "trainer/checkpoint/reader.h"

#include <gmock/gmock.h>

#include "tests/trainer/checkpoint/small_model.h"
#include "trainer/checkpoint/files.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep::trainer::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Load : public CheckpointTest {
 protected:
  // Loads over other values and returns the result. `garbage`: the buffers may change all the same.
  Error refused(const std::string& name, const Identity& expected, bool garbage = false) {
    SmallModel model = SmallModel::of(99);
    const auto manifest = load(dir_, name, expected, model.buffers());
    if (!garbage) {
      EXPECT_EQ(model, SmallModel::of(99)) << "buffers change only when everything fits";
    }
    if (manifest.ok()) {
      ADD_FAILURE() << "it was loaded";
      return {};
    }
    EXPECT_EQ(manifest.error().message.find('\n'), std::string::npos) << "one sentence";
    return manifest.error();
  }
};

TEST_F(Load, a_checkpoint_loads_bitwise_identical_with_its_place_in_the_data) {
  const std::string name = save(120, 3, 5);
  EXPECT_EQ(name, "step-120.g3");
  SmallModel model;
  const auto manifest = load(dir_, name, identity_, model.buffers());
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ(model, SmallModel::of(5));
  EXPECT_EQ(manifest->step, 120);
  EXPECT_EQ(manifest->generation, 3);
  EXPECT_EQ(manifest->cursor, (DataCursor{1, 1200}));
  EXPECT_EQ(manifest->metadata, R"({"note":"x"})");
  EXPECT_EQ(manifest->digest, state_digest(SmallModel::of(5).state()).value());
}

// Bytes that this process has read from files so far.
std::uint64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::uint64_t bytes = 0;
  io >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

TEST_F(Load, each_file_is_read_once) {
  std::vector<float> big(2'000'000, 1.0F);
  const std::vector<std::int64_t> shape = {2'000'000};
  const auto to = writer(1);
  const State state{.parameters = {{"w", DataType::kFloat32, shape, std::as_bytes(std::span(big))}}, .optimizer = {}};
  ASSERT_TRUE(to->write({.step = 1, .state = state}, Busy::kSkip, {}).value());
  to->confirm(2);
  ASSERT_TRUE(to->flush(std::chrono::seconds(60)).ok());
  const StateBuffers buffers{.parameters = {{"w", DataType::kFloat32, shape, std::as_writable_bytes(std::span(big))}},
                             .optimizer = {}};
  const std::uint64_t before = bytes_read();
  ASSERT_TRUE(load(dir_, "step-1.g1", identity_, buffers).ok());
  const std::uint64_t read = bytes_read() - before;
  EXPECT_GE(read, big.size() * sizeof(float));
  EXPECT_LT(read, big.size() * sizeof(float) * 3 / 2) << "the deadline counts the bytes of the state once";
}

TEST_F(Load, parameters_alone_do_not_mind_another_seed) {
  const std::string name = save(1, 1, 5);
  SmallModel model = SmallModel::of(99);
  Identity other = identity_;
  other.seed = 8;
  const auto manifest = load_parameters(dir_, name, other, model.buffers().parameters);
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ(model.weight, SmallModel::of(5).weight);
  EXPECT_EQ(model.moment, SmallModel::of(99).moment);
}

TEST_F(Load, another_model_configuration_seed_or_numerics_is_refused_by_name) {
  const std::string name = save(1, 1);
  Identity other = identity_;
  other.model = "large";
  EXPECT_THAT(refused(name, other).message, HasSubstr("is of the model 'small', this run trains 'large'"));
  other = identity_;
  other.model_hash = "h2";
  EXPECT_THAT(refused(name, other).message, HasSubstr("'small' with another configuration (h1, this run has h2)"));
  other = identity_;
  other.seed = 8;
  EXPECT_THAT(refused(name, other).message, HasSubstr("was trained with seed 7, this run has seed 8"));
  other = identity_;
  other.numerics_id = "avx512";
  const Error error = refused(name, other);
  EXPECT_THAT(error.message, HasSubstr("with the numerics 'any', this run is --deterministic with 'avx512'"));
  EXPECT_EQ(error.code, ErrorCode::kInvalid);
}

TEST_F(Load, a_truncated_longer_changed_or_missing_file_has_its_own_error) {
  for (const char* file : {kModelFile, kOptimizerFile}) {
    const std::string name = save(std::string(file) == kModelFile ? 1 : 2, 1);
    const std::string whole = read(path(name, file));
    write(path(name, file), whole.substr(0, whole.size() - 1));
    Error error = refused(name, identity_);
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr(path(name, file) + " is truncated"));
    write(path(name, file), whole + "x");
    EXPECT_THAT(refused(name, identity_).message, HasSubstr("is too long"));
    std::string changed = whole;
    changed[changed.size() - 3] = static_cast<char>(changed[changed.size() - 3] ^ 1);
    write(path(name, file), changed);
    error = refused(name, identity_, true);
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr(path(name, file) + " is corrupt"));
    changed = whole;
    changed[whole.find("layer")] = 'L';  // in the header: of a name, which is then of no tensor of the model
    write(path(name, file), changed);
    EXPECT_THAT(refused(name, identity_).message, HasSubstr(path(name, file) + " is corrupt"));
    std::filesystem::remove(path(name, file));
    EXPECT_THAT(refused(name, identity_).message, HasSubstr(path(name, file) + " is missing"));
  }
}

TEST_F(Load, a_checkpoint_that_was_never_finished_or_is_not_there_is_said_so) {
  const std::string name = save(1, 1);
  std::filesystem::remove(path(name, kManifestFile));
  Error error = refused(name, identity_);
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("was never finished"));
  EXPECT_THAT(refused("step-9.g9", identity_).message, HasSubstr("there is no checkpoint"));
  EXPECT_THAT(refused("../etc", identity_).message, HasSubstr("is not the name of a checkpoint"));
}

TEST_F(Load, every_truncation_of_a_manifest_is_refused) {
  const std::string name = save(1, 1);
  const std::string whole = read(path(name, kManifestFile));
  for (size_t length = 0; length + 1 < whole.size(); length += 7) {
    write(path(name, kManifestFile), whole.substr(0, length));
    EXPECT_EQ(refused(name, identity_).code, ErrorCode::kCorrupt);
  }
}

TEST_F(Load, tensors_of_another_shape_type_or_name_are_refused_by_name) {
  const std::string name = save(1, 1);
  SmallModel model;
  const auto says = [&](const StateBuffers& buffers) {
    const auto result = load(dir_, name, identity_, buffers);
    return result.ok() ? "loaded" : result.error().message;
  };
  StateBuffers buffers = model.buffers();
  buffers.parameters[1].shape = {3, 4};
  EXPECT_THAT(says(buffers), HasSubstr("'layer.weight' is F32 [4, 3] in it and F32 [3, 4] here"));
  buffers = model.buffers();
  buffers.parameters[0].name = "layer.scale";
  EXPECT_THAT(says(buffers), HasSubstr("it lacks 'layer.scale'"));
  buffers = model.buffers();
  buffers.parameters.pop_back();
  EXPECT_THAT(says(buffers), HasSubstr("it has 'layer.weight', which is not known here"));
}

// Each of them may be read, and both together are longer than what is read.
TEST_F(Load, headers_of_shards_have_a_bound_together) {
  const std::string name = save(1, 1);
  Manifest manifest = verify(dir_, name).value();
  std::erase_if(manifest.files, [](const FileDigest& file) { return file.name == kModelFile; });
  const SmallModel model = SmallModel::of(1);
  for (size_t i = 0; i < 2; ++i) {
    const NamedTensor tensor = model.state().parameters[i];
    std::string header = safetensors_header({tensor}).value().substr(8);
    header.resize(kMostHeaderBytes / 2 + 1, ' ');
    const std::uint64_t length = header.size();
    const std::string file = "model-0000" + std::to_string(i + 1) + "-of-00002.safetensors";
    write(path(name, file), std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
                                std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()));
    manifest.files.push_back(digest_file(dir_ + "/" + name, file).value());
  }
  write(path(name, kManifestFile), encode(manifest).value());
  const Error error = refused(name, identity_);
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("model-00002-of-00002.safetensors: not a safetensors file: its header has "));
}

class List : public CheckpointTest {};

TEST_F(List, goes_from_newest_to_oldest_and_leaves_out_what_cannot_be_used) {
  save(10, 1);
  save(20, 1);
  save(15, 2);
  save(5, 2);
  const std::string torn = save(30, 2);
  write(path(torn, kModelFile), "short");
  const std::string unfinished = save(40, 2);
  std::filesystem::remove(path(unfinished, kManifestFile));
  std::filesystem::create_directories(dir_ + "/not-a-checkpoint");
  const auto list = list_valid(dir_);
  ASSERT_TRUE(list.ok());
  std::vector<std::string> names;
  for (const Listed& listed : *list) names.push_back(listed.name);
  EXPECT_THAT(names, ElementsAre("step-15.g2", "step-5.g2", "step-20.g1", "step-10.g1"));
}

TEST_F(List, a_job_that_continues_in_anothers_folder_is_newer) {
  save(100, 5);  // of the job "uid"
  const auto second = writer(1, 0, "other-uid");
  save(*second, 120, 2);
  const auto again = writer(2, 0, "other-uid");
  save(*again, 110, 3);
  const auto list = list_valid(dir_);
  ASSERT_TRUE(list.ok());
  std::vector<std::string> names;
  for (const Listed& listed : *list) names.push_back(listed.name);
  EXPECT_THAT(names, ElementsAre("step-110.g2", "step-120.g1", "step-100.g5"));
}

TEST_F(List, a_directory_that_is_not_there_holds_none) {
  const auto list = list_valid(dir_ + "/absent");
  ASSERT_TRUE(list.ok());
  EXPECT_TRUE(list->empty());
}

class Collect : public CheckpointTest {};

TEST_F(Collect, keeps_the_records_newest_and_some_older_and_touches_nothing_younger) {
  for (const int step : {10, 20, 30, 40}) save(step, 1);
  save(50, 2);
  save(60, 3);
  const auto removed = collect(dir_, 2, 2, "step-40.g1");
  ASSERT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_THAT(folders(), ElementsAre("step-30.g1", "step-40.g1", "step-50.g2", "step-60.g3"));
}

TEST_F(Collect, the_newest_checkpoint_of_the_step_to_keep_stays_besides) {
  save(20, 1);
  for (const int step : {10, 20, 30, 40}) save(step, 2);
  const auto removed = collect(dir_, 2, 2, "step-40.g2", 20);
  ASSERT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_THAT(folders(), ElementsAre("step-20.g2", "step-30.g2", "step-40.g2"));
}

TEST_F(Collect, a_member_of_an_older_generation_cannot_remove_newer_checkpoints) {
  save(10, 3);
  save(20, 3);
  ASSERT_TRUE(collect(dir_, 1, 2, "step-20.g3").ok());
  EXPECT_THAT(folders(), ElementsAre("step-10.g3", "step-20.g3"));
}

TEST_F(Collect, removes_unfinished_folders_older_than_the_record_alone) {
  save(20, 2);
  for (const char* name : {"step-5.g1", "step-19.g2", "step-21.g2", "step-1.g3"}) {
    std::filesystem::create_directories(dir_ + "/" + name);
    write(path(name, "model.safetensors.tmp"), "half");
  }
  ASSERT_TRUE(collect(dir_, 3, 2, "step-20.g2").ok());
  EXPECT_THAT(folders(), ElementsAre("step-1.g3", "step-20.g2", "step-21.g2"));
}

TEST_F(Collect, removes_nothing_when_the_records_newest_is_not_there) {
  save(10, 1);
  save(20, 1);
  EXPECT_FALSE(collect(dir_, 1, 1, "step-30.g1").ok());
  EXPECT_EQ(folders().size(), 2U);
}

}  // namespace
}  // namespace lockstep::trainer::checkpoint
