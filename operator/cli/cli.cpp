#include "operator/cli/cli.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>

#include "operator/base/version.h"
#include "operator/cli/bench_flags.h"
#include "operator/cli/bench_storage.h"
#include "operator/cli/bench_train.h"
#include "operator/cli/cluster_commands.h"
#include "operator/cli/completion.h"
#include "operator/cli/data_command.h"
#include "operator/cli/interrupts.h"
#include "operator/cli/job_file.h"
#include "operator/cli/placement_commands.h"
#include "operator/cli/run_command.h"
#include "operator/cli/text.h"

namespace lockstep::cli {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

struct Arguments {
  RunOptions run;
  BenchOptions bench;
  StorageOptions storage;
  std::vector<std::string> kills;
  std::string chaos;
  ClusterOptions cluster;
  std::vector<std::string> files;
  std::vector<std::string> names;
  StatusOptions status;
  std::string format;
  std::string explained;
  ProfileChoice profile;
  JobLogOptions logs;
  TopologyOptions topology;
  PlanOptions plan;
  bool wait = false;
  std::string shell;
};

void add_cluster_options(CLI::App& command, ClusterOptions& options) {
  command.add_option("-n,--namespace", options.name_space, "Namespace (default: that of the context)");
  command.add_option("--context", options.context, "Context of the kubeconfig (default: the current one)");
  command.add_option("--kubeconfig", options.kubeconfig, "Kubeconfig file (default: $KUBECONFIG or ~/.kube/config)");
}

CLI::App* add_run(CLI::App& app, Arguments& to) {
  CLI::App* run =
      app.add_subcommand("run", "Run a job on this machine, without a cluster; words after -- go to its program");
  run->add_option("job", to.run.file, "Job file; - is standard input")->required()->type_name("JOB.yaml");
  run->add_option("-w,--workers", to.run.workers, "Number of workers, instead of spec.nodes")
      ->check(CLI::Range(1, 4096));
  run->add_option("--kill-worker", to.kills, "Kill the process of RANK once the job has committed STEP")
      ->type_name("RANK@STEP")
      ->expected(1)
      ->take_all();
  run->add_option("--chaos", to.chaos,
                  "Inject FAULTS faults (default 20) in an order derived from SEED, then verify the ledger")
      ->type_name("SEED[:FAULTS]");
  run->add_option("--data", to.run.data, "Data for the program: sets its --data")->type_name("PATH");
  run->add_flag("--deterministic", to.run.deterministic, "Pass --deterministic to the program");
  run->add_option("--set", to.run.settings, "Set a field of the job")
      ->type_name("FIELD=VALUE")
      ->expected(1)
      ->take_all();
  run->add_option("-o,--output", to.run.output, "Folder for logs and checkpoints (default: lockstep-runs/<job>-<time>)")
      ->type_name("DIR");
  run->add_flag("--logs", to.run.logs, "Also show the output of the workers");
  auto* quiet = run->add_flag("-q,--quiet", to.run.quiet, "Print nothing but failures");
  run->add_flag("--json", to.run.json, "Print JSON lines: progress, then the result")->excludes(quiet);
  run->footer(
      "Examples:\n"
      "  lockstep run examples/language-model.yaml\n"
      "  lockstep run job.yaml --workers 2 --kill-worker 1@100\n"
      "  lockstep run job.yaml --chaos 7:60 --deterministic\n"
      "  lockstep run job.yaml --data ~/book.txt --set spec.restart.maxRestarts=3 -- --steps=500\n\n"
      "A --flag=value after -- replaces the job's own value for that flag.\n"
      "Chaos kills workers and pods, drains pods, freezes workers, cuts connections and restarts the operator. It\n"
      "touches only processes of this run, and raises restart.maxRestarts by the restarts that it may cost.\n"
      "Ctrl-C ends all workers and leaves nothing behind; a second one does so at once. The exit status is the\n"
      "job's: 0 when it succeeded, otherwise that of the rank that failed; 1 when it could not start, 2 for wrong\n"
      "usage, 127 when its command is not found, 130 after Ctrl-C. Under chaos it is 1 if the ledger has a violation.");
  return run;
}

CLI::App* add_validate(CLI::App& app, Arguments& to) {
  CLI::App* validate = app.add_subcommand("validate", "Check job files, with no cluster");
  validate->add_option("files", to.files, "Job files; - is standard input")->required()->type_name("FILE");
  validate->footer(
      "Examples:\n"
      "  lockstep validate job.yaml\n"
      "  lockstep validate examples/*.yaml\n\n"
      "Prints a line for every problem: file:line:column: field: problem. Exit status 1 if there are any.");
  return validate;
}

void add_profile_options(CLI::App& command, ProfileChoice& choice) {
  auto* levels = command
                     .add_option("--topology-level", choice.levels,
                                 "Network level above the node, by a label of nodes; repeat it, outermost first")
                     ->type_name("NAME=LABEL")
                     ->expected(1)
                     ->take_all();
  command.add_option("--preset", choice.preset, "Levels of a cloud or tool (default: those of the operator)")
      ->check(CLI::IsMember(preset_names()))
      ->excludes(levels);
}

CLI::App* add_topology(CLI::App& app, Arguments& to) {
  CLI::App* topology = app.add_subcommand("topology", "Draw a cluster's network domains with free capacity and jobs");
  add_profile_options(*topology, to.topology.profile);
  topology->add_option("--resource", to.topology.resource, "What to count (default: GPUs; CPUs where no node has any)")
      ->type_name("NAME");
  topology->add_option("--depth", to.topology.draw.depth, "Levels to draw below the cluster (default: 60 lines)")
      ->check(CLI::NonNegativeNumber);
  topology->add_flag("--all", to.topology.draw.all, "Draw every domain and node");
  topology->add_flag("--json", to.topology.json, "Print the whole tree as JSON");
  topology->footer(
      "Examples:\n"
      "  lockstep topology\n"
      "  lockstep topology --depth 2 --resource cpu\n"
      "  lockstep topology --topology-level block=example.com/block --topology-level rack=example.com/rack\n\n"
      "Reads all nodes and the pods of all namespaces, and changes nothing. Levels are those of the operator (value\n"
      "topology of the chart), or the preset that fits the nodes. A hole is what one domain has free. Nodes that are\n"
      "cordoned, not ready or out of service have nothing free. In brackets behind a job: its pods.");
  return topology;
}

CLI::App* add_plan(CLI::App& app, Arguments& to) {
  CLI::App* plan = app.add_subcommand("plan", "Show where a job's pods would go now, or why they would not fit");
  plan->add_option("file", to.files, "Job file; - is standard input")->required()->expected(1)->type_name("FILE");
  add_profile_options(*plan, to.plan.profile);
  plan->add_flag("--json", to.plan.json, "Print nodes, or what is short, as JSON");
  plan->footer(
      "Examples:\n"
      "  lockstep plan job.yaml\n"
      "  lockstep plan job.yaml --topology-level rack=example.com/rack --json\n\n"
      "Reads all nodes and the pods of all namespaces, and creates nothing. Levels are those of the operator (value\n"
      "topology of the chart). The answer is for this moment, and gangs that wait already go first. The exit status\n"
      "is 0 when the job would start, 1 when it would not.");
  return plan;
}

void add_cluster_commands(CLI::App& app, Arguments& to) {
  CLI::App* submit = app.add_subcommand("submit", "Create or change a job on a cluster");
  submit->add_option("file", to.files, "Job file; - is standard input")->required()->expected(1)->type_name("FILE");
  submit->add_flag("--wait", to.wait, "Wait until the job ends; the exit status is the job's");
  submit->footer("Examples:\n  lockstep submit job.yaml\n  lockstep submit job.yaml -n research --wait");
  CLI::App* status = app.add_subcommand("status", "Show jobs of a cluster");
  status->add_option("name", to.status.name, "Job; all of the namespace without one")->type_name("[NAME]");
  status->add_flag("-w,--watch", to.status.watch, "Keep showing changes; with a name, until the job ends");
  status->add_option("-o,--output", to.format, "json")->check(CLI::IsMember({"json"}));
  status->footer(
      "Examples:\n  lockstep status\n  lockstep status language-model -w\n  lockstep status language-model -o json");
  CLI::App* explain =
      app.add_subcommand("explain", "Explain each failure of a job: the rank that failed first, the reaction, and why");
  explain->add_option("job", to.explained, "Job of a cluster, or the folder of a run on this machine")
      ->required()
      ->type_name("NAME|FOLDER");
  add_profile_options(*explain, to.profile);
  explain->footer(
      "Examples:\n  lockstep explain language-model\n  lockstep explain lockstep-runs/language-model-1122-130501\n\n"
      "For each attempt that ended: its cause, the operator's reaction, the rule behind it, and the milliseconds of\n"
      "the recovery. agree = PROPOSE to GO: decide (the operator handles the failure), abort (the others leave the\n"
      "old generation) and record (it is stored). start = GO until all have the state: init (links), transfer.\n"
      "For a job whose pods have no nodes: what is short on how many nodes, the largest holes, and what would help.\n"
      "A word with a / in it, or that names a folder or file here, means a run on this machine.");
  CLI::App* logs = app.add_subcommand("logs", "Print the logs of a job's workers");
  logs->add_option("name", to.logs.name, "Job")->required()->type_name("NAME");
  logs->add_flag("-f,--follow", to.logs.follow, "Follow until the job ends");
  logs->add_option("--rank", to.logs.rank, "Only this rank")->check(CLI::NonNegativeNumber);
  logs->add_option("--tail", to.logs.tail, "Only the last lines of each pod")->check(CLI::NonNegativeNumber);
  logs->footer("Examples:\n  lockstep logs language-model\n  lockstep logs language-model -f --rank 0 --tail 20");
  CLI::App* remove = app.add_subcommand("delete", "Delete jobs and their pods from a cluster");
  remove->add_option("names", to.names, "Jobs")->required()->type_name("NAME");
  remove->footer("Example:\n  lockstep delete language-model");
  CLI::App* topology = add_topology(app, to);
  CLI::App* plan = add_plan(app, to);
  for (CLI::App* command : {submit, status, explain, logs, remove, topology, plan})
    add_cluster_options(*command, to.cluster);
}

// Words after it are those of lockstep-data (data_command.h).
void add_data(CLI::App& app) {
  app.add_subcommand("data", "Make data sets of images for the trainer, from a folder or from a seed");
}

// The words of a set that CLI::IsMember checks: it names them in the type, "TEXT:{a,b}".
std::vector<std::string> values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t from = type.find('{'), to = type.rfind('}');
  if (from == std::string::npos || to == std::string::npos) return {};
  return CLI::detail::split(type.substr(from + 1, to - from - 1), ',');
}

