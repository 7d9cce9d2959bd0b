#include "operator/api/reserved_names.h"

#include <algorithm>
#include <array>

namespace lockstep::api {
namespace {

constexpr std::array<std::string_view, 12> kRankVariables{
    "RANK",      "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",  "GROUP_WORLD_SIZE",
    "NODE_RANK", "ROLE_RANK",  "ROLE_NAME",  "ROLE_WORLD_SIZE",  "MASTER_ADDR", "MASTER_PORT"};

bool is_within(std::string_view path, std::string_view folder) {
  return path.substr(0, folder.size()) == folder && (path.size() == folder.size() || path[folder.size()] == '/');
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

}  // namespace

bool is_reserved_volume(std::string_view name) {
  return name == kAgentVolume || starts_with(name, "lockstep-");
}

bool is_reserved_path(std::string_view path) {
  return is_within(path, kAgentFolder) || is_within(path, kTokenFolder);
}

bool is_own_variable(std::string_view name) {
  return starts_with(name, "LOCKSTEP_");
}

bool is_rank_variable(std::string_view name) {
  return std::find(kRankVariables.begin(), kRankVariables.end(), name) != kRankVariables.end() ||
         starts_with(name, "TORCHELASTIC_") || starts_with(name, "PET_");
}

}  // namespace lockstep::api
