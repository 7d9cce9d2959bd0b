// The command's answers to its arguments: help, misspelt words, invalid files. The whole text, as people see it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "operator/cli/data_command.h"
#include "tests/operator/cli/command.h"

namespace lockstep::cli::usage_test {
namespace {

// A file that this process alone has, removed at the end of the test.
class File {
 public:
  File(const std::string& name, const std::string& text)
      : path(testing::TempDir() + std::to_string(::getpid()) + "-" + name) {
    std::ofstream(path) << text;
  }
  ~File() { std::filesystem::remove(path); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string path;
};

long lines_of(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

struct Case {
  std::vector<std::string> words;
  int status;
  std::string err;
};

class WrongUsage : public testing::TestWithParam<Case> {};

TEST_P(WrongUsage, is_told_in_one_sentence) {
  Command command(GetParam().words);
  EXPECT_EQ(command.wait(), GetParam().status);
  EXPECT_EQ(command.err(), GetParam().err);
  EXPECT_EQ(command.out(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Words, WrongUsage,
    testing::Values(
        Case{{"rnu"}, 2, "lockstep: there is no command \"rnu\"; did you mean \"run\"?\nSee lockstep --help.\n"},
        Case{{"frobnicate"}, 2, "lockstep: there is no command \"frobnicate\"\nSee lockstep --help.\n"},
        Case{{"--verison"},
             2,
             "lockstep: there is no option \"--verison\"; did you mean \"--version\"?\nSee lockstep --help.\n"},
        Case{{"run"}, 2, "lockstep run: job is required\nSee lockstep run --help.\n"},
        Case{{"run", "x.yaml", "--kil-worker", "1@2"},
             2,
             "lockstep run: there is no option \"--kil-worker\"; did you mean \"--kill-worker\"?\nSee lockstep run "
             "--help.\n"},
        Case{{"run", "x.yaml", "--kill-worker", "1"},
             2,
             "lockstep run: --kill-worker \"1\": give a rank and a step, as in --kill-worker 2@100\n"},
        Case{{"run", "x.yaml", "--chaos", "7:"},
             2,
             "lockstep run: --chaos \"7:\": give a seed, and a number of faults up to 5000 where it is not 20, as in "
             "--chaos 7 or --chaos 7:60\n"},
        Case{{"run", "none.yaml"}, 1, "lockstep run: cannot read none.yaml: No such file or directory\n"},
        Case{{"run", "."}, 1, "lockstep run: . is a folder, not a job file\n"},
        Case{{"validate", "none.yaml"}, 1, "lockstep validate: cannot read none.yaml: No such file or directory\n"},
        Case{{"explain", "./none"},
             1,
             "lockstep explain: there is no ./none: it is written at the end of a run, and --output says where\n"},
        Case{{"bench", "trian", "--model", "mlp"},
             2,
             "lockstep bench: there is no command \"trian\"; did you mean \"train\"?\nSee lockstep bench --help.\n"},
        Case{{"bench", "storage", "--store", "tape"},
             2,
             "lockstep bench storage: --store: tape not in {local,nfs,nfs-kept,object,object-kept}\nSee lockstep bench "
             "storage --help.\n"},
        Case{{"bench", "storage", "--loaders", "0"},
             2,
             "lockstep bench storage: --loaders: Value 0 not in range 1 to 16\nSee lockstep bench storage --help.\n"},
        Case{{"bench", "storage", "--output", "/dev/null/x"},
             1,
             "lockstep bench storage: cannot create the folder /dev/null/x/cells: Not a directory\n"},
        Case{{"bench", "train"}, 2, "lockstep bench train: --model is required\nSee lockstep bench train --help.\n"},
        Case{{"bench", "train", "--model", "mlp", "--worker", "2"},
             2,
             "lockstep bench train: there is no option \"--worker\"; did you mean \"--workers\"?\nSee lockstep bench "
             "train --help.\n"},
        Case{{"bench", "train", "--model", "mlp", "--workers", "1,0"},
             2,
             "lockstep bench train: --workers: Value 0 not in range 1 to 4096\nSee lockstep bench train --help.\n"},
        Case{{"bench", "train", "--model", "mlp", "--batch-size", "8", "--micro-batch-size", "3"},
             2,
             "lockstep bench train: --batch-size 8 is not a multiple of --micro-batch-size 3\n"},
        Case{{"bench", "train", "--model", "mlp", "--data", "/no/such/folder"},
             1,
             "lockstep bench train: --data /no/such/folder: no such file or folder; give a path that exists, or "
             "synthetic\n"},
        Case{{"completion", "csh"}, 2, "lockstep completion: \"csh\" is none of bash, zsh and fish\n"}));

TEST(Usage, the_help_of_every_command_has_an_example) {
  for (const char* name : {"run", "bench", "validate", "submit", "status", "explain", "logs", "delete", "topology",
                           "plan", "data", "completion"}) {
    Command command({name, "--help"});
    EXPECT_EQ(command.wait(), 0);
    EXPECT_NE(command.out().find("Example"), std::string::npos) << command.out();
    EXPECT_NE(command.out().find(std::string("lockstep ") + name), std::string::npos) << command.out();
  }
  Command train({"bench", "train", "--help"});
  EXPECT_EQ(train.wait(), 0);
  EXPECT_NE(train.out().find("lockstep bench train --model mlp --workers 1,2 --dry-run"), std::string::npos);
  Command storage({"bench", "storage", "--help"});
  EXPECT_EQ(storage.wait(), 0);
  EXPECT_NE(storage.out().find("lockstep bench storage --dry-run"), std::string::npos);
  Command command({"--help"});
  EXPECT_EQ(command.wait(), 0);
  EXPECT_NE(command.out().find("lockstep run examples/language-model.yaml"), std::string::npos);
}

TEST(Usage, the_version_has_a_commit) {
  Command command({"--version"});
  EXPECT_EQ(command.wait(), 0);
  EXPECT_TRUE(command.out().starts_with("lockstep 0.")) << command.out();
  EXPECT_NE(command.out().find("commit"), std::string::npos);
}

TEST(Usage, completion_scripts_know_commands_and_options) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    Command command({"completion", shell});
    EXPECT_EQ(command.wait(), 0);
    EXPECT_NE(command.out().find("validate"), std::string::npos);
    EXPECT_NE(command.out().find("kill-worker"), std::string::npos);
  }
}

// What bash offers for the last word.
std::string offered(const std::string& script, const std::string& words) {
  const File file("lockstep-completion.bash",
                  script + "COMP_WORDS=(" + words +
                      ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_lockstep\necho \"${COMPREPLY[*]}\"\n");
  std::string text;
  std::FILE* const shell = popen(("bash " + file.path).c_str(), "r");
  for (int c = std::fgetc(shell); c != EOF; c = std::fgetc(shell)) text += static_cast<char>(c);
  EXPECT_EQ(pclose(shell), 0);
  return text;
}

TEST(Usage, completion_scripts_know_the_values_of_an_option) {
  Command bash({"completion", "bash"}), fish({"completion", "fish"});
  EXPECT_EQ(bash.wait() + fish.wait(), 0);
  EXPECT_EQ(offered(bash.out(), "lockstep plan --preset o"), "oci\n");
  EXPECT_EQ(offered(bash.out(), "lockstep topology --preset = topo"), "topograph topograph-v0\n");
  EXPECT_EQ(offered(bash.out(), "lockstep status -o ''"), "json\n");
  EXPECT_EQ(offered(bash.out(), "lockstep plan --pre"), "--preset\n");
  EXPECT_EQ(offered(bash.out(), "lockstep bench tr"), "train\n");
  EXPECT_EQ(offered(bash.out(), "lockstep bench train --transport t"), "tcp\n");
  EXPECT_EQ(offered(bash.out(), "lockstep bench train --dry"), "--dry-run\n");
  EXPECT_EQ(offered(bash.out(), "lockstep bench storage --nfs-l"), "--nfs-latency-ms\n");
  EXPECT_EQ(offered(bash.out(), "lockstep bench storage --store o"), "object object-kept\n");
  EXPECT_NE(fish.out().find("-n '__fish_seen_subcommand_from explain' -l preset -x -a 'topograph topograph-v0 aws"),
            std::string::npos)
      << fish.out();
}

TEST(Usage, completion_scripts_know_the_words_of_data) {
  Command bash({"completion", "bash"}), fish({"completion", "fish"});
  EXPECT_EQ(bash.wait() + fish.wait(), 0);
  EXPECT_EQ(offered(bash.out(), "lockstep data ''"), "pack synth read --help\n");
  EXPECT_EQ(offered(bash.out(), "lockstep data synth --im"), "--images\n");
  EXPECT_NE(fish.out().find("-n '__fish_seen_subcommand_from data' -a 'pack synth read'"), std::string::npos)
      << fish.out();
  // The words of another program are listed here; its help has all of them.
  std::string help;
  for (const std::string& word : data_words()) {
    Command asked({"data", word, "--help"});
    EXPECT_EQ(asked.wait(), 0);
    help += asked.out();
  }
  for (const std::string& option : data_options()) EXPECT_NE(help.find(option + " "), std::string::npos) << option;
}

TEST(Usage, data_is_the_program_beside_this_one) {
  Command command({"data", "pack", "/nowhere", "out"});
  EXPECT_EQ(command.wait(), 1);
  EXPECT_EQ(command.err(), "lockstep data pack: cannot read data '/nowhere': No such file or directory\n");
}

TEST(Validate, every_problem_has_its_line_and_column) {
  const File file("lockstep-validate.yaml",
                  "apiVersion: lockstep.dev/v1alpha1\n"
                  "kind: TrainingJob\n"
                  "metadata:\n"
                  "  name: Bad_Name\n"
                  "spec:\n"
                  "  image: x\n"
                  "  command: [train]\n"
                  "  nodes: 0\n"
                  "  nodse: 3\n");
  Command command({"validate", file.path});
  EXPECT_EQ(command.wait(), 1);
  for (const char* start : {":4:3: metadata.name: ", ":8:3: spec.nodes: ", ":9:3: spec.nodse: "}) {
    EXPECT_NE(command.out().find(file.path + start), std::string::npos) << start << "\n" << command.out();
  }
}

TEST(Validate, a_good_file_is_said_to_be_good) {
  const File file("lockstep-valid.yaml",
                  "apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: good}\n"
                  "spec: {image: x, command: [train], nodes: 1}\n");
  Command command({"validate", file.path});
  EXPECT_EQ(command.wait(), 0);
  EXPECT_EQ(command.out(), file.path + ": good is valid\n");
}

TEST(Cluster, no_kubeconfig_is_one_sentence) {
  for (const char* name : {"status", "explain", "logs", "delete"}) {
    Command command(std::string(name) == "status" ? std::vector<std::string>{name}
                                                  : std::vector<std::string>{name, "j"});
    EXPECT_EQ(command.wait(), 1);
    EXPECT_TRUE(command.err().starts_with(std::string("lockstep ") + name + ": no kubeconfig")) << command.err();
    EXPECT_EQ(lines_of(command.err()), 1) << command.err();
  }
}

TEST(Cluster, a_dead_api_server_is_one_sentence) {
  const File file("lockstep-kubeconfig",
                  "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
                  "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
                  "users: [{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n");
  Command command({"status", "--kubeconfig", file.path});
  EXPECT_EQ(command.wait(), 1);
  EXPECT_NE(command.err().find("127.0.0.1:1"), std::string::npos) << command.err();
  EXPECT_NE(command.err().find("the server of context 'a' of " + file.path), std::string::npos) << command.err();
  EXPECT_EQ(lines_of(command.err()), 1) << command.err();
}

}  // namespace
}  // namespace lockstep::cli::usage_test
