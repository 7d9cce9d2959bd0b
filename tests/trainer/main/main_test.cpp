// The program as its users see it: exit codes, the one sentence of each failure, and what a restart continues.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "operator/base/unique_fd.h"
#include "tests/trainer/main/process.h"
#include "tests/trainer/models/image_folder.h"

namespace lockstep::trainer {
namespace {

using testing::content;
using testing::Ended;
using testing::Environment;
using testing::Limits;
using testing::Process;
using testing::value_of;
namespace fs = std::filesystem;

class Trainer : public testing::InFolder {
 protected:
  std::string checkpoints() const { return (folder_ / "checkpoints").string(); }
  std::vector<std::string> line(int steps, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"--model=linear-regression", "--steps=" + std::to_string(steps)});
    return more;
  }
  std::vector<std::string> saving(int steps, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"--checkpoint-dir=" + checkpoints(), "--deterministic"});
    return line(steps, std::move(more));
  }
  // The one checkpoint in the directory.
  fs::path only_checkpoint() const {
    for (const auto& entry : fs::directory_iterator(checkpoints())) return entry.path();
    return {};
  }
  // Each file below the directory of checkpoints, with its bytes.
  std::map<std::string, std::string> all_bytes() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(checkpoints())) {
      if (entry.is_regular_file()) files[entry.path().string()] = content(entry.path());
    }
    return files;
  }
};

TEST_F(Trainer, a_benchmark_prints_the_lines_of_tf_cnn_benchmarks) {
  for (const std::string model : {"mlp", "resnet18-cifar"}) {
    const std::string metrics = (folder_ / (model + ".jsonl")).string();
    const Ended ended = run({"--model=" + model, "--data=synthetic", "--steps=13", "--width=8", "--benchmark-warmup=3",
                             "--batch-size=4", "--eval-samples=2", "--metrics-file=" + metrics});
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.out, ::testing::ContainsRegex("10\timages/sec: [0-9.]+ \\+/- [0-9.]+ \\(jitter = [0-9.]+\\)\t"));
    EXPECT_THAT(ended.out, ::testing::ContainsRegex("-{64}\ntotal images/sec: [0-9.]+\n-{64}\n"));
    const auto result = nlohmann::json::parse(ended.out.substr(ended.out.rfind("result {") + 7));
    EXPECT_EQ(result["timed_steps"], 10);
    EXPECT_EQ(result["precision"], "float32");
    EXPECT_EQ(result["transport"], "none");
    EXPECT_GT(result["memory_bytes"], 1000);
    EXPECT_GE(result["compute_images_per_second"], result["images_per_second"]);
    // The parts of each step fit into it.
    std::istringstream lines(content(metrics));
    int steps = 0;
    for (std::string text; std::getline(lines, text); ++steps) {
      const auto step = nlohmann::json::parse(text);
      double parts = 0;
      for (const char* part : {"load", "forward", "backward", "wait", "commit"}) {
        EXPECT_GE(step[part], 0) << text;
        parts += step[part].get<double>();
      }
      EXPECT_LE(parts, step["seconds"].get<double>() * 1.001) << text;
      EXPECT_GT(step["backward"], 0) << text;
    }
    EXPECT_EQ(steps, 13);
  }
}

TEST_F(Trainer, a_data_set_may_have_more_files_than_the_soft_limit_of_descriptors) {
  const std::string images = testing::image_folder(folder_ / "images", 4, 2);
  for (int i = 1; i < 60; ++i) fs::copy(images + "/train-0", images + "/train-" + std::to_string(i));
  const Ended ended =
      run({"--model=resnet18-cifar", "--width=4", "--steps=1", "--data=" + images}, {}, {.descriptors = 32});
  EXPECT_EQ(ended.code, 0) << ended.err;
}

