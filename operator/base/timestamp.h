// RFC 3339 time stamps as Kubernetes writes them: whole seconds (metav1.Time) and six digits (metav1.MicroTime).
#pragma once

#include <string>
#include <string_view>

#include "operator/base/clock.h"
#include "operator/base/result.h"

namespace lockstep {

// "2026-11-20T12:34:56Z"; the fraction is cut off, not rounded.
std::string format_timestamp(WallTime time);
// "2026-11-20T12:34:56.123456Z": exactly six digits, anything else is refused by the API server.
std::string format_micro_timestamp(WallTime time);
// Reads both forms and any fraction of up to nine digits, with Z or a numeric offset, of the years 1678 to 2261.
// kInvalid otherwise.
Result<WallTime> parse_timestamp(std::string_view text);

}  // namespace lockstep
