#include "trainer/pack/data_cli.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>

#include "operator/base/version.h"
#include "trainer/pack/make_data_set.h"

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
  std::int64_t shard_mib = 128;
  CLI::App app("Makes data sets of labelled images that lockstep-trainer reads: TFRecords of JPEGs.", "lockstep data");
  app.set_version_flag("--version", "lockstep-data " + version_and_commit());
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  lockstep data pack photos/ photos-records            from photos/CLASS/*.jpg\n"
      "  lockstep data synth images-224 --images 5000         images from a seed, to measure with\n\n"
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
  synths->footer(
      "Examples:\n"
      "  lockstep data synth images-224 --images 5000\n"
      "  lockstep data synth small --images 1000 --size 32 --classes 10 --seed 3\n\n"
      "The same options and the same libjpeg-turbo give the same files. A class has a colour of its own. OUT has its\n"
      "name only when all of it is on the disk.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    std::string who = "lockstep data";
    for (const CLI::App* command : app.get_subcommands()) who += " " + command->get_name();
    fmt::print(stderr, "{}: {}\nSee {} --help.\n", who, error.what(), who);
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
  const Result<Made> made =
      packs->parsed() ? pack_images(pack, stop_requested) : synthesize_images(synth, stop_requested);
  if (made) {
    fmt::print("{}", text_of(*made, common.out));
    return std::fflush(stdout) == 0 ? 0 : kExitFailure;
  }
  fmt::print(stderr, "lockstep data {}: {}\n", packs->parsed() ? "pack" : "synth", made.error().message);
  return made.error().code == ErrorCode::kCancelled ? 128 + stopped_by.load() : kExitFailure;
}

}  // namespace lockstep::trainer::pack