TEST_F(Trainer, bad_input_gets_one_sentence_and_its_own_exit_code) {
  std::string good = text(), brief = text("brief", 10), dir = folder_.string();
  std::ofstream(folder_ / "empty");
  auto transformer = [](std::vector<std::string> more) {
    more.insert(more.begin(), "--model=char-transformer");
    return more;
  };
  struct Case {
    std::vector<std::string> arguments;
    int code;
    std::string sentence;
  };
  for (const Case& bad : std::vector<Case>{
           {{}, 64, "--model is required"},
           {{"--model=alexnet"},
            64,
            "--model: alexnet not in "
            "{char-transformer,linear-regression,mlp,mobilenet-v2,resnet18,resnet18-cifar,resnet50,vgg-a}"},
           {{"--model=resnet50"},
            78,
            "--model=resnet50 needs --data with folders of TFRecords, a folder of images, or synthetic"},
           {line(5, {"--stepz=4"}), 64, "The following argument was not expected: --stepz=4"},
           {line(5, {"--threads=0"}), 64, "--threads: Value 0 not in range 1 to 1024"},
           {line(5, {"--seed=abc"}), 64, "Could not convert: --seed = abc"},
           {transformer({"--data=" + dir + "/missing"}), 65,
            "cannot read data '" + dir + "/missing': No such file or directory"},
           {transformer({"--data=" + dir + "/empty"}), 65, "the data in '" + dir + "/empty' is empty"},
           {transformer({"--data=" + brief}), 65,
            "the data in '" + brief + "' is too short: it has 50 characters, and a context of 64 needs about 715"},
           {transformer({}), 78, "--model=char-transformer needs --data with text files"},
           {line(5, {"--data=" + good}), 78, "--model=linear-regression makes its own data; leave out --data"},
           {transformer({"--data=synthetic"}), 78,
            "--model=char-transformer has no synthetic data; give --data with text files"},
           {line(5, {"--benchmark-warmup=5"}), 78, "--benchmark-warmup=5 leaves none of --steps=5 to time"},
           {line(5, {"--batch-size=10"}), 78, "--batch-size=10 is not a multiple of --micro-batch-size=4"},
           {line(5, {"--checkpoint-every-steps=2"}), 78, "--checkpoint-every-steps needs --checkpoint-dir"},
           {line(5, {"--eval-every=1", "--keep-best"}), 78, "--keep-best needs --checkpoint-dir"},
           {line(5, {"--early-stop-evaluations=2"}), 78, "--early-stop-evaluations needs --eval-every"},
           {line(5, {"--on-damage=skip"}), 78,
            "--model=linear-regression reads no records; leave out --on-damage, --data-threads, --prefetch and "
            "--cache-..."},
           {line(5, {"--on-damage=ignore"}), 64, "--on-damage: ignore not in {fail,skip}"},
           {line(5, {"--width=8"}), 78, "--model=linear-regression has no --width: it has no options of its own"},
           {line(5, {"--generate=8"}), 78, "--model=linear-regression writes no text; leave out --generate"},
           {transformer({"--data=" + good, "--prompt=gang"}), 78, "--prompt needs --generate"},
           {transformer({"--data=" + good, "--generate=8", "--prompt=gang!"}), 78,
            "--prompt: the character '!' does not occur in the data"},
           {line(5, {"--optimizer=adamw", "--momentum=0.5"}), 78, "--momentum needs --optimizer=sgd or lars"},
           {line(5, {"--optimizer=adamw", "--nesterov"}), 78, "--nesterov needs --optimizer=sgd"},
           {line(5, {"--trust-coefficient=1"}), 78, "--trust-coefficient needs --optimizer=lars"},
           {line(5, {"--optimizer=lars"}), 78,
            "--model=linear-regression has no default for --optimizer=lars: give its --learning-rate"},
           {line(5, {"--schedule=step"}), 78, "--schedule=step needs --milestones"},
           {line(5, {"--milestones=3"}), 78, "--milestones needs --schedule=step"},
           {line(5, {"--power=3"}), 78, "--power needs --schedule=polynomial"},
           {transformer({"--data=" + good, "--width=10"}), 78, "--width=10 is not a multiple of --heads=4"},
           {{"--model=mlp", "--heads=2"}, 78, "--model=mlp has no --heads: it has --layers, --width and --dropout"},
           {{"--model=mlp", "--layers=0"}, 64, "--layers: Value 0 not in range 1 to 1099511627776"},
           {{"--model=mlp", "--micro-batch-size=1"},
            78,
            "--model=mlp normalises over the micro-batch, so --micro-batch-size must be at least 2"},
           {line(5, {"--backend=ref", "--threads=2"}), 78, "--backend=ref has one thread; leave out --threads"},
           {line(5, {"--nccl-library=libnccl.so.2"}), 78, "--nccl-library needs --transport=nccl"},
           {line(5, {"--cudart-library=libcudart.so.13"}), 78,
            "--cudart-library needs --transport=nccl, --backend=cuda or --backend=auto"},
           {line(5, {"--cublaslt-library=libcublasLt.so.13"}), 78,
            "--cublaslt-library needs --backend=cuda or --backend=auto"},
           {line(5, {"--cudnn-library=libcudnn.so.9"}), 78, "--cudnn-library needs --backend=cuda or --backend=auto"},
           {line(5, {"--precision=bf16"}), 78,
            "--precision=bf16 needs a GPU, and --backend=cpu uses none; give --backend=cuda, or leave out --precision"},
           {line(5, {"--backend=ref", "--precision=bf16"}), 78,
            "--precision=bf16 needs a GPU, and --backend=ref uses none; give --backend=cuda, or leave out --precision"},
           {line(5, {"--precision=tf32"}), 78,
            "--precision=tf32 needs a GPU, and --backend=cpu uses none; give --backend=cuda, or leave out --precision"},
           {line(5, {"--backend=ref", "--precision=tf32"}), 78,
            "--precision=tf32 needs a GPU, and --backend=ref uses none; give --backend=cuda, or leave out --precision"},
           {line(5, {"--backend=cuda", "--precision=fp16"}), 64, "--precision: fp16 not in {fp32,tf32,bf16}"},
           {line(5, {"--backend=cuda", "--threads=2"}), 78, "--backend=cuda has one thread; leave out --threads"},
           {line(50, {"--learning-rate=1e18"}), 84,
            "the loss or a gradient was not finite in step 3; a smaller --learning-rate or a --clip-norm may help"},
       }) {
    Ended ended = run(bad.arguments);
    EXPECT_EQ(ended.err, "lockstep-trainer: " + bad.sentence + "\n");
    EXPECT_EQ(ended.code, bad.code) << bad.sentence;
  }
}

