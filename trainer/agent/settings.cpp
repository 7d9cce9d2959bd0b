#include "trainer/agent/settings.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/random.h>

#include <map>

#include "operator/base/number.h"
#include "operator/rendezvous/coordinator.h"

namespace lockstep::trainer::agent {
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::string> text(const Variables& variables, const char* name) {
  const auto at = variables.find(name);
  if (at == variables.end() || at->second.empty()) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{} is not set; lockstep-agent is started by the operator or by lockstep run", name));
  }
  return at->second;
}

Result<std::int64_t> number(const Variables& variables, const char* name) {
  LOCKSTEP_TRY(const std::string value, text(variables, name));
  const auto parsed = parse_number<std::int64_t>(value, 0, 1'000'000'000);
  if (!parsed) return parsed.error().in(name);
  return *parsed;
}

// Differs for every agent process.
std::string fresh_session() {
  unsigned char bytes[16] = {};
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) bytes[0] = 1;
  std::string session;
  for (const unsigned char byte : bytes) session += fmt::format("{:02x}", byte);
  return session;
}

}  // namespace

Result<Settings> read_settings(const std::vector<std::string>& environment) {
  Variables variables;
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  Settings settings;
  LOCKSTEP_TRY(settings.coordinator, text(variables, rendezvous::kEnvCoordinator));
  LOCKSTEP_TRY(settings.coordinator_ca, text(variables, rendezvous::kEnvCoordinatorCa));
  LOCKSTEP_TRY(settings.member.name_space, text(variables, rendezvous::kEnvNamespace));
  LOCKSTEP_TRY(settings.member.pod_name, text(variables, rendezvous::kEnvPodName));
  LOCKSTEP_TRY(settings.member.pod_uid, text(variables, rendezvous::kEnvPodUid));
  LOCKSTEP_TRY(settings.pod_ip, text(variables, rendezvous::kEnvPodIp));
  unsigned char binary[16];
  if (inet_pton(AF_INET, settings.pod_ip.c_str(), binary) != 1 &&
      inet_pton(AF_INET6, settings.pod_ip.c_str(), binary) != 1) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{} is \"{}\", which is not an IP address", rendezvous::kEnvPodIp, settings.pod_ip));
  }
  LOCKSTEP_TRY(const std::int64_t slot, number(variables, rendezvous::kEnvSlot));
  settings.member.slot = static_cast<int>(slot);
  LOCKSTEP_TRY(settings.member.incarnation, number(variables, rendezvous::kEnvIncarnation));
  if (variables.count(rendezvous::kEnvStopGrace) != 0) {
    LOCKSTEP_TRY(const std::int64_t seconds, number(variables, rendezvous::kEnvStopGrace));
    settings.stop_grace = std::chrono::seconds(seconds);
  }
  settings.token_file = variables[rendezvous::kEnvTokenFile];
  settings.end_with_parent = variables[rendezvous::kEnvParentDeath] == "1";
  settings.member.session = fresh_session();
  return settings;
}

}  // namespace lockstep::trainer::agent
