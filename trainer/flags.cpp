#include "trainer/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "operator/base/version.h"
#include "operator/rendezvous/worker_contract.h"
#include "trainer/backend/make_backend.h"
#include "trainer/print.h"

namespace lockstep::trainer {

namespace {

constexpr const char* kExamples = R"(
Examples:
  Learn the licence texts of this machine, character by character, and write some:
    lockstep-trainer --model=char-transformer --data=/usr/share/common-licenses --generate=400
  The same with bitwise identical weights for any number of workers, and checkpoints to continue from:
    lockstep-trainer --model=char-transformer --data=/usr/share/common-licenses --deterministic \
        --checkpoint-dir=/tmp/licences --checkpoint-every-steps=100
  Find the line behind noisy points; tell ten clouds of points apart:
    lockstep-trainer --model=linear-regression --steps=200
    lockstep-trainer --model=mlp --steps=300 --eval-every=50

A run continues from the newest checkpoint in the directory; --steps counts from step 0. Exit codes: 0 done,
64 bad flags, 65 data, 66 checkpoint cannot be used, 74 checkpoint cannot be written, 78 settings that contradict each
other, 80 a peer went away, 82 reading or writing a checkpoint took longer than 120 s + 1 s for each 16 MiB of state
(try again), 83 stopped after a checkpoint, 84 the loss is not finite.
)";

}  // namespace

std::optional<int> parse_flags(int argc, char** argv, Flags& flags) {
  CLI::App app("Trains a model, alone or as one rank of a Lockstep job (the environment says which).",
               "lockstep-trainer");
  app.footer(kExamples);
  app.set_version_flag("--version", "lockstep-trainer " + version_and_commit());
  auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40);
  auto natural = CLI::Range(std::int64_t{0}, std::int64_t{1} << 40);

  app.add_option("--model", flags.model, "What to train")
      ->required()
      ->check(CLI::IsMember({"char-transformer", "linear-regression", "mlp"}));
  app.add_option("--data", flags.data, "Text files or folders of them, for char-transformer")->delimiter(',');
  app.add_option("--backend", flags.backend, "cpu (float32, oneDNN) or ref (float64, slow, to compare with)")
      ->check(CLI::IsMember(backend::backend_names()))
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "Threads that compute one micro-batch")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "Seed of parameters, data order, dropout and generated data")
      ->capture_default_str();
  app.add_flag("--deterministic", flags.deterministic,
               "Bitwise identical weights for every number of workers, with or without restarts");
  app.add_option(
         "--transport", flags.transport,
         "Between workers: auto (shared memory if two see the same /dev/shm, else TCP), tcp, or nccl (a GPU each)")
      ->check(CLI::IsMember({"auto", "tcp", "nccl"}))
      ->capture_default_str();
  app.add_option("--nccl-library", flags.nccl_library, "NCCL for --transport=nccl (default: libnccl.so.2)");
  app.add_option("--cudart-library", flags.cudart_library,
                 "The CUDA runtime for --transport=nccl (default: libcudart.so.13, else libcudart.so.12)");

  app.add_option("--steps", flags.steps, "Total steps")->check(natural)->capture_default_str()->group("Training");
  app.add_option("--batch-size", flags.batch_size, "Samples per step, over all workers")
      ->check(positive)
      ->capture_default_str()
      ->group("Training");
  app.add_option("--micro-batch-size", flags.micro_batch_size, "Samples that one worker computes at a time")
      ->check(positive)
      ->capture_default_str()
      ->group("Training");
  app.add_option("--min-step-seconds", flags.min_step_seconds,
                 "Minimum step time; lets a small model simulate a large one")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str()
      ->group("Training");
  app.add_option("--optimizer", flags.optimizer, "adamw or sgd (default: sgd for linear-regression, else adamw)")
      ->check(CLI::IsMember({"adamw", "sgd"}))
      ->group("Training");
  app.add_option("--learning-rate", flags.learning_rate, "Peak learning rate (default: by model)")
      ->check(CLI::PositiveNumber)
      ->group("Training");
  app.add_option("--warmup-steps", flags.warmup_steps, "Warm-up steps; cosine decay follows (default: 5 %)")
      ->check(natural)
      ->group("Training");
  app.add_option("--weight-decay", flags.weight_decay, "Weight decay of matrices (default: 0.01 for adamw, 0 for sgd)")
      ->check(CLI::NonNegativeNumber)
      ->group("Training");
  app.add_option("--momentum", flags.momentum, "Momentum of sgd (default: 0.9)")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Training");
  app.add_option("--clip-norm", flags.clip_norm,
                 "Clip the norm of the gradient to this; 0: no clipping (default: by model)")
      ->check(CLI::NonNegativeNumber)
      ->group("Training");

  app.add_option("--layers", flags.layers, "Blocks, or hidden layers")->check(positive)->group("Model");
  app.add_option("--width", flags.width, "Features of a layer")->check(positive)->group("Model");
  app.add_option("--heads", flags.heads, "Attention heads")->check(positive)->group("Model");
  app.add_option("--context", flags.context, "Characters that the model sees at once")->check(positive)->group("Model");
  app.add_option("--dropout", flags.dropout, "Dropout rate")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str()
      ->group("Model");

  app.add_option("--log-every", flags.log_every, "Steps between progress lines")
      ->check(positive)
      ->capture_default_str()
      ->group("Reports");
  app.add_option("--eval-every", flags.eval_every, "Steps between evaluations; 0: at the start and the end")
      ->check(natural)
      ->capture_default_str()
      ->group("Reports");
  app.add_option("--eval-samples", flags.eval_samples, "Held-out samples to evaluate, spread evenly; 0: all")
      ->check(natural)
      ->capture_default_str()
      ->group("Reports");
  app.add_option("--metrics-file", flags.metrics_file, "Append a line of JSON for each step here")->group("Reports");
  app.add_option("--ledger", flags.ledger,
                 "Folder for a ledger of each committed step (its micro-batches with their CRC-32, the state's "
                 "digest); each process adds a file of its own")
      ->envname("LOCKSTEP_LEDGER")
      ->group("Reports");
  app.add_option("--generate", flags.generate, "Characters to generate with the trained model")
      ->check(natural)
      ->group("Reports");
  app.add_option("--prompt", flags.prompt,
                 "Text that the model continues (default: held-out text and the first word of a sentence)")
      ->group("Reports");
  app.add_option("--temperature", flags.temperature, "Sampling temperature; 0: always the likeliest character")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str()
      ->group("Reports");

  app.add_option("--checkpoint-dir", flags.checkpoint_dir, "Folder of the checkpoints (or LOCKSTEP_CHECKPOINT_DIR)")
      ->group("Checkpoints");
  app.add_option("--checkpoint-every-steps", flags.checkpoint_every_steps,
                 "Steps between checkpoints; 0: when stopped, at the end, or by time")
      ->check(natural)
      ->capture_default_str()
      ->group("Checkpoints");
  app.add_option("--keep-checkpoints", flags.keep_checkpoints, "Finished checkpoints to keep; 0: all")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->group("Checkpoints");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    print(stderr, "lockstep-trainer: {}\n", error.what());
    return rendezvous::kExitUsage;
  }
  return std::nullopt;
}