TEST_F(Trainer, each_option_of_the_optimizer_changes_the_weights) {
  const std::vector<std::string> lars = {"--optimizer=lars", "--learning-rate=1"};
  const std::vector<std::string> step = {"--schedule=step", "--milestones=5"};
  const std::vector<std::string> polynomial = {"--schedule=polynomial"};
  const auto with = [](std::vector<std::string> more, const std::string& last) {
    more.push_back(last);
    return more;
  };
  std::map<std::string, std::vector<std::string>> seen;  // by digest
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{},
                                             {"--nesterov"},
                                             {"--momentum=0.5"},
                                             {"--schedule=constant"},
                                             polynomial,
                                             with(polynomial, "--power=1"),
                                             step,
                                             with(step, "--milestones=8"),
                                             with(step, "--decay-factor=0.5"),
                                             lars,
                                             with(lars, "--trust-coefficient=0.01"),
                                             with(lars, "--momentum=0.5")}) {
    const Ended ended = run(line(20, more));
    ASSERT_EQ(ended.code, 0) << ended.err;
    const auto [at, fresh] = seen.emplace(value_of(ended.out, "digest"), more);
    EXPECT_TRUE(fresh) << ::testing::PrintToString(more) << " trains as " << ::testing::PrintToString(at->second);
  }
}

TEST_F(Trainer, a_missing_nccl_is_reported_before_training) {
  Ended ended = run(line(5, {"--transport=nccl", "--nccl-library=/no/such/libnccl.so"}));
  EXPECT_EQ(ended.code, 78);
  EXPECT_THAT(ended.err, ::testing::StartsWith("lockstep-trainer: no NCCL can be loaded (/no/such/libnccl.so: "));
  EXPECT_THAT(ended.err, ::testing::HasSubstr("give its path with --nccl-library"));
}

TEST_F(Trainer, help_and_version_end_well) {
  Ended help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, ::testing::HasSubstr("Examples:"));
  EXPECT_THAT(help.out, ::testing::HasSubstr("Attention heads (char-transformer)"));
  EXPECT_THAT(help.out, ::testing::HasSubstr("--layers=2 --width=128 --dropout=0\n")) << "the defaults of mlp";
  EXPECT_THAT(run({"--version"}).out, ::testing::StartsWith("lockstep-trainer "));
}

