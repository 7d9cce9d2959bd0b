// A pod of a job turned into what one machine starts for it: the agent with the command of its main container, the
// environment with the downward API filled in, and folders of the job in the place of volumes. Pure but for looking
// at the file system; starts nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/result.h"
#include "operator/local/process.h"

namespace lockstep::local {

// What is the same for all pods of a machine.
struct Machine {
  std::string folder;                        // of the job; claims/, volumes/, tokens/ and roots/ are made in it
  std::string agent;                         // the lockstep-agent that stands for /lockstep/lockstep-agent
  std::vector<std::string> program_folders;  // searched before PATH, and put in front of the processes' PATH
  std::vector<std::string> environment;      // "NAME=value": what every pod starts from
  std::string node_name = "localhost";
  std::string address = "127.0.0.1";
};

struct PodProcess {
  std::string container;  // name of the main container
  std::string image;
  ProcessSpec process;
  std::vector<std::string> folders;  // to be made before the start
  std::string token_file;            // where the pod's token goes; "" when the pod wants none
};

// Reads the pod (as the API has it). kInvalid with one sentence that names the field for what a machine without a
// cluster cannot give: volumes of other kinds than emptyDir, persistentVolumeClaim and hostPath, values from
// ConfigMaps and Secrets, several containers. kNotFound when the agent or the command is nowhere.
Result<PodProcess> make_pod_process(const nlohmann::json& pod, const Machine& machine);

// "$(NAME)" replaced by the values of `environment`, "$$" by "$"; unknown names stay, as in a cluster.
std::string expand(const std::string& text, const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace lockstep::local