// The commands of a command: "train" of "bench".
std::vector<std::string> parts_of(const CLI::App* command) {
  std::vector<std::string> parts;
  if (command == nullptr) return parts;
  for (const CLI::App* part : command->get_subcommands({})) parts.push_back(part->get_name());
  return parts;
}

std::vector<CommandWords> command_words(const CLI::App& app) {
  std::vector<CommandWords> words;
  for (const CLI::App* command : app.get_subcommands({})) {
    CommandWords one{.name = command->get_name(), .description = command->get_description()};
    std::vector<const CLI::Option*> all = command->get_options();
    one.words = parts_of(command);
    for (const CLI::App* part : command->get_subcommands({})) {
      for (const CLI::Option* option : part->get_options()) {
        if (!option->check_lname("help")) all.push_back(option);  // the command has it
      }
    }
    for (const CLI::Option* option : all) {
      std::vector<std::string> names;
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
      for (const std::string& name : names) {
        // Commands of a command may share an option.
        if (std::find(one.options.begin(), one.options.end(), name) == one.options.end()) one.options.push_back(name);
        if (auto values = values_of(*option); !values.empty()) one.values[name] = std::move(values);
      }
    }
    one.takes_files = one.name == "run" || one.name == "validate" || one.name == "submit" || one.name == "explain" ||
                      one.name == "plan" || one.name == "bench" || one.name == "data";
    if (one.name == "data") {
      one.words = data_words();
      for (const std::string& option : data_options()) one.options.push_back(option);
    }
    words.push_back(std::move(one));
  }
  return words;
}