TEST_F(Trainer, a_restart_continues_at_the_exact_next_step) {
  Ended whole = run(line(30, {"--deterministic"}));
  ASSERT_EQ(whole.code, 0);
  // The schedule is that of 30 steps, so the first half is a run of 30 that is stopped.
  Ended first = run(saving(30, {"--checkpoint-every-steps=10", "--keep-checkpoints=0"}));
  ASSERT_EQ(first.code, 0);
  EXPECT_EQ(value_of(first.out, "digest"), value_of(whole.out, "digest"));
  fs::remove_all(checkpoints() + "/step-30.g0");
  Ended second = run(saving(30, {"--checkpoint-every-steps=10"}));
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.out, ::testing::HasSubstr("restored step-20.g0 at step 20\n"));
  EXPECT_EQ(value_of(second.out, "steps_of_this_process"), "10");
  EXPECT_EQ(value_of(second.out, "digest"), value_of(whole.out, "digest"));
  EXPECT_EQ(value_of(second.out, "initial_held_out_loss"), value_of(whole.out, "initial_held_out_loss"));
}

TEST_F(Trainer, a_benchmark_that_is_resumed_near_its_end_says_that_it_timed_no_step) {
  ASSERT_EQ(run(saving(20, {"--checkpoint-every-steps=15", "--keep-checkpoints=0"})).code, 0);
  fs::remove_all(checkpoints() + "/step-20.g0");
  const Ended resumed = run(saving(20, {"--benchmark-warmup=10"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, ::testing::HasSubstr(
                               "no step was timed: this process made 5, and --benchmark-warmup=10 leaves the first"));
  EXPECT_THAT(resumed.out, ::testing::Not(::testing::HasSubstr("total images/sec")));
  EXPECT_EQ(value_of(resumed.out, "images_per_second"), "no images_per_second");
}

// Its held-out loss falls, and then varies with the noise of the batches.
class EarlyStop : public Trainer {
 protected:
  Ended run_until_it_ends(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--schedule=constant", "--eval-every=2", "--early-stop-evaluations=3"});
    return run(line(4000, more));
  }
  std::vector<std::string> saving_each(const std::string& kept) const {
    return {"--checkpoint-dir=" + checkpoints(), "--checkpoint-every-steps=2", "--keep-checkpoints=" + kept};
  }
};

TEST_F(EarlyStop, a_run_ends_well_after_so_many_evaluations_that_are_not_better) {
  const Ended ended = run_until_it_ends();
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::int64_t best = std::stol(value_of(ended.out, "best_step"));
  EXPECT_EQ(value_of(ended.out, "step"), std::to_string(best + 3 * 2));
  EXPECT_THAT(ended.out,
              ::testing::HasSubstr("ended after step " + std::to_string(best + 6) +
                                   " of 4000: 3 evaluations in a row did not improve the held-out loss of step " +
                                   std::to_string(best) + "\n"));
  EXPECT_EQ(value_of(run(line(4)).out, "best_step"), "no best_step") << "nobody asked";
}

TEST_F(EarlyStop, a_restart_does_not_forget_the_best_evaluation) {
  const Ended whole = run_until_it_ends(saving_each("0"));
  ASSERT_EQ(whole.code, 0) << whole.err;
  const std::int64_t last = std::stol(value_of(whole.out, "step"));
  for (const std::int64_t step : {last, last - 2}) {
    fs::remove_all(checkpoints() + "/step-" + std::to_string(step) + ".g0");
  }
  const Ended again = run_until_it_ends(saving_each("0"));
  EXPECT_THAT(again.out, ::testing::HasSubstr("restored step-" + std::to_string(last - 4) + ".g0"));
  for (const char* key : {"step", "digest", "best_step", "best_held_out_loss"}) {
    EXPECT_EQ(value_of(again.out, key), value_of(whole.out, key)) << key;
  }
  const Ended ended = run_until_it_ends(saving_each("0"));
  EXPECT_EQ(value_of(ended.out, "steps_of_this_process"), "0") << "it ended already";
  EXPECT_EQ(value_of(ended.out, "digest"), value_of(whole.out, "digest"));
}

TEST_F(EarlyStop, the_checkpoint_of_the_best_evaluation_is_kept_beside_the_newest) {
  const Ended ended = run_until_it_ends(
      {"--checkpoint-dir=" + checkpoints(), "--checkpoint-every-steps=7", "--keep-checkpoints=1", "--keep-best"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::string best = "step-" + value_of(ended.out, "best_step") + ".g0";
  EXPECT_THAT(ended.out, ::testing::HasSubstr("best checkpoint " + best + "  held-out loss "));
  std::set<std::string> kept;
  for (const auto& entry : fs::directory_iterator(checkpoints())) kept.insert(entry.path().filename());
  EXPECT_THAT(kept, ::testing::UnorderedElementsAre(best, "step-" + value_of(ended.out, "step") + ".g0"));
}

TEST_F(EarlyStop, an_end_without_the_checkpoint_of_the_best_evaluation_says_so) {
  const auto end = [&] { return run_until_it_ends({"--checkpoint-dir=" + checkpoints(), "--keep-best"}); };
  const std::string best = value_of(end().out, "best_step");
  ASSERT_GT(fs::remove_all(checkpoints() + "/step-" + best + ".g0"), 0U);
  const Ended again = end();
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out,
              ::testing::HasSubstr("\nno checkpoint of the best evaluation, of step " + best + ", is left\n"));
}

TEST_F(Trainer, following_the_best_evaluation_needs_held_out_samples) {
  const std::string images = testing::image_folder(folder_ / "images", 40, 0);
  for (const std::string flag : {"--early-stop-evaluations", "--keep-best"}) {
    std::vector<std::string> arguments = {"--model=resnet18-cifar",
                                          "--data=" + images,
                                          "--width=4",
                                          "--steps=2",
                                          "--batch-size=8",
                                          "--eval-every=1",
                                          "--checkpoint-dir=" + checkpoints()};
    arguments.push_back(flag == "--keep-best" ? flag : flag + "=1");
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.code, 78) << ended.out;
    EXPECT_THAT(ended.err, ::testing::HasSubstr(flag + " needs held-out samples, and the data has none\n"));
  }
}

TEST_F(Trainer, a_restart_may_change_the_global_batch_and_goes_on_with_the_next_sample) {
  ASSERT_EQ(run(saving(4)).code, 0);  // 4 steps of 32 samples
  const Ended larger = run(saving(6, {"--batch-size=64"}));
  ASSERT_EQ(larger.code, 0) << larger.err;
  EXPECT_THAT(larger.out, ::testing::HasSubstr("restored step-4.g0 at step 4\n"));
  const auto manifest = nlohmann::json::parse(content(checkpoints() + "/step-6.g1/manifest.json"));
  EXPECT_EQ(manifest["cursor"]["index"], 4 * 32 + 2 * 64);
}

TEST_F(Trainer, a_model_with_batch_norm_keeps_its_micro_batch) {
  auto mlp = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--model=mlp", "--width=16", "--checkpoint-dir=" + checkpoints()});
    return run(more);
  };
  ASSERT_EQ(mlp({"--steps=2"}).code, 0);
  const Ended other = mlp({"--steps=4", "--micro-batch-size=8"});
  EXPECT_EQ(other.code, 66);
  EXPECT_THAT(other.err, ::testing::HasSubstr("micro-batch-size=4, this run has"));
}

TEST_F(Trainer, learns_from_images_and_counts_how_often_it_is_right) {
  const std::string images = testing::image_folder(folder_ / "images", 40, 20);
  const auto trained = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--model=resnet18-cifar", "--data=" + images, "--width=4", "--steps=3", "--batch-size=8",
                               "--deterministic"});
    return run(more);
  };
  const Ended one = trained({});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, ::testing::HasSubstr("1 files, 40 images to train on, 20 held out"));
  EXPECT_THAT(one.out, ::testing::HasSubstr(" %  top-5 "));
  for (const char* more : {"--data-threads=1", "--data-threads=5", "--prefetch=1"}) {
    EXPECT_EQ(value_of(trained({more}).out, "digest"), value_of(one.out, "digest")) << more;
  }
}

