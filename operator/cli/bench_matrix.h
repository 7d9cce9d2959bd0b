// The matrix of `lockstep bench train`: which cells it has, and the job that each of them is. Pure but for looking
// whether data exists.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::cli {

struct BenchOptions {
  std::vector<std::string> models;
  std::vector<int> workers = {1};
  std::vector<std::string> data = {"synthetic"};  // or paths
  std::int64_t batch_size = 32;                   // samples of a step for each worker
  std::int64_t micro_batch_size = 0;              // 0: batch_size
  int threads = 1;                                // of each worker
  std::string transport = "auto";                 // of the trainer
  std::int64_t warmup_steps = 10, steps = 100;    // not timed, timed
  int runs = 5;                                   // of each cell
  std::string output = "lockstep-bench";
  std::vector<std::string> trainer_args;  // more flags of the trainer, after "--"
  bool dry_run = false, trace = false;
};

// One configuration that is measured.
struct Cell {
  std::string model;
  std::string data;  // "synthetic" or an absolute path
  int workers = 1;

  bool operator==(const Cell&) const = default;
};

// How many steps a run has, and how many of them are not timed.
struct Steps {
  std::int64_t warmup = 0, timed = 0;
};

// kInvalid, kNotFound: a sentence about options that contradict each other, or about data that is not there.
Status check_bench(const BenchOptions& options);

// Every model with every data and every number of workers, each once, in this order; fewest workers first. One worker
// is always among them: scaling is measured against it.
std::vector<Cell> cells_of(const BenchOptions& options);

// A name for files, unique among cells of a matrix: "mlp-synthetic-w2", "resnet18-cifar-images-1f3a5b7c-w2".
std::string name_of(const Cell& cell);
// For people: "mlp on synthetic data with 2 workers".
std::string describe(const Cell& cell);

// Everything that decides what the cell's measurement is, as its result stores it.
nlohmann::json settings_of(const Cell& cell, const BenchOptions& options, const std::string& version);

// The TrainingJob of one run of the cell: it prints the speed as tf_cnn_benchmarks does, and a failure ends it.
nlohmann::json job_of(const Cell& cell, const BenchOptions& options, const Steps& steps);

}  // namespace lockstep::cli
