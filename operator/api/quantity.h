// Amounts of resources as Kubernetes writes them: "2", "500m", "1.5Gi", "2e3".
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "operator/base/result.h"

namespace lockstep::api {

// Exact to one billionth, like the API server's. Finer digits are rounded away from zero. Values larger than an int64
// are cut to its limit.
class Quantity {
 public:
  Quantity() = default;
  // Reads the text of a quantity; kInvalid if it is none.
  static Result<Quantity> parse(std::string_view text);

  bool is_negative() const { return nano_ < 0; }
  bool is_zero() const { return nano_ == 0; }
  // Whole units, rounded up: bytes of memory, for example.
  std::int64_t ceil() const;
  // Thousandths, rounded up: milli-CPUs. Values larger than an int64 are cut to its limit.
  std::int64_t ceil_milli() const;
  // The sum of two amounts that are not negative, cut to the limit of an int64 in whole units.
  Quantity& operator+=(const Quantity& other);
  auto operator<=>(const Quantity&) const = default;

 private:
  __int128 nano_ = 0;
};

// The shortest whole form of a number of bytes: "17Gi", "1536Mi", "1000".
std::string format_bytes(std::int64_t bytes);

}  // namespace lockstep::api