TEST_F(Trainer, reads_images_that_it_has_kept_from_memory_and_from_a_folder) {
  const std::string images = testing::image_folder(folder_ / "images", 40, 20);
  const auto trained = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--model=resnet18-cifar", "--data=" + images, "--width=4", "--steps=12",
                               "--batch-size=8", "--deterministic"});
    return run(more);
  };
  const std::string digest = value_of(trained({}).out, "digest");
  const std::string folder = "--cache-folder=" + (folder_ / "kept").string();
  const Ended first = trained({folder, "--cache-folder-mib=10"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(value_of(first.out, "images_from_storage"), "40");
  const Ended second = trained({folder, "--cache-folder-mib=10", "--cache-memory-mib=10"});
  EXPECT_EQ(value_of(second.out, "images_from_storage"), "0");
  EXPECT_EQ(value_of(second.out, "images_from_cache_folder"), "40");
  EXPECT_EQ(value_of(first.out, "digest"), digest);
  EXPECT_EQ(value_of(second.out, "digest"), digest);
  EXPECT_EQ(trained({folder}).code, 64) << "how much may it hold?";
  const Ended nowhere = trained({"--cache-folder=/proc/nowhere", "--cache-folder-mib=10"});
  EXPECT_EQ(nowhere.code, 65);
  EXPECT_THAT(nowhere.err, ::testing::HasSubstr("cannot keep images in '/proc/nowhere/"));
}

TEST_F(Trainer, ends_at_damaged_data_or_skips_it_as_asked_and_names_file_and_offset) {
  const std::string images = testing::image_folder(folder_ / "images", 40, 20);
  {
    std::fstream file(images + "/train-0", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(200);
    file.put('?').put('!');
  }
  const auto trained = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"--model=resnet18-cifar", "--data=" + images, "--width=4", "--steps=9", "--deterministic"});
    return run(more);
  };
  const std::string sentence = "data '" + images + "/train-0' at offset 0: ";
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--on-damage=fail"}}) {
    const Ended ended = trained(more);
    EXPECT_EQ(ended.code, 65);
    EXPECT_THAT(ended.err, ::testing::HasSubstr(sentence));
  }
  const fs::path ledger = folder_ / "ledger";
  const Ended skipped = trained({"--on-damage=skip", "--ledger=" + ledger.string()});
  ASSERT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_THAT(skipped.out, ::testing::HasSubstr("\nskipped: " + sentence));
  EXPECT_EQ(skipped.out.find("\nskipped: "), skipped.out.rfind("\nskipped: ")) << "several epochs, one line";
  EXPECT_EQ(value_of(skipped.out, "skipped_records"), "1");
  int lines = 0;
  std::ifstream text(fs::directory_iterator(ledger)->path());
  for (std::string line; std::getline(text, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object["kind"] != "skipped") continue;
    ++lines;
    EXPECT_EQ(object["file"], images + "/train-0");
    EXPECT_EQ(object["offset"], 0);
  }
  EXPECT_EQ(lines, 1);
  EXPECT_EQ(value_of(trained({"--on-damage=skip", "--data-threads=3"}).out, "digest"), value_of(skipped.out, "digest"));
}

