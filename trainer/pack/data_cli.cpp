#include "trainer/pack/data_cli.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>

#include "operator/base/version.h"
#include "trainer/pack/make_data_set.h"
#include "trainer/pack/read_data_set.h"

namespace lockstep::trainer::pack {

namespace {

constexpr int kExitFailure = 1, kExitUsage = 2;

std::atomic<bool> stop_requested{false};
std::atomic<int> stopped_by{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  stopped_by.store(number);
  if (stop_requested.exchange(true)) ::_exit(128 + number);  // a second one: the storage may hang
}

void add_common(CLI::App& command, Common& common, std::int64_t& shard_mib) {
  command.add_option("--test-percent", common.test_percent, "Share of the images that is held out, in test-* files")
      ->check(CLI::Range(0, 90))
      ->capture_default_str();
  command.add_option("--seed", common.seed, "Seed of the order of the records and of the choice of held-out ones")
      ->capture_default_str();
  command.add_option("--shard-mib", shard_mib, "Size of a file, about, in MiB")
      ->check(CLI::Range(1, 16384))
      ->capture_default_str();
}

std::string text_of(const Made& made, const std::string& out) {
  std::string text =
      fmt::format("{}: {} images to train on, {} held out, {} classes; {} files of {:.1f} MB\n", out, made.training,
                  made.held_out, made.classes, made.files, static_cast<double>(made.bytes) / 1e6);
  if (made.least != made.most) {
    text += fmt::format(
        "note: the images have different sizes, from {} x {} to {} x {} pixels; models of photographs alone read "
        "them\n",
        made.least.width, made.least.height, made.most.width, made.most.height);
  }
  if (made.left_out > 0) text += fmt::format("note: {} files without .jpg or .jpeg were left out\n", made.left_out);
  return text;
}

}  // namespace

int run_data_cli(int argc, const char* const* argv) {
  PackOptions pack;
  SynthOptions synth;
  ReadOptions read;
  std::int64_t shard_mib = 128;
  CLI::App app("Makes and measures data sets of labelled images that lockstep-trainer reads.", "lockstep data");
  app.set_version_flag("--version", "lockstep-data " + version_and_commit());
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  lockstep data pack photos/ photos-records            from photos/CLASS/*.jpg\n"
      "  lockstep data synth images-224 --images 5000         images from a seed, to measure with\n"
      "  lockstep data read photos-records --threads 4        how fast a data set is read\n\n"
      "See lockstep data COMMAND --help.");
  CLI::App* packs = app.add_subcommand("pack", "Put the images of a folder into TFRecords");
  packs->add_option("folder", pack.folder, "Folder with a sub-folder of .jpg or .jpeg files for each class")
      ->required()
      ->type_name("FOLDER");
  packs->add_option("out", pack.common.out, "Folder to create")->required()->type_name("OUT");
  add_common(*packs, pack.common, shard_mib);
  packs->footer(
      "Examples:\n"
      "  lockstep data pack photos/ photos-records\n"
      "  lockstep data pack photos/ photos-records --test-percent 5 --seed 7\n\n"
      "Labels are 0, 1, ... in the order of the sub-folders' names; classes.txt has them. The bytes of each JPEG are\n"
      "kept, and each is decoded once to check it. OUT has its name only when all of it is on the disk.");
  CLI::App* synths = app.add_subcommand("synth", "Make images from a seed, to measure storage and input with");
  synths->add_option("out", synth.common.out, "Folder to create")->required()->type_name("OUT");
  synths->add_option("--images", synth.images, "Number of images")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32));
  synths->add_option("--size", synth.side, "Rows and columns of each image, in pixels")
      ->check(CLI::Range(8, 4096))
      ->capture_default_str();
  synths->add_option("--classes", synth.classes, "Number of classes")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  synths->add_option("--quality", synth.quality, "Quality of the JPEGs")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  add_common(*synths, synth.common, shard_mib);
  synths->add_flag("--files", synth.common.files, "Write a folder with a file for each image, in place of TFRecords")
      ->excludes("--test-percent")
      ->excludes("--shard-mib");
  synths->footer(
      "Examples:\n"
      "  lockstep data synth images-224 --images 5000\n"
      "  lockstep data synth small --images 1000 --size 32 --classes 10 --seed 3\n\n"
      "The same options and the same libjpeg-turbo give the same files. A class has a colour of its own. OUT has its\n"
      "name only when all of it is on the disk.");
  CLI::App* reads = app.add_subcommand("read", "Measure how fast the images of a data set are read and decoded");
  reads->add_option("data", read.data, "Folder that image models read, or synthetic")->required()->type_name("DATA");
  reads->add_option("--threads", read.threads, "Threads that read and decode")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  reads->add_option("--size", read.side, "Rows and columns that images are resized to, in pixels")
      ->check(CLI::Range(8, 1024))
      ->capture_default_str();
  reads->add_option("--seconds", read.seconds, "For how long batches of 32 images are taken")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
  reads->add_flag("--in-memory", read.in_memory, "Read the files once, before; 4 GiB at most");
  reads->add_option("--latency-ms", read.latency_ms, "Wait for each opening and each read, in milliseconds")
      ->check(CLI::Range(0.0, 60000.0))
      ->capture_default_str();
  reads->add_option("--bandwidth-mib", read.mib_per_second, "MiB/s of all reads together; 0: no limit")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  std::int64_t cache_memory_mib = 0, cache_folder_mib = 0;
  const auto mebibytes = CLI::Range(std::int64_t{1}, std::int64_t{1} << 30);
  reads->add_option("--cache-memory-mib", cache_memory_mib, "MiB of images that stay in memory after their first read")
      ->check(mebibytes);
  auto* cache_folder =
      reads->add_option("--cache-folder", read.cache.folder, "Folder for images that do not fit there");
  auto* cache_folder_mib_option =
      reads->add_option("--cache-folder-mib", cache_folder_mib, "MiB of --cache-folder")->check(mebibytes);
  cache_folder->needs(cache_folder_mib_option);
  cache_folder_mib_option->needs(cache_folder);
  reads->add_flag("--second-epoch", read.second_epoch, "Read every image once, before");
  reads->footer(
      "Examples:\n"
      "  lockstep data read photos-records --threads 4\n"
      "  lockstep data read photos --threads 8 --latency-ms 20 --bandwidth-mib 500\n\n"
      "Images are cut, resized and normalised as for training on photographs. What the page cache holds is not read\n"
      "from the disk again. The last line is result {json}.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    std::string asked = "lockstep data";
    for (const CLI::App* command : app.get_subcommands()) asked += " " + command->get_name();
    fmt::print(stderr, "{}: {}\nSee {} --help.\n", asked, error.what(), asked);
    return kExitUsage;
  }
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);  // nohup, or in the background of a script
  }
  Common& common = packs->parsed() ? pack.common : synth.common;
  common.shard_bytes = static_cast<std::uint64_t>(shard_mib) << 20;
  common.terminal = ::isatty(STDERR_FILENO) == 1;
  const std::string who = "lockstep data " + app.get_subcommands()[0]->get_name();
  const Result<std::string> said = [&]() -> Result<std::string> {
    if (reads->parsed()) {
      read.cache.memory_bytes = static_cast<std::uint64_t>(cache_memory_mib) << 20;
      read.cache.folder_bytes = static_cast<std::uint64_t>(cache_folder_mib) << 20;
      LOCKSTEP_TRY(const ReadRate rate, read_data_set(read, SystemClock::instance(), stop_requested));
      return fmt::format("{}: {} images in {:.2f} s, {:.1f} images/s\n{}\n", rate.form, rate.images, rate.seconds,
                         rate.speed(), result_line(rate));
    }
    LOCKSTEP_TRY(const Made made,
                 packs->parsed() ? pack_images(pack, stop_requested) : synthesize_images(synth, stop_requested));
    return text_of(made, common.out);
  }();
  if (said) {
    fmt::print("{}", *said);
    return std::fflush(stdout) == 0 ? 0 : kExitFailure;
  }
  fmt::print(stderr, "{}: {}\n", who, said.error().message);
  return said.error().code == ErrorCode::kCancelled ? 128 + stopped_by.load() : kExitFailure;
}

}  // namespace lockstep::trainer::pack
