#include "operator/rendezvous/limits.h"

#include <nlohmann/json.hpp>

#include "operator/base/utf8.h"

namespace lockstep::rendezvous {

std::optional<std::int64_t> integer_within(const nlohmann::json& value, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;
  constexpr std::uint64_t kMostSigned = std::numeric_limits<std::int64_t>::max();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMostSigned) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  return number >= least && number <= most ? std::optional(number) : std::nullopt;
}

std::string clipped(std::string_view text, std::size_t most) {
  // What JSON cannot carry is replaced by what is longer: before it is measured.
  const nlohmann::json sent(whole_characters(text, most));
  const auto arrives =
      nlohmann::json::parse(sent.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).get<std::string>();
  return whole_characters(arrives, most);
}

}  // namespace lockstep::rendezvous