TEST_F(Trainer, trains_on_a_folder_of_images_and_names_the_file_that_is_damaged) {
  const std::string images = testing::files_of_images(folder_ / "photos", 44);
  const fs::path ledger = folder_ / "ledger";
  const auto trained = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--model=resnet18-cifar", "--data=" + images, "--width=4", "--steps=8", "--batch-size=8",
                               "--micro-batch-size=4", "--deterministic"});
    return run(more);
  };
  const Ended one = trained({});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, ::testing::HasSubstr("images of 10 sub-folders, 40 images to train on, 4 held out"));
  EXPECT_EQ(value_of(trained({"--data-threads=3"}).out, "digest"), value_of(one.out, "digest"));
  const std::string damaged = images + "/class-3/13.jpg";
  fs::resize_file(damaged, 400);
  const std::string sentence = "data '" + damaged + "': the JPEG cannot be decoded: ";
  const Ended failed = trained({});
  EXPECT_EQ(failed.code, 65);
  EXPECT_THAT(failed.err, ::testing::HasSubstr(sentence));
  const Ended skipped = trained({"--on-damage=skip", "--ledger=" + ledger.string()});
  ASSERT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_THAT(skipped.out, ::testing::HasSubstr("\nskipped: " + sentence));
  EXPECT_EQ(value_of(skipped.out, "skipped_records"), "1");
  EXPECT_THAT(content(fs::directory_iterator(ledger)->path()), ::testing::HasSubstr("\"file\":\"" + damaged + "\""));
}

TEST_F(Trainer, says_within_which_time_a_checkpoint_is_read_or_written) {
  EXPECT_THAT(run(saving(2)).out, ::testing::HasSubstr("checkpoints     " + checkpoints() + ", each within 120 s\n"));
}

