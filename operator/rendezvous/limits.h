// What the numbers and texts may be that a process tells its agent and the agent its coordinator. Both are held to the
// same: an agent that passed on what its coordinator refuses would lose its connection, again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::rendezvous {

inline constexpr std::int64_t kMostCount = std::numeric_limits<std::int64_t>::max() / 2;  // of anything that is counted
// Of a term or a generation that a member claims to have promised: a job that moves above it still counts for ever.
inline constexpr std::int64_t kMostPromised = kMostCount / 2;
inline constexpr int kMostRanks = 1'000'000;

// Bytes.
inline constexpr std::size_t kMaxMessage = 4096;  // a sentence for people
inline constexpr std::size_t kMaxName = 256;      // of a pod, a checkpoint; also its digest
inline constexpr std::size_t kMaxWord = 64;       // one of a list of words, an address

// The integer that `value` is; none when it is something else, or not from `least` to `most`.
std::optional<std::int64_t> integer_within(const nlohmann::json& value, std::int64_t least, std::int64_t most);

// The beginning of `text` as it arrives in a message: at most `most` bytes of whole UTF-8 characters, U+FFFD for what
// was none.
std::string clipped(std::string_view text, std::size_t most);

}  // namespace lockstep::rendezvous