// A sentence for the mistyped word, with a suggestion.
int refuse_words(const CLI::App& app, const std::vector<std::string>& words, const CLI::ParseError& error) {
  const CLI::App* command = nullptr;
  std::vector<std::string> commands;
  for (const CLI::App* one : app.get_subcommands({})) {
    commands.push_back(one->get_name());
    if (!words.empty() && words[0] == one->get_name()) command = one;
  }
  const auto unknown = [&](const std::string& what, const std::string& word, const std::vector<std::string>& known) {
    const std::string near = nearest(word, known);
    return fmt::format("there is no {} \"{}\"{}", what, word,
                       near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
  };
  std::string sentence = error.what();
  if (command == nullptr && !words.empty()) {
    sentence = words[0].starts_with("-") ? unknown("option", words[0], {"--help", "--version"})
                                         : unknown("command", words[0], commands);
  } else if (const auto parts = parts_of(command); !parts.empty() && words.size() > 1 && !words[1].starts_with("-") &&
                                                   std::find(parts.begin(), parts.end(), words[1]) == parts.end()) {
    sentence = unknown("command", words[1], parts);
  } else if (command != nullptr && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::vector<std::string> options;
    for (const CommandWords& one : command_words(app)) {
      if (one.name == command->get_name()) options = one.options;
    }
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string name = words[i].substr(0, words[i].find('='));
      if (name.starts_with("-") && name != "-" && std::find(options.begin(), options.end(), name) == options.end()) {
        sentence = unknown("option", name, options);
        break;
      }
    }
  }
  std::string who = command == nullptr ? "lockstep" : "lockstep " + command->get_name();
  for (const std::string& part : parts_of(command)) {
    if (words.size() > 1 && part == words[1]) who += " " + part;
  }
  fmt::print(stderr, "{}: {}\nSee {} --help.\n", who, sentence, who);
  return kExitUsage;
}