TEST_F(Trainer, sigterm_finishes_the_step_writes_a_checkpoint_and_exits_with_83) {
  std::vector<std::string> arguments = saving(2000000, {"--log-every=1000"});
  Process process(folder_, "stopped", arguments);
  ASSERT_TRUE(process.says("step 1000/"));
  process.signal(SIGTERM);
  Ended ended = process.wait();
  EXPECT_EQ(ended.code, 83) << ended.err;
  EXPECT_THAT(ended.out, ::testing::HasSubstr("stopped after step "));
  EXPECT_TRUE(fs::exists(only_checkpoint() / "manifest.json"));
}

TEST_F(Trainer, steps_take_as_long_as_was_asked_for_and_no_bit_changes) {
  auto begun = std::chrono::steady_clock::now();
  Ended slow = run(line(20, {"--min-step-seconds=0.05"}));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(950));
  EXPECT_EQ(value_of(slow.out, "digest"), value_of(run(line(20)).out, "digest"));
}

TEST_F(Trainer, no_signal_interrupts_a_thread_that_computes) {
  Process process(folder_, "computing",
                  {"--model=char-transformer", "--data=/usr/share/common-licenses", "--steps=1000000", "--layers=1",
                   "--width=64", "--batch-size=4", "--micro-batch-size=1", "--log-every=1"});
  ASSERT_TRUE(process.says("step 3/"));
  const std::string status = content("/proc/" + std::to_string(process.pid()) + "/status");
  const auto mask = [&](const std::string& name) {
    return std::stoull(status.substr(status.find(name) + name.size()), nullptr, 16);
  };
  const unsigned long long sigterm = 1ULL << (SIGTERM - 1);
  EXPECT_NE(mask("SigBlk:") & sigterm, 0U) << "of the main thread, which trains";
  EXPECT_EQ(mask("SigCgt:") & sigterm, 0U) << "no handler";
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().code, 83);
}