Status resolve(Flags& flags, const elastic::World& world) {
  bool text = flags.model == "char-transformer";
  bool line = flags.model == "linear-regression";
  auto refuse = [](std::string sentence) { return fail(ErrorCode::kInvalid, std::move(sentence)); };

  if (text && flags.data.empty()) return refuse("--model=char-transformer needs --data with text files");
  if (!text && !flags.data.empty()) {
    return refuse(fmt::format("--model={} makes its own data; leave out --data", flags.model));
  }
  if (!text && flags.generate > 0) return refuse("--generate needs --model=char-transformer");
  if (!flags.prompt.empty() && flags.generate == 0) return refuse("--prompt needs --generate");
  if (!text && (flags.heads > 0 || flags.context > 0)) {
    return refuse(fmt::format("--model={} has no --heads and no --context", flags.model));
  }
  if (line && (flags.layers > 0 || flags.width > 0 || flags.dropout > 0)) {
    return refuse("--model=linear-regression has no --layers, --width or --dropout");
  }
  if (flags.batch_size % flags.micro_batch_size != 0) {
    return refuse(fmt::format("--batch-size={} is not a multiple of --micro-batch-size={}", flags.batch_size,
                              flags.micro_batch_size));
  }
  if (flags.model == "mlp" && flags.micro_batch_size < 2) {
    return refuse("--model=mlp normalises over the micro-batch, so --micro-batch-size must be at least 2");
  }
  if (flags.backend == "ref" && flags.threads != 1) return refuse("--backend=ref has one thread; leave out --threads");

  if (flags.transport != "nccl" && (!flags.nccl_library.empty() || !flags.cudart_library.empty())) {
    return refuse("--nccl-library and --cudart-library need --transport=nccl");
  }

  if (flags.optimizer.empty()) flags.optimizer = line ? "sgd" : "adamw";
  if (flags.optimizer == "adamw" && flags.momentum) return refuse("--momentum is of --optimizer=sgd");
  if (!flags.momentum) flags.momentum = 0.9;
  if (!flags.weight_decay) flags.weight_decay = flags.optimizer == "adamw" ? 0.01 : 0.0;
  bool adamw = flags.optimizer == "adamw";
  if (flags.learning_rate == 0) flags.learning_rate = text ? (adamw ? 3e-3 : 0.1) : adamw ? 2e-3 : 0.02;
  if (!flags.clip_norm) flags.clip_norm = text ? 1.0 : 0.0;
  if (flags.warmup_steps < 0) flags.warmup_steps = flags.steps / 20;
  if (text) {
    if (flags.layers == 0) flags.layers = 4;
    if (flags.width == 0) flags.width = 128;
    if (flags.heads == 0) flags.heads = 4;
    if (flags.context == 0) flags.context = 64;
    if (flags.width % flags.heads != 0) {
      return refuse(fmt::format("--width={} is not a multiple of --heads={}", flags.width, flags.heads));
    }
  } else if (!line) {
    if (flags.layers == 0) flags.layers = 2;
    if (flags.width == 0) flags.width = 128;
  }

  if (!world.checkpoint_dir.empty()) {
    if (!flags.checkpoint_dir.empty() && flags.checkpoint_dir != world.checkpoint_dir) {
      return refuse(fmt::format("--checkpoint-dir={} contradicts {}={}", flags.checkpoint_dir,
                                rendezvous::kEnvCheckpointDir, world.checkpoint_dir));
    }
    flags.checkpoint_dir = world.checkpoint_dir;
  }
  if (flags.checkpoint_dir.empty() && flags.checkpoint_every_steps > 0) {
    return refuse("--checkpoint-every-steps needs --checkpoint-dir");
  }
  if (flags.checkpoint_dir.empty() && !world.restore.empty()) {
    return refuse(fmt::format("{}={} needs a checkpoint directory", rendezvous::kEnvRestore, world.restore));
  }
  return {};
}

}  // namespace lockstep::trainer
