// Names inside a pod that are reserved for Lockstep: environment variables, volumes, folders. The CRD's rules agree.
#pragma once

#include <string_view>

namespace lockstep::api {

inline constexpr const char* kAgentFolder = "/lockstep";                  // the agent is copied to this folder
inline constexpr const char* kTokenFolder = "/var/run/secrets/lockstep";  // projected token
inline constexpr const char* kAgentVolume = "lockstep";
inline constexpr const char* kTokenVolume = "lockstep-token";
inline constexpr const char* kShmVolume = "lockstep-shm";
inline constexpr const char* kCheckpointVolume = "lockstep-checkpoint";

// "lockstep" and everything that begins with "lockstep-".
bool is_reserved_volume(std::string_view name);
// The agent's folder, the token's, and everything inside them.
bool is_reserved_path(std::string_view path);
// LOCKSTEP_*: the agent sets them for every kind of rendezvous.
bool is_own_variable(std::string_view name);
// RANK, WORLD_SIZE, MASTER_ADDR, TORCHELASTIC_*, PET_* and the others of torchrun: the agent sets them for each process
// unless the kind of rendezvous is None.
bool is_rank_variable(std::string_view name);

}  // namespace lockstep::api
