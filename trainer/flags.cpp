#include "trainer/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>
#include <string_view>

#include "operator/base/cpus.h"
#include "operator/base/version.h"
#include "operator/rendezvous/worker_contract.h"
#include "trainer/backend/make_backend.h"
#include "trainer/data/prefetcher.h"
#include "trainer/models/registry.h"
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
  Tell the images of CIFAR-10 apart, from TFRecords named train-* and test-*:
    lockstep-trainer --model=resnet18-cifar --data=/data/cifar10 --batch-size=128 --micro-batch-size=32
  Train on the files photos/CLASS/*.jpg as they are (a tenth of them is held out):
    lockstep-trainer --model=resnet18 --data=photos --classes=10 --image-size=64 --batch-size=64
  Train ResNet-50 on ImageNet's TFRecords, or measure its speed without any data:
    lockstep-trainer --model=resnet50 --data=/data/imagenet --batch-size=256 --micro-batch-size=32 --steps=450000
    lockstep-trainer --model=resnet50 --data=synthetic --micro-batch-size=16 --steps=20

A run continues from the newest checkpoint in the directory; --steps counts from step 0.

Exit codes:
  0   done
  1   a bug of the trainer
  64  bad flags
  65  data
  66  checkpoint cannot be used
  69  no GPU, driver, library or kernels for the backend or precision that was asked for
  74  checkpoint cannot be written
  75  memory, threads or file descriptors are short, or a GPU is lost or busy: try again
  78  settings that contradict each other
  80  a peer went away
  82  storage did not answer in time: try again (data has 120 s, a checkpoint 120 s and 1 s for each 16 MiB of state)
  83  stopped after a checkpoint
  84  the loss is not finite
)";

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const models::Model& model : models::all_models()) names.push_back(model.name);
  return names;
}

// What --data names for the model; null: it makes its own.
const char* data_of(const models::Model& model) {
  switch (model.data) {
    case models::Model::Data::kGenerated:
      return nullptr;
    case models::Model::Data::kText:
      return "text files";
    case models::Model::Data::kImages:
      return "folders of TFRecords, a folder of images, or synthetic";
  }
  return nullptr;
}

// What --help says of each model: what it learns, its options and its recipe.
std::string describe_models() {
  std::string text = "\nModels and their defaults:\n";
  for (const models::Model& model : models::all_models()) {
    const models::Recipe& recipe = model.recipes.front();
    text += fmt::format("  {:<20}{}{}\n", model.name, model.help,
                        data_of(model) != nullptr ? fmt::format(" (--data: {})", data_of(model)) : "");
    text += fmt::format(
        "  {:<20}--optimizer={} --learning-rate={}{} --clip-norm={}\n", "", recipe.optimizer, recipe.learning_rate,
        recipe.batch_size > 0 ? fmt::format(" x batch size / {}", recipe.batch_size) : "", model.clip_norm);
    if (model.options.empty()) continue;
    text += fmt::format("  {:<20}", "");
    for (const models::Option& option : model.options) {
      text += fmt::format("--{}={} ", option.name, models::to_text(option.value));
    }
    text.back() = '\n';
  }
  return text;
}

template <typename T>
void add_model_option(CLI::App& app, const models::Option& option, const std::string& of, models::Settings& given) {
  app.add_option_function<T>(
         "--" + option.name, [&given, name = option.name](const T& value) { given.set(name, value); },
         fmt::format("{} ({})", option.help, of))
      ->check(CLI::Range(std::get<T>(option.least), std::get<T>(option.most)))
      ->group("Model");
}

// The options of all models, each once.
void add_model_options(CLI::App& app, Flags& flags) {
  std::map<std::string, std::string> having;  // by option: the models that have it
  for (const models::Model& model : models::all_models()) {
    for (const models::Option& option : model.options) {
      std::string& of = having[option.name];
      of += (of.empty() ? "" : ", ") + model.name;
    }
  }
  for (const models::Model& model : models::all_models()) {
    for (const models::Option& option : model.options) {
      if (having[option.name].empty()) continue;
      const std::string of = std::exchange(having[option.name], "");
      if (std::holds_alternative<double>(option.value)) {
        add_model_option<double>(app, option, of, flags.model_options);
      } else {
        add_model_option<std::int64_t>(app, option, of, flags.model_options);
      }
    }
  }
}

}  // namespace

std::optional<int> parse_flags(int argc, char** argv, Flags& flags) {
  CLI::App app("Trains a model, alone or as one rank of a Lockstep job (the environment says which).",
               "lockstep-trainer");
  app.footer(describe_models() + kExamples);
  app.set_version_flag("--version", "lockstep-trainer " + version_and_commit());
  auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40);
  auto natural = CLI::Range(std::int64_t{0}, std::int64_t{1} << 40);

  app.add_option("--model", flags.model, "What to train")->required()->check(CLI::IsMember(model_names()));
  app.add_option("--data", flags.data, "Files or folders of them, for a model that needs data; or synthetic")
      ->delimiter(',');
  app.add_option("--on-damage", flags.on_damage,
                 "A record with a wrong checksum or an image that cannot be decoded: fail, or skip it; the next intact "
                 "one takes its place (default: fail)")
      ->check(CLI::IsMember({"fail", "skip"}))
      ->group("Records");
  app.add_option("--data-threads", flags.data_threads,
                 "Threads that read and decode ahead (default: CPUs of the process within its container's limit, "
                 "divided by the ranks of the machine, less --threads; 1 to 8)")
      ->check(CLI::Range(1, 256))
      ->group("Records");
  app.add_option("--prefetch", flags.prefetch,
                 "Micro-batches that are ready ahead, in 256 MiB at most (default: from 2 to 64, as reads need)")
      ->check(CLI::Range(1, 4096))
      ->group("Records");
  app.add_option("--cache-memory-mib", flags.cache_memory_mib,
                 "MiB of images that this rank keeps in memory after their first read (default: 0)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->group("Records");
  auto* cache_folder =
      app.add_option("--cache-folder", flags.cache_folder,
                     "Folder on a local disk for images that do not fit there; the ranks of a machine may share it")
          ->group("Records");
  auto* cache_folder_mib =
      app.add_option("--cache-folder-mib", flags.cache_folder_mib, "MiB that all ranks together keep in --cache-folder")
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
          ->group("Records");
  cache_folder->needs(cache_folder_mib);
  cache_folder_mib->needs(cache_folder);
  std::vector<std::string> backends = backend::backend_names();
  backends.insert(backends.begin(), "auto");
  app.add_option("--backend", flags.backend,
                 "cpu (float32, oneDNN), cuda (a GPU), auto (cuda where it can compute the model, else cpu), or "
                 "ref (float64, slow, to compare with)")
      ->check(CLI::IsMember(backends))
      ->capture_default_str();
  app.add_option("--precision", flags.precision,
                 "On a GPU: fp32, tf32 (float32 whose matrix products and convolutions may round their operands to "
                 "TF32), or bf16 (activations in bfloat16; parameters, statistics and optimizer in float32)")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16"}))
      ->capture_default_str();
  app.add_option("--recompute", flags.recompute,
                 "Activations that the backward pass computes again, to need less memory: none, or norm (outputs of "
                 "norms, and of sums and ReLUs after them). Results are bitwise identical")
      ->check(CLI::IsMember({"none", "norm"}))
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
                 "The CUDA runtime for --transport=nccl and --backend=cuda or auto (default: libcudart.so.13, "
                 "else libcudart.so.12)");
  app.add_option("--cublaslt-library", flags.cublaslt_library,
                 "cuBLASLt for --backend=cuda or auto (default: libcublasLt.so.13, else libcublasLt.so.12)");
  app.add_option("--cudnn-library", flags.cudnn_library,
                 "cuDNN for convolutions with --backend=cuda or auto (default: libcudnn.so.9)");

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
  app.add_option("--optimizer", flags.optimizer, "Rule of the update (default: by model)")
      ->check(CLI::IsMember(optim::rule_names()))
      ->group("Training");
  app.add_option("--learning-rate", flags.learning_rate, "Peak learning rate (default: by model)")
      ->check(CLI::PositiveNumber)
      ->group("Training");
  app.add_option("--warmup-steps", flags.warmup_steps, "Warm-up steps; the schedule follows (default: 5 % of all)")
      ->check(natural)
      ->group("Training");
  app.add_option("--weight-decay", flags.weight_decay, "Weight decay of matrices (default: by model and optimizer)")
      ->check(CLI::NonNegativeNumber)
      ->group("Training");
  app.add_option("--momentum", flags.momentum, "Momentum of sgd and lars (default: 0.9)")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Training");
  app.add_flag("--nesterov", flags.nesterov, "Nesterov's momentum, for sgd")->group("Training");
  app.add_option("--trust-coefficient", flags.trust_coefficient, "Trust coefficient of lars (default: 0.001)")
      ->check(CLI::PositiveNumber)
      ->group("Training");
  app.add_option(
         "--schedule", flags.schedule,
         "Learning rate after the warm-up: constant; cosine, to a tenth of the peak; polynomial, to 0; step, by "
         "--decay-factor at each of --milestones")
      ->check(CLI::IsMember(optim::schedule_names()))
      ->capture_default_str()
      ->group("Training");
  app.add_option("--milestones", flags.milestones, "Committed steps at which --schedule=step lowers the learning rate")
      ->delimiter(',')
      ->check(positive)
      ->group("Training");
  app.add_option("--decay-factor", flags.decay_factor, "Factor at each of --milestones (default: 0.1)")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Training");
  app.add_option("--power", flags.power, "Power of --schedule=polynomial (default: 2)")
      ->check(CLI::Range(1, 16))
      ->group("Training");
  app.add_option("--clip-norm", flags.clip_norm,
                 "Clip the norm of the gradient to this; 0: no clipping (default: by model)")
      ->check(CLI::NonNegativeNumber)
      ->group("Training");

  add_model_options(app, flags);

  app.add_option("--log-every", flags.log_every, "Steps between progress lines")
      ->check(positive)
      ->capture_default_str()
      ->group("Reports");
  app.add_option("--eval-every", flags.eval_every, "Steps between evaluations; 0: at the start and the end")
      ->check(natural)
      ->capture_default_str()
      ->group("Reports");
  app.add_option("--eval-samples", flags.eval_samples,
                 "Held-out samples to evaluate, from all parts of the data; 0: all")
      ->check(natural)
      ->capture_default_str()
      ->group("Reports");
  app.add_option("--early-stop-evaluations", flags.early_stop_evaluations,
                 "End well when so many evaluations in a row have not lowered the best held-out loss; 0: never")
      ->check(natural)
      ->capture_default_str()
      ->group("Reports");
  app.add_option("--benchmark-warmup", flags.benchmark_warmup,
                 "Print the speed as tf_cnn_benchmarks does (images/sec), over all steps after so many (default: not)")
      ->check(natural)
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
  app.add_flag("--keep-best", flags.keep_best,
               "Save after each evaluation with the lowest held-out loss so far, and keep that checkpoint besides")
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
  const models::Model& model = *models::find_model(flags.model);  // parse_flags lets no other through
  const char* data = data_of(model);
  auto refuse = [](std::string sentence) { return fail(ErrorCode::kInvalid, std::move(sentence)); };

  if (data != nullptr && flags.data.empty()) {
    return refuse(fmt::format("--model={} needs --data with {}", model.name, data));
  }
  if (models::is_synthetic(flags.data)) {
    if (model.data == models::Model::Data::kText) {
      return refuse(fmt::format("--model={} has no synthetic data; give --data with {}", model.name, data));
    }
    if (data == nullptr) flags.data.clear();  // what it makes is synthetic
  }
  if (data == nullptr && !flags.data.empty()) {
    return refuse(fmt::format("--model={} makes its own data; leave out --data", model.name));
  }
  const bool for_records = !flags.on_damage.empty() || flags.data_threads > 0 || flags.prefetch > 0 ||
                           flags.cache_memory_mib > 0 || !flags.cache_folder.empty();
  if ((model.data != models::Model::Data::kImages || models::is_synthetic(flags.data)) && for_records) {
    return refuse(
        fmt::format("--model={}{} reads no records; leave out --on-damage, --data-threads, --prefetch and --cache-...",
                    model.name, flags.data.empty() ? "" : " --data=synthetic"));
  }
  if (flags.data_threads == 0)
    flags.data_threads = data::reader_threads(usable_cpus(), world.local_size, flags.threads);
  if (!model.writes_text && flags.generate > 0) {
    return refuse(fmt::format("--model={} writes no text; leave out --generate", model.name));
  }
  if (!flags.prompt.empty() && flags.generate == 0) return refuse("--prompt needs --generate");
  if (flags.batch_size % flags.micro_batch_size != 0) {
    return refuse(fmt::format("--batch-size={} is not a multiple of --micro-batch-size={}", flags.batch_size,
                              flags.micro_batch_size));
  }
  if (flags.micro_batch_size < model.least_micro_batch) {
    return refuse(fmt::format("--model={} normalises over the micro-batch, so --micro-batch-size must be at least {}",
                              model.name, model.least_micro_batch));
  }
  if (flags.benchmark_warmup && *flags.benchmark_warmup >= flags.steps) {
    return refuse(
        fmt::format("--benchmark-warmup={} leaves none of --steps={} to time", *flags.benchmark_warmup, flags.steps));
  }
  if ((flags.backend == "ref" || flags.backend == "cuda") && flags.threads != 1) {
    return refuse(fmt::format("--backend={} has one thread; leave out --threads", flags.backend));
  }

  const bool may_use_gpu = flags.backend == "cuda" || flags.backend == "auto";
  if (!may_use_gpu && flags.precision != "fp32") {
    return refuse(
        fmt::format("--precision={} needs a GPU, and --backend={} uses none; give --backend=cuda, or leave out "
                    "--precision",
                    flags.precision, flags.backend));
  }
  const char* const allows_tf32 = std::getenv("NVIDIA_TF32_OVERRIDE");
  if (flags.precision == "tf32" && allows_tf32 != nullptr && allows_tf32 == std::string_view("0")) {
    return refuse(
        "--precision=tf32 contradicts the environment: NVIDIA_TF32_OVERRIDE=0 forbids TF32; unset it, or leave out "
        "--precision");
  }
  if (flags.transport != "nccl" && !flags.nccl_library.empty()) return refuse("--nccl-library needs --transport=nccl");
  if (flags.transport != "nccl" && !may_use_gpu && !flags.cudart_library.empty()) {
    return refuse("--cudart-library needs --transport=nccl, --backend=cuda or --backend=auto");
  }
  if (!may_use_gpu && !flags.cublaslt_library.empty()) {
    return refuse("--cublaslt-library needs --backend=cuda or --backend=auto");
  }
  if (!may_use_gpu && !flags.cudnn_library.empty()) {
    return refuse("--cudnn-library needs --backend=cuda or --backend=auto");
  }

  if (flags.optimizer.empty()) flags.optimizer = model.recipes.front().optimizer;
  const models::Recipe* recipe = models::recipe_of(model, flags.optimizer);
  if (recipe == nullptr && flags.learning_rate == 0) {
    return refuse(fmt::format("--model={} has no default for --optimizer={}: give its --learning-rate", model.name,
                              flags.optimizer));
  }
  if (!flags.weight_decay) flags.weight_decay = recipe != nullptr ? recipe->weight_decay : 0;
  if (flags.learning_rate == 0) flags.learning_rate = models::learning_rate(*recipe, flags.batch_size);
  if (!flags.clip_norm) flags.clip_norm = model.clip_norm;
  if (flags.warmup_steps < 0) {
    flags.warmup_steps = static_cast<std::int64_t>(model.warmup_share * static_cast<double>(flags.steps));
  }
  LOCKSTEP_CHECK_OK(optim::make_optimizer(optimizer_options(flags)));  // the task makes it; refused here
  LOCKSTEP_TRY(flags.model_options, models::settle(model, flags.model_options));

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
  if (flags.checkpoint_dir.empty() && flags.keep_best) return refuse("--keep-best needs --checkpoint-dir");
  if (flags.follows_best() && flags.eval_every == 0) {
    return refuse(fmt::format("{} needs --eval-every", flags.keep_best ? "--keep-best" : "--early-stop-evaluations"));
  }
  if (flags.checkpoint_dir.empty() && !world.restore.empty()) {
    return refuse(fmt::format("{}={} needs a checkpoint directory", rendezvous::kEnvRestore, world.restore));
  }
  return {};
}

optim::OptimizerOptions optimizer_options(const Flags& flags) {
  return {.rule = flags.optimizer,
          .weight_decay = *flags.weight_decay,
          .momentum = flags.momentum,
          .nesterov = flags.nesterov,
          .trust_coefficient = flags.trust_coefficient,
          .learning_rate = flags.learning_rate,
          .schedule = flags.schedule,
          .warmup_steps = flags.warmup_steps,
          .total_steps = flags.steps,
          .milestones = flags.milestones,
          .decay_factor = flags.decay_factor,
          .power = flags.power};
}

}  // namespace lockstep::trainer