int validate_files(const std::vector<std::string>& files) {
  bool fine = true;
  for (const std::string& path : files) {
    const auto file = read_checked_job(path);
    if (!file) {
      fmt::print(stderr, "lockstep validate: {}\n", file.error().message);
      fine = false;
      continue;
    }
    for (const std::string& problem : file->problems) fmt::print("{}\n", problem);
    fine = fine && file->problems.empty();
    if (file->problems.empty()) fmt::print("{}: {} is valid\n", path, file->job["metadata"].value("name", ""));
  }
  return fine ? 0 : kExitFailure;
}

// Runs a command of a cluster; Ctrl-C stops it, which the user wants and which is no failure.
int with_cluster(const std::string& command, const ClusterOptions& options,
                 const std::function<Result<int>(const Target&, std::stop_token)>& work) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_DFL);  // `lockstep logs x | head` ends quietly
  std::stop_source stop;
  std::atomic<int> signal{0};
  const auto interrupts = watch_interrupts([&](int number, int count) {
    if (count > 1) _exit(128 + number);
    signal.store(number);
    stop.request_stop();
  });
  const auto refuse = [&](const Error& error, const std::string& more = "") {
    fmt::print(stderr, "lockstep {}: {}{}\n", command, error.message, more);
    return kExitFailure;
  };
  if (!interrupts) return refuse(interrupts.error());
  auto connection = connect(options, SystemClock::instance());
  if (!connection) return refuse(connection.error());
  const Target target{*connection->api, connection->name_space, SystemClock::instance(), stdout};
  const Result<int> result = work(target, stop.get_token());
  fflush(stdout);
  if (signal.load() != 0) return 128 + signal.load();
  if (result) return *result;
  const ErrorCode code = result.error().code;
  if (code != ErrorCode::kUnavailable && code != ErrorCode::kDeadlineExceeded) return refuse(result.error());
  // The user may not know why this server is asked: the message says where its address comes from.
  return refuse(result.error(),
                fmt::format(" (the server of {}; --kubeconfig and --context choose another)", connection->source));
}

// Names of jobs have no slash.
bool is_run(const std::string& word) {
  std::error_code error;
  return word.find('/') != std::string::npos || std::filesystem::exists(word, error);
}

Result<int> zero(const Status& status) {
  if (!status) return status.error();
  return 0;
}

