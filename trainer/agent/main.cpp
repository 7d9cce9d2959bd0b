// lockstep-agent: see kHelp.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "operator/base/version.h"
#include "operator/rendezvous/worker_contract.h"
#include "trainer/agent/agent.h"
#include "trainer/agent/install.h"
#include "trainer/agent/settings.h"

namespace {

constexpr const char* kHelp =
    "lockstep-agent: PID 1 of a training pod. It starts the pod's processes with the variables of each\n"
    "generation, reaps and restarts them, and speaks for them with the coordinator.\n"
    "\n"
    "  lockstep-agent run -- COMMAND [ARGUMENT...]   what the operator puts in front of a job's command\n"
    "  lockstep-agent install PATH                   copies itself to PATH (the init container does this)\n"
    "  lockstep-agent --version\n"
    "  lockstep-agent --help\n"
    "\n"
    "`run` reads LOCKSTEP_COORDINATOR and its other settings from the environment, where the operator and\n"
    "`lockstep run` put them. It exits with 0 when the job is done or was stopped in good order. When the\n"
    "job has failed, it exits with the code of the failure; when it was told to end, with 128 + the signal.\n";

int usage(const std::string& sentence) {
  std::fprintf(stderr, "lockstep-agent: %s\nTry lockstep-agent --help.\n", sentence.c_str());
  return lockstep::rendezvous::kExitUsage;
}

int run(std::vector<std::string> command) {
  namespace agent = lockstep::trainer::agent;
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  auto settings = agent::read_settings(environment);
  if (!settings) return usage(settings.error().message);
  auto made = agent::Agent::make(std::move(*settings), std::move(command), std::move(environment));
  if (!made) return usage(made.error().message);
  return (*made)->run();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string verb = arguments.empty() ? "" : arguments[0];
  if (verb == "--version") {
    std::printf("lockstep-agent %s\n", lockstep::version_and_commit().c_str());
    return 0;
  }
  if (verb == "--help" || verb == "-h") {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (verb == "install") {
    if (arguments.size() != 2) return usage("install needs one PATH");
    const lockstep::Status installed = lockstep::trainer::agent::install(arguments[1]);
    if (installed) return 0;
    std::fprintf(stderr, "lockstep-agent: %s\n", installed.error().message.c_str());
    return 1;
  }
  if (verb == "run") {
    if (arguments.size() < 3 || arguments[1] != "--") return usage("run needs -- and a command");
    return run({arguments.begin() + 2, arguments.end()});
  }
  return usage(verb.empty() ? "a verb is missing" : "there is no verb \"" + verb + "\"");
}
