// The flags of lockstep-trainer, and which of them contradict each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/elastic/world.h"
#include "trainer/models/model.h"
#include "trainer/optim/make_optimizer.h"

namespace lockstep::trainer {

struct Flags {
  std::string model;
  std::vector<std::string> data;
  std::string on_damage;      // fail or skip; empty: fail
  int data_threads = 0;       // 0: by the machine
  std::int64_t prefetch = 0;  // micro-batches; 0: as many as reads need
  std::int64_t cache_memory_mib = 0, cache_folder_mib = 0;
  std::string cache_folder;  // empty: none
  std::string backend = "cpu";
  std::string precision = "fp32";  // or tf32, bf16
  std::string recompute = "none";  // or norm
  int threads = 1;
  std::uint64_t seed = 1;
  bool deterministic = false;
  std::string transport = "auto";
  // Of --transport=nccl and of the backend `cuda`; empty: as the dynamic linker finds them.
  std::string nccl_library, cudart_library, cublaslt_library, cudnn_library;

  std::int64_t steps = 600;
  std::int64_t batch_size = 32;
  std::int64_t micro_batch_size = 4;
  double min_step_seconds = 0;

  models::Settings model_options;  // those given; once resolved, all that the model has

  std::string optimizer;
  double learning_rate = 0;
  std::int64_t warmup_steps = -1;
  std::optional<double> weight_decay;
  std::optional<double> momentum;
  bool nesterov = false;
  std::optional<double> trust_coefficient;  // of lars
  std::string schedule = "cosine";
  std::vector<std::int64_t> milestones;  // of the step schedule
  std::optional<double> decay_factor;    // of the step schedule
  std::optional<int> power;              // of the polynomial schedule
  std::optional<double> clip_norm;

  std::int64_t log_every = 20;
  std::int64_t eval_every = 0;
  std::int64_t eval_samples = 256;
  std::string metrics_file;
  std::optional<std::int64_t> benchmark_warmup;  // steps; empty: the speed is not benchmarked
  std::string ledger;                            // a folder; empty: none

  std::string checkpoint_dir;
  std::int64_t checkpoint_every_steps = 0;
  int keep_checkpoints = 3;
  bool keep_best = false;
  std::int64_t early_stop_evaluations = 0;  // 0: never

  // Whether the run follows its best evaluation (best.h).
  bool follows_best() const { return keep_best || early_stop_evaluations > 0; }

  std::int64_t generate = 0;
  std::string prompt;  // empty: held-out text
  double temperature = 0.5;
};

// Reads the command line. Returns the exit code if the process should end (help, version, a bad flag: the message was
// printed), else nothing.
std::optional<int> parse_flags(int argc, char** argv, Flags& flags);

// Fills in the defaults of the model, and refuses contradictory flags. kInvalid with one sentence.
Status resolve(Flags& flags, const elastic::World& world);

// What resolved flags say of the optimizer and its schedule.
optim::OptimizerOptions optimizer_options(const Flags& flags);

}  // namespace lockstep::trainer
