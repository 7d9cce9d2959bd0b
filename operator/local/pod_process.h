// A pod of a job, translated for one machine. It is the agent with the command of its main container, the environment
// with the downward API filled in, and folders in place of volumes. Pure but for reading the file system; starts
// nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/result.h"
#include "operator/local/process.h"

namespace lockstep::local {

// Settings of a machine that all its pods share.
struct Machine {
  std::string folder;                        // of the job; it gets claims/, volumes/, tokens/ and roots/
  std::string agent;                         // the lockstep-agent in place of /lockstep/lockstep-agent
  std::vector<std::string> program_folders;  // searched before PATH, and prepended to the processes' PATH
  std::vector<std::string> environment;      // "NAME=value": the base environment of every pod
  std::string node_name = "localhost";
  std::string address = "127.0.0.1";
};

struct PodProcess {
  std::string container;  // name of the main container
  std::string image;
  ProcessSpec process;
  std::vector<std::string> folders;  // to be created before the start
  std::string token_file;            // the path for the pod's token; "" if the pod wants none
};

// Reads the pod (as the API has it). kInvalid with one sentence that names the field. A machine without a cluster lacks
// volumes of other kinds than emptyDir, persistentVolumeClaim and hostPath, values from ConfigMaps and Secrets, and
// several containers. kNotFound: the agent or the command does not exist.
Result<PodProcess> make_pod_process(const nlohmann::json& pod, const Machine& machine);

// "$(NAME)" replaced by the values of `environment`, "$$" by "$"; unknown names stay, as in a cluster.
std::string expand(const std::string& text, const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace lockstep::local