int dispatch(const CLI::App& app, Arguments& given) {
  const std::string command = app.get_subcommands()[0]->get_name();
  if (command == "run") {
    for (const std::string& text : given.kills) {
      const auto kill = parse_worker_kill(text);
      if (!kill) {
        fmt::print(stderr, "lockstep run: {}\n", kill.error().message);
        return kExitUsage;
      }
      given.run.kills.push_back(*kill);
    }
    if (!given.chaos.empty()) {
      const auto wish = parse_chaos(given.chaos);
      if (!wish) {
        fmt::print(stderr, "lockstep run: {}\n", wish.error().message);
        return kExitUsage;
      }
      given.run.chaos = *wish;
    }
    return run_command(given.run);
  }
  if (command == "bench") {
    const bool storage = app.get_subcommands()[0]->get_subcommands()[0]->get_name() == "storage";
    return storage ? bench_storage(given.storage) : bench_train(given.bench);
  }
  if (command == "validate") return validate_files(given.files);
  if (command == "completion") {
    const auto script = completion_script(given.shell, command_words(app));
    if (script) fmt::print("{}", *script);
    if (!script) fmt::print(stderr, "lockstep completion: {}\n", script.error().message);
    return script ? 0 : kExitUsage;
  }
  if (command == "submit" || command == "plan") {
    const auto job = read_valid_job(given.files[0]);
    if (!job) {
      fmt::print(stderr, "lockstep {}: {}\n", command, job.error().message);
      return kExitFailure;
    }
    if (given.cluster.name_space.empty()) given.cluster.name_space = (*job)["metadata"].value("namespace", "");
    return with_cluster(command, given.cluster, [&](const Target& target, std::stop_token stop) {
      if (command == "plan") return plan(target, *job, given.plan);
      return submit(target, *job, given.wait, std::move(stop));
    });
  }
  if (command == "explain" && is_run(given.explained)) {
    const Status told = explain_run(given.explained, SystemClock::instance(), stdout);
    if (!told) fmt::print(stderr, "lockstep explain: {}\n", told.error().message);
    return told ? 0 : kExitFailure;
  }
  given.status.json = given.format == "json";
  return with_cluster(command, given.cluster, [&](const Target& target, std::stop_token stop) -> Result<int> {
    if (command == "status") return status(target, given.status, std::move(stop));
    if (command == "explain") return zero(explain(target, given.explained, given.profile));
    if (command == "topology") return zero(topology(target, given.topology));
    if (command == "logs") return zero(logs(target, given.logs, std::move(stop)));
    return zero(remove_jobs(target, given.names));
  });
}

}  // namespace

int run_cli(int argc, const char* const* argv) {
  Arguments given;
  CLI::App app(
      "Lockstep runs data-parallel training jobs: on this machine with `run`, on a Kubernetes cluster with the other "
      "commands.",
      "lockstep");
  app.set_version_flag("--version", "lockstep " + version_and_commit());
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  lockstep run examples/language-model.yaml     train on this machine\n"
      "  lockstep validate job.yaml                    check a job file\n"
      "  lockstep submit job.yaml --wait               the same job on a cluster\n"
      "  lockstep status -w                            watch it\n\n"
      "See lockstep COMMAND --help.");
  add_run(app, given);
  add_bench(app, given.bench, given.storage);
  add_validate(app, given);
  add_cluster_commands(app, given);
  add_data(app);
  CLI::App* completion = app.add_subcommand("completion", "Print a script that completes this command in a shell");
  completion->add_option("shell", given.shell, "bash, zsh or fish")->required()->type_name("SHELL");
  completion->footer("Example:\n  source <(lockstep completion bash)");

  // Words after "--" belong to the program, whatever they look like.
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "data") return run_data_program({words.begin() + 1, words.end()});
  const auto separator = std::find(words.begin(), words.end(), "--");
  if (separator != words.end() && (words[0] == "run" || words[0] == "bench")) {
    std::vector<std::string>& args = words[0] == "run" ? given.run.program_args : given.bench.trainer_args;
    args.assign(separator + 1, words.end());
    words.erase(separator, words.end());
  }
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    if (words.empty()) {
      fmt::print(stderr, "{}", app.help());
      return kExitUsage;
    }
    return refuse_words(app, words, error);
  }
  return dispatch(app, given);
}

}  // namespace lockstep::cli
