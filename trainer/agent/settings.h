// The agent's settings from the environment of its pod (operator/rendezvous/coordinator.h names the variables).
#pragma once

#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/rendezvous/member_state.h"

namespace lockstep::trainer::agent {

struct Settings {
  std::string coordinator;  // "ip:port"
  std::string coordinator_ca;
  std::string token_file;  // empty: no token is sent
  std::string pod_ip;
  bool end_with_parent = false;
  Duration stop_grace = std::chrono::seconds(25);
  rendezvous::MemberOptions member;
};

// `environment`: "NAME=value" each. kInvalid with a sentence that names the variable.
Result<Settings> read_settings(const std::vector<std::string>& environment);

}  // namespace lockstep::trainer::agent
