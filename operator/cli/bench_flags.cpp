#include "operator/cli/bench_flags.h"

#include <CLI/CLI.hpp>

namespace lockstep::cli {
namespace {

void add_bench_storage(CLI::App& bench, StorageOptions& options) {
  CLI::App* storage = bench.add_subcommand(
      "storage", "Measure how fast images are read and decoded: TFRecords and files, on stores of different speed");
  const auto milliseconds = CLI::Range(0.0, 60000.0), mib = CLI::Range(0.0, 1e6);
  storage
      ->add_option("--store", options.stores,
                   "Stores beside memory: local, nfs, nfs-kept, object, object-kept (default: all but nfs-kept)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"local", "nfs", "nfs-kept", "object", "object-kept"}));
  storage->add_option("--loaders", options.loaders, "Threads that read and decode (default: 1,2,4,8)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 16))
      ->type_name("N");
  storage->add_option("--images", options.images, "Images of the data set (default: 2000)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->type_name("N");
  storage->add_option("--size", options.side, "Rows and columns of each image, in pixels (default: 224)")
      ->check(CLI::Range(std::int64_t{8}, std::int64_t{1024}))
      ->type_name("N");
  storage->add_option("--seconds", options.seconds, "Timed seconds of a run (default: 5)")
      ->check(CLI::Range(0.001, 86400.0))
      ->type_name("S");
  storage->add_option("--runs", options.runs, "Runs of each cell, whose mean counts (default: 3)")
      ->check(CLI::Range(1, 10000))
      ->type_name("N");
  storage->add_option("--nfs-latency-ms", options.nfs.latency_ms, "Of each opening and each read (default: 1)")
      ->check(milliseconds)
      ->type_name("MS");
  storage->add_option("--nfs-bandwidth-mib", options.nfs.mib_per_second, "MiB/s; 0: no limit (default: 1000)")
      ->check(mib)
      ->type_name("MIB");
  storage->add_option("--object-latency-ms", options.object.latency_ms, "The same of the object store (default: 20)")
      ->check(milliseconds)
      ->type_name("MS");
  storage->add_option("--object-bandwidth-mib", options.object.mib_per_second, "MiB/s; 0: no limit (default: 500)")
      ->check(mib)
      ->type_name("MIB");
  storage->add_option("-o,--output", options.output, "Folder of the results (default: lockstep-storage)")
      ->type_name("DIR");
  storage->add_flag("--dry-run", options.dry_run, "Print the cells and their time");
  storage->footer(
      "Examples:\n"
      "  lockstep bench storage --dry-run\n"
      "  lockstep bench storage --store nfs,object --loaders 1,8\n"
      "  lockstep bench storage --store nfs --nfs-latency-ms 3 --nfs-bandwidth-mib 200 --output slow-nfs\n\n"
      "A cell is a store with a form of the data (TFRecords or a file for each image) and a number of loaders. Each\n"
      "speed stands beside its bound: the same images from memory, with as many loaders. nfs and object are local\n"
      "files that answer late; -kept is their second epoch, with images kept on the local disk. The data is made\n"
      "once, from a seed.\n"
      "Cells that the folder has are not measured again, so the same command continues after Ctrl-C. Exit status: 0,\n"
      "1 for a failure, 2 for wrong usage, 130 after Ctrl-C.");
}

}  // namespace

void add_bench(CLI::App& app, BenchOptions& options, StorageOptions& storage) {
  CLI::App* bench = app.add_subcommand("bench", "Measure training and storage on this machine");
  bench->require_subcommand(1);
  bench->footer(
      "Examples:\n"
      "  lockstep bench train --model mlp --workers 1,2\n"
      "  lockstep bench storage --store nfs --loaders 1,8\n\n"
      "See lockstep bench COMMAND --help.");
  add_bench_storage(*bench, storage);
  CLI::App* train = bench->add_subcommand(
      "train", "Measure the speed of training for models, workers and data; words after -- go to the trainer");
  const auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40);
  train->add_option("--model", options.models, "Models of lockstep-trainer")
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("MODEL");
  train->add_option("-w,--workers", options.workers, "Numbers of workers; 1 is always measured (default: 1)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  train->add_option("--data", options.data, "Data of the models: synthetic, or paths (default: synthetic)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("synthetic|PATH");
  train->add_option("--batch-size", options.batch_size, "Samples of a step for each worker (default: 32)")
      ->check(positive)
      ->type_name("N");
  train
      ->add_option("--micro-batch-size", options.micro_batch_size,
                   "Samples that a worker computes at a time (default: all of its step)")
      ->check(positive)
      ->type_name("N");
  train->add_option("--threads", options.threads, "Threads of each worker (default: 1)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  train->add_option("--transport", options.transport, "Between workers: auto or tcp (default: auto)")
      ->check(CLI::IsMember({"auto", "tcp"}));
  train->add_option("--warmup-steps", options.warmup_steps, "Steps before those that are timed (default: 10)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->type_name("N");
  train->add_option("--steps", options.steps, "Timed steps of a run (default: 100)")->check(positive)->type_name("N");
  train->add_option("--runs", options.runs, "Runs of each cell, whose mean counts (default: 5)")
      ->check(CLI::Range(1, 10000))
      ->type_name("N");
  train->add_option("-o,--output", options.output, "Folder of the results (default: lockstep-bench)")->type_name("DIR");
  train->add_flag("--trace", options.trace, "Write the steps of each cell's first run as a Chrome trace");
  train->add_flag("--dry-run", options.dry_run, "Print the cells, their memory and time; measure a few steps only");
  train->footer(
      "Examples:\n"
      "  lockstep bench train --model mlp --workers 1,2 --dry-run\n"
      "  lockstep bench train --model mlp,resnet18-cifar --workers 1,2,4 --output scaling\n"
      "  lockstep bench train --model resnet18-cifar --data synthetic,/data/cifar10 --batch-size 64\n"
      "  lockstep bench train --model resnet50 --data photos -- --classes=10 --first-label=0\n\n"
      "A cell is a model with its data and a number of workers; each of its runs is a job, as with lockstep run.\n"
      "Prints images/sec as tf_cnn_benchmarks does (an image is any sample), and the scaling efficiency\n"
      "T_n / (n T_1).\n"
      "Cells that the folder has are not measured again. Ctrl-C keeps the cells that are finished, and the same\n"
      "command continues. Exit status: 0, 1 for a failure, 2 for wrong usage, 130 after Ctrl-C.");
}

}  // namespace lockstep::cli
