// The program as its users meet it: exit codes, the one sentence of each failure, and what a restart continues.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Environment = std::map<std::string, std::string>;

struct Ended {
  int code = -1;  // 128 + signal for a killed one
  std::string out, err;
};

std::string content(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A running trainer; its output is in files.
class Process {
 public:
  Process(const fs::path& folder, const std::string& name, std::vector<std::string> arguments,
          const Environment& environment = {}, rlim_t most_file_bytes = RLIM_INFINITY)
      : out_(folder / (name + ".out")), err_(folder / (name + ".err")) {
    arguments.insert(arguments.begin(), LOCKSTEP_TRAINER);
    pid_ = ::fork();
    if (pid_ != 0) return;
    for (const auto& [key, value] : environment) ::setenv(key.c_str(), value.c_str(), 1);
    if (most_file_bytes != RLIM_INFINITY) {
      ::signal(SIGXFSZ, SIG_IGN);
      rlimit limit{most_file_bytes, most_file_bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ::dup2(::open(out_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
    ::dup2(::open(err_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), 2);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const { ::kill(pid_, number); }
  std::string out() const { return content(out_); }
  // Until its output contains `text`; false after ten seconds.
  bool says(const std::string& text) const {
    for (int i = 0; i < 2000; ++i) {
      if (out().find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  Ended wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(out_), content(err_)};
  }

 private:
  fs::path out_, err_;
  pid_t pid_ = -1;
};

std::string value_of(const std::string& out, const std::string& key) {
  size_t line = out.rfind("result {");
  size_t at = line == std::string::npos ? line : out.find("\"" + key + "\":", line);
  if (at == std::string::npos) return "no " + key;
  at += key.size() + 3;
  return out.substr(at, out.find_first_of(",}", at) - at);
}

class Trainer : public ::testing::Test {
 protected:
  Trainer() : folder_(fs::temp_directory_path() / ("lockstep-trainer-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCKSTEP_PEERS", "LOCKSTEP_CHECKPOINT_DIR", "LOCKSTEP_RESTORE"}) {
      ::unsetenv(name);
    }
  }
  ~Trainer() override { fs::remove_all(folder_); }

  Ended run(std::vector<std::string> arguments, const Environment& environment = {},
            rlim_t most_file_bytes = RLIM_INFINITY) {
    return Process(folder_, "run", std::move(arguments), environment, most_file_bytes).wait();
  }
  // A text with something to learn.
  std::string text(const std::string& name = "text", int words = 2000) {
    std::ofstream file(folder_ / name);
    for (int i = 0; i < words; ++i) file << (i % 3 == 0 ? "gang " : i % 5 == 0 ? "rank\n" : "step ");
    return (folder_ / name).string();
  }
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

  fs::path folder_;
};

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
           {{"--model=resnet50"}, 64, "--model: resnet50 not in {char-transformer,linear-regression,mlp}"},
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
           {line(5, {"--batch-size=10"}), 78, "--batch-size=10 is not a multiple of --micro-batch-size=4"},
           {line(5, {"--checkpoint-every-steps=2"}), 78, "--checkpoint-every-steps needs --checkpoint-dir"},
           {line(5, {"--width=8"}), 78, "--model=linear-regression has no --layers, --width or --dropout"},
           {line(5, {"--generate=8"}), 78, "--generate needs --model=char-transformer"},
           {line(5, {"--optimizer=adamw", "--momentum=0.5"}), 78, "--momentum is of --optimizer=sgd"},
           {transformer({"--data=" + good, "--width=10"}), 78, "--width=10 is not a multiple of --heads=4"},
           {{"--model=mlp", "--micro-batch-size=1"},
            78,
            "--model=mlp normalises over the micro-batch, so --micro-batch-size must be at least 2"},
           {line(5, {"--backend=ref", "--threads=2"}), 78, "--backend=ref has one thread; leave out --threads"},
           {line(50, {"--learning-rate=1e18"}), 84,
            "the loss or a gradient was not finite in step 5; a smaller --learning-rate or a --clip-norm may help"},
       }) {
    Ended ended = run(bad.arguments);
    EXPECT_EQ(ended.err, "lockstep-trainer: " + bad.sentence + "\n");
    EXPECT_EQ(ended.code, bad.code) << bad.sentence;
  }
}

TEST_F(Trainer, help_and_version_end_well) {
  Ended help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, ::testing::HasSubstr("Examples:"));
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

TEST_F(Trainer, a_checkpoint_that_cannot_be_used_is_refused_and_stays) {
  ASSERT_EQ(run(saving(4)).code, 0);
  std::string folder = only_checkpoint().string();
  auto refused = [&](std::vector<std::string> arguments, const std::string& sentence,
                     const Environment& environment = {}) {
    Ended ended = run(std::move(arguments), environment);
    EXPECT_EQ(ended.code, 66);
    EXPECT_THAT(ended.err, ::testing::HasSubstr(sentence));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_TRUE(fs::exists(folder + "/manifest.json"));
  };
  refused({"--model=mlp", "--deterministic", "--checkpoint-dir=" + checkpoints()},
          "checkpoint " + folder + " is of the model 'linear-regression', this run trains 'mlp'");
  refused(saving(8, {"--seed=2"}), "checkpoint " + folder + " was trained with seed 1, this run has seed 2");
  refused(saving(8, {"--threads=2"}), "was computed with the numerics 'cpu/float32/onednn-");
  refused(saving(8, {"--optimizer=adamw"}), "with another configuration (sgd ");
  refused(saving(8), "there is no checkpoint " + checkpoints() + "/step-9.g9", {{"LOCKSTEP_RESTORE", "step-9.g9"}});
  fs::resize_file(folder + "/model.safetensors", fs::file_size(folder + "/model.safetensors") - 1);
  refused(saving(8),
          "checkpoint file " + folder + "/model.safetensors is truncated: ", {{"LOCKSTEP_RESTORE", "step-4.g0"}});
}

TEST_F(Trainer, a_directory_with_nothing_but_broken_checkpoints_is_not_taken_for_an_empty_one) {
  ASSERT_EQ(run(saving(4)).code, 0);
  std::string folder = only_checkpoint().string();
  fs::resize_file(folder + "/optimizer.safetensors", 10);
  Ended ended = run(saving(8));
  EXPECT_EQ(ended.code, 66);
  EXPECT_THAT(ended.err, ::testing::HasSubstr("optimizer.safetensors is truncated: 10 bytes of "));
}

TEST_F(Trainer, a_full_disk_ends_training_with_the_last_good_checkpoint_intact) {
  ASSERT_EQ(run(saving(4)).code, 0);
  Ended ended = run(saving(8), {}, 64);
  EXPECT_EQ(ended.code, 74) << ended.err;
  EXPECT_THAT(ended.err, ::testing::HasSubstr("a checkpoint could not be saved"));
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  Ended again = run(saving(8));
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, ::testing::HasSubstr("restored step-4.g0"));
}

int free_port() {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), length);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(fd);
  return ntohs(address.sin_port);
}