TEST_F(Trainer, a_checkpoint_that_cannot_be_used_is_refused_and_stays) {
  ASSERT_EQ(run(saving(4)).code, 0);
  std::string folder = only_checkpoint().string();
  auto refused = [&](std::vector<std::string> arguments, const std::string& sentence,
                     const Environment& environment = {}) {
    auto before = all_bytes();
    Ended ended = run(std::move(arguments), environment);
    EXPECT_EQ(ended.code, 66);
    EXPECT_THAT(ended.err, ::testing::HasSubstr(sentence));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_TRUE(all_bytes() == before) << "no byte of any checkpoint may change";
  };
  refused({"--model=mlp", "--deterministic", "--checkpoint-dir=" + checkpoints()},
          "checkpoint " + folder + " is of the model 'linear-regression', this run trains 'mlp'");
  refused(saving(8, {"--seed=2"}), "checkpoint " + folder + " was trained with seed 1, this run has seed 2");
  refused(saving(8, {"--threads=2"}), "was computed with the numerics 'cpu/float32/onednn-");
  refused(saving(8, {"--optimizer=adamw"}), "with another configuration (sgd ");
  refused(saving(8), "there is no checkpoint " + checkpoints() + "/step-9.g9",
          {{"LOCKSTEP_RESTORE", "step-9.g9"}, {"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  fs::resize_file(folder + "/model.safetensors", fs::file_size(folder + "/model.safetensors") - 1);
  refused(saving(8), "checkpoint file " + folder + "/model.safetensors is truncated: ",
          {{"LOCKSTEP_RESTORE", "step-4.g0"}, {"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
}

TEST_F(Trainer, a_directory_of_broken_checkpoints_is_not_an_empty_one) {
  ASSERT_EQ(run(saving(4)).code, 0);
  std::string folder = only_checkpoint().string();
  fs::resize_file(folder + "/optimizer.safetensors", 10);
  Ended ended = run(saving(8));
  EXPECT_EQ(ended.code, 66);
  EXPECT_THAT(ended.err, ::testing::HasSubstr("optimizer.safetensors is truncated: 10 bytes of "));
}

TEST_F(Trainer, a_checkpoint_cut_short_by_a_crash_does_not_hide_the_good_one_before_it) {
  ASSERT_EQ(run(saving(8, {"--checkpoint-every-steps=4"})).code, 0);
  auto before = all_bytes();
  fs::resize_file(checkpoints() + "/step-8.g0/model.safetensors", 10);
  Ended ended = run(saving(8));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, ::testing::HasSubstr("restored step-4.g0 at step 4\n"));
  for (const auto& [path, bytes] : before) {
    if (path.find("step-4.g0") == std::string::npos) continue;
    EXPECT_TRUE(content(path) == bytes) << path;
  }
}

// Saves a checkpoint with room for it, then trains on without; returns the mistake, or nothing.
class FullDisk : public Trainer {
 protected:
  std::vector<std::string> training(int steps) const {
    return {"--model=mlp", "--steps=" + std::to_string(steps), "--checkpoint-dir=" + checkpoints()};
  }
  void save_the_good_one() {
    ASSERT_EQ(run(training(4)).code, 0);
    before_ = all_bytes();
  }
  void expect_a_clean_end(const Ended& ended) {
    EXPECT_EQ(ended.code, 74);
    EXPECT_THAT(ended.err, ::testing::HasSubstr("a checkpoint could not be saved"));
    EXPECT_THAT(ended.err, ::testing::HasSubstr("the last good checkpoint, step-4.g0, stays"));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_TRUE(all_bytes() == before_) << "nothing but the last good checkpoint, and that as it was";
  }
  void expect_to_go_on() {
    Ended again = run(training(8));
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_THAT(again.out, ::testing::HasSubstr("restored step-4.g0"));
  }
  std::map<std::string, std::string> before_;
};

TEST_F(FullDisk, a_file_size_limit_ends_training_and_keeps_the_last_checkpoint) {
  save_the_good_one();
  // Room for its messages, not for its parameters.
  expect_a_clean_end(run(training(8), {}, Limits{.most_file_bytes = 16384}));
  expect_to_go_on();
}

TEST_F(FullDisk, no_space_left_ends_training_with_the_last_good_checkpoint_intact) {
  // A small file system in a mount namespace of a child: it ends with the child.
  fs::create_directories(checkpoints());
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", checkpoints().c_str(), "tmpfs", 0, "size=1m") != 0) {
      ::_exit(77);
    }
    save_the_good_one();
    std::string ballast = checkpoints() + "/ballast";
    std::string block(4096, 'x');
    UniqueFd file(::open(ballast.c_str(), O_CREAT | O_WRONLY, 0600));
    while (::write(file.get(), block.data(), block.size()) > 0) continue;
    file.reset();                                              // or its blocks would stay when it is removed
    fs::resize_file(ballast, fs::file_size(ballast) - 32768);  // leaves room for a part of it
    before_ = all_bytes();
    expect_a_clean_end(run(training(8)));
    fs::remove(ballast);
    expect_to_go_on();
    ::_exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "mounting needs root";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "see the failures above";
}

TEST_F(Trainer, a_closed_output_does_not_end_training) {
  Ended ended = run(saving(200, {"--log-every=1"}), {},
                    Limits{.most_file_bytes = 2048});  // the lines do not fit, the checkpoint does
  EXPECT_EQ(ended.code, 0) << ended.err;
}

TEST_F(Trainer, writes_as_many_characters_as_asked_after_the_prompt) {
  std::string data = text();
  std::ofstream(data, std::ios::app) << std::string(200, 'x') << "and this is the end of it.  Then comes another ";
  auto written = [&](std::vector<std::string> more) {
    for (const char* flag :
         {"--model=char-transformer", "--steps=2", "--layers=1", "--width=16", "--context=16", "--generate=50"}) {
      more.emplace_back(flag);
    }
    more.push_back("--data=" + data);
    Ended ended = run(more);
    EXPECT_EQ(ended.code, 0) << ended.err;
    std::string start = "sample of 50 characters:\n", end = "\nend of sample\n";
    size_t from = ended.out.find(start) + start.size();
    return ended.out.substr(from, ended.out.find(end) - from);
  };
  std::string by_itself = written({}), prompted = written({"--prompt=step gang"});
  EXPECT_THAT(by_itself, ::testing::StartsWith("Then"));
  EXPECT_EQ(by_itself.size(), 4U + 50);
  EXPECT_THAT(prompted, ::testing::StartsWith("step gang"));
  EXPECT_EQ(prompted.size(), 9U + 50);
}

}  // namespace
}  // namespace lockstep::trainer
