// Shared by the tests of this folder: a temporary folder, a small model's state, and ways to damage files.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "trainer/checkpoint/reader.h"
#include "trainer/checkpoint/writer.h"

namespace lockstep::trainer::checkpoint {

// A model of two parameters and an optimizer of a moment and a counter.
struct SmallModel {
  std::vector<float> weight = std::vector<float>(12);
  std::vector<float> bias = std::vector<float>(3);
  std::vector<double> moment = std::vector<double>(12);
  std::int64_t counter = 0;

  static SmallModel of(int salt) {
    SmallModel model;
    for (size_t i = 0; i < model.weight.size(); ++i)
      model.weight[i] = static_cast<float>(i) + static_cast<float>(salt) * 0.5F;
    for (size_t i = 0; i < model.bias.size(); ++i) model.bias[i] = static_cast<float>(salt) - static_cast<float>(i);
    for (size_t i = 0; i < model.moment.size(); ++i) model.moment[i] = 1.0 / (1.0 + salt + static_cast<double>(i));
    model.counter = salt;
    return model;
  }
  State state() const {
    return {.parameters = {{"layer.weight", DataType::kFloat32, {4, 3}, std::as_bytes(std::span(weight))},
                           {"layer.bias", DataType::kFloat32, {3}, std::as_bytes(std::span(bias))}},
            .optimizer = {{"moment.layer.weight", DataType::kFloat64, {4, 3}, std::as_bytes(std::span(moment))},
                          {"counter", DataType::kInt64, {}, std::as_bytes(std::span(&counter, 1))}}};
  }
  StateBuffers buffers() {
    return {
        .parameters = {{"layer.bias", DataType::kFloat32, {3}, std::as_writable_bytes(std::span(bias))},
                       {"layer.weight", DataType::kFloat32, {4, 3}, std::as_writable_bytes(std::span(weight))}},
        .optimizer = {{"counter", DataType::kInt64, {}, std::as_writable_bytes(std::span(&counter, 1))},
                      {"moment.layer.weight", DataType::kFloat64, {4, 3}, std::as_writable_bytes(std::span(moment))}}};
  }
  bool operator==(const SmallModel&) const = default;
};

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    std::string name = "/tmp/lockstep-checkpoint-XXXXXX";
    dir_ = ::mkdtemp(name.data());
    identity_ = {.model = "small", .model_hash = "h1", .seed = 7, .numerics_id = ""};
  }
  ~CheckpointTest() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<Writer> writer(std::int64_t generation, int keep = 0, const std::string& job = "uid") {
    auto made = Writer::create(
        {.directory = dir_, .job_uid = job, .identity = identity_, .generation = generation, .keep = keep});
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made ? std::move(made).value() : nullptr;
  }
  // Writes, confirms and waits; the name.
  std::string save(Writer& to, std::int64_t step, int salt) {
    const SmallModel model = SmallModel::of(salt);
    const auto taken =
        to.write({.step = step, .cursor = {1, step * 10}, .metadata = R"({"note":"x"})", .state = model.state()},
                 Busy::kWait, std::chrono::seconds(5));
    EXPECT_TRUE(taken.ok()) << taken.error().message;
    to.confirm(step + 1);
    const auto published = to.flush(std::chrono::seconds(20));
    EXPECT_TRUE(published.ok()) << published.error().message;
    return published.ok() && published->has_value() ? (*published)->name : "";
  }
  std::string save(std::int64_t step, std::int64_t generation, int salt = 1) {
    const auto one = writer(generation);
    return save(*one, step, salt);
  }
  std::string path(const std::string& name, const std::string& file) const { return dir_ + "/" + name + "/" + file; }
  static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  std::vector<std::string> folders() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string dir_;
  Identity identity_;
};

}  // namespace lockstep::trainer::checkpoint