TEST_F(Trainer, processes_started_as_torchrun_would_train_together_in_the_same_bits) {
  std::vector<std::string> arguments = {
      "--model=char-transformer", "--data=" + text(), "--steps=6", "--layers=1", "--width=32", "--context=16",
      "--deterministic"};
  Ended alone = run(arguments);
  ASSERT_EQ(alone.code, 0) << alone.err;
  Environment environment = {{"MASTER_ADDR", "127.0.0.1"},
                             {"MASTER_PORT", std::to_string(free_port())},
                             {"WORLD_SIZE", "3"},
                             {"LOCAL_WORLD_SIZE", "3"}};
  std::vector<std::unique_ptr<Process>> gang;
  for (int rank = 0; rank < 3; ++rank) {
    environment["RANK"] = environment["LOCAL_RANK"] = std::to_string(rank);
    gang.push_back(std::make_unique<Process>(folder_, "rank" + std::to_string(rank), arguments, environment));
  }
  for (auto& process : gang) {
    Ended ended = process->wait();
    EXPECT_EQ(ended.code, 0) << ended.err;
    if (process == gang.front()) {
      EXPECT_EQ(value_of(ended.out, "digest"), value_of(alone.out, "digest"));
      EXPECT_EQ(value_of(ended.out, "held_out_loss"), value_of(alone.out, "held_out_loss"));
    } else {
      EXPECT_EQ(ended.out, "") << "only rank 0 speaks";
    }
  }
}

TEST_F(Trainer, generates_text_of_the_length_asked_for) {
  Ended ended = run({"--model=char-transformer", "--data=" + text(), "--steps=2", "--layers=1", "--width=16",
                     "--context=16", "--generate=50"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  std::string start = "sample of 50 characters:\n", end = "\nend of sample\n";
  size_t from = ended.out.find(start) + start.size();
  EXPECT_EQ(ended.out.find(end) - from, 50U);
}

}  // namespace
