#include "operator/cli/bench_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "operator/api/validate.h"

namespace lockstep::cli::bench_matrix_test {
namespace {

TEST(BenchMatrix, has_every_model_with_every_data_and_every_number_of_workers) {
  BenchOptions options{.models = {"mlp", "resnet18-cifar"}, .workers = {4, 2}, .data = {"synthetic", "/data/cifar10/"}};
  std::vector<std::string> names;
  for (const Cell& cell : cells_of(options)) names.push_back(describe(cell));
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "mlp on synthetic data with 1 worker", "mlp on synthetic data with 2 workers",
                "mlp on synthetic data with 4 workers", "mlp on /data/cifar10 with 1 worker",
                "mlp on /data/cifar10 with 2 workers", "mlp on /data/cifar10 with 4 workers",
                "resnet18-cifar on synthetic data with 1 worker", "resnet18-cifar on synthetic data with 2 workers",
                "resnet18-cifar on synthetic data with 4 workers", "resnet18-cifar on /data/cifar10 with 1 worker",
                "resnet18-cifar on /data/cifar10 with 2 workers", "resnet18-cifar on /data/cifar10 with 4 workers"}));
}

TEST(BenchMatrix, has_each_cell_once) {
  const BenchOptions options{.models = {"mlp", "mlp"}, .workers = {1, 2, 2, 1}, .data = {"synthetic"}};
  EXPECT_EQ(cells_of(options), (std::vector<Cell>{{"mlp", "synthetic", 1}, {"mlp", "synthetic", 2}}));
}

TEST(BenchMatrix, names_of_cells_are_words_for_files_and_differ) {
  EXPECT_EQ(name_of({"mlp", "synthetic", 2}), "mlp-synthetic-w2");
  const std::string one = name_of({"ResNet/18", "/data/a b", 1}), other = name_of({"ResNet/18", "/more/a b", 1});
  EXPECT_TRUE(one.starts_with("resnet-18-a-b-")) << one;
  EXPECT_TRUE(one.ends_with("-w1")) << one;
  EXPECT_NE(one, other);
}

TEST(BenchMatrix, a_cell_is_a_valid_job_with_the_batch_of_all_workers) {
  const BenchOptions options{.batch_size = 16, .threads = 2, .transport = "tcp", .trainer_args = {"--classes=5"}};
  const auto job = job_of({"Strange_Model!", "/data/x", 3}, options, {.warmup = 4, .timed = 6});
  EXPECT_TRUE(api::validate(job).empty()) << job.dump();
  const std::vector<std::string> command = job["spec"]["command"];
  for (const char* word : {"--model=Strange_Model!", "--data=/data/x", "--batch-size=48", "--micro-batch-size=16",
                           "--threads=2", "--transport=tcp", "--steps=10", "--benchmark-warmup=4", "--classes=5"}) {
    EXPECT_NE(std::find(command.begin(), command.end(), word), command.end()) << word;
  }
  EXPECT_EQ(job["spec"]["nodes"], 3);
  EXPECT_EQ(job["spec"]["restart"]["maxRestarts"], 0);
}

TEST(BenchMatrix, settings_have_all_that_decides_the_measurement) {
  const Cell cell{"mlp", "synthetic", 2};
  const BenchOptions asked{.batch_size = 8, .micro_batch_size = 4};
  const auto settings = [&](auto change) {
    BenchOptions other = asked;
    change(other);
    return settings_of(cell, other, "1.0");
  };
  const auto same = settings([](BenchOptions&) {});
  EXPECT_EQ(same, settings([](BenchOptions& o) { o.output = "elsewhere"; }));
  EXPECT_NE(same, settings([](BenchOptions& o) { o.batch_size = 16; }));
  EXPECT_NE(same, settings([](BenchOptions& o) { o.micro_batch_size = 8; }));
  EXPECT_NE(same, settings([](BenchOptions& o) { o.threads = 2; }));
  EXPECT_NE(same, settings([](BenchOptions& o) { o.transport = "tcp"; }));
  EXPECT_NE(same, settings([](BenchOptions& o) { o.warmup_steps = 1; }));
  EXPECT_NE(same, settings([](BenchOptions& o) { o.steps = 1; }));
  EXPECT_NE(same, settings([](BenchOptions& o) { o.runs = 1; }));
  EXPECT_NE(same, settings([](BenchOptions& o) { o.trainer_args = {"--classes=5"}; }));
  EXPECT_NE(same, settings_of(cell, asked, "1.1"));
}

TEST(BenchMatrix, options_that_contradict_each_other_are_refused) {
  EXPECT_TRUE(check_bench({.batch_size = 8, .micro_batch_size = 4}).ok());
  EXPECT_TRUE(check_bench({.batch_size = 8}).ok());
  EXPECT_EQ(check_bench({.batch_size = 8, .micro_batch_size = 3}).error().code, ErrorCode::kInvalid);
  EXPECT_TRUE(check_bench({.data = {"synthetic", "/"}}).ok());
  EXPECT_EQ(check_bench({.data = {"/", "/no/such"}}).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::cli::bench_matrix_test
