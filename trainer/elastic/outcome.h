// A result whose failure says which part of the trainer it comes from. Result<T> of a room below becomes an Outcome<T>
// only through from(), where the caller names the origin. LOCKSTEP_TRY and LOCKSTEP_CHECK_OK pass a failure on with its
// origin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "operator/base/result.h"

namespace lockstep::trainer::elastic {

// With the error's code it decides the exit code (ending.h).
enum class Origin : std::uint8_t {
  kUsage,          // flags
  kConfig,         // settings or environment
  kDevice,         // a GPU that was asked for
  kData,           // reading or checking data
  kRestore,        // loading a checkpoint
  kSave,           // writing a checkpoint
  kCommunication,  // connecting, or a collective
  kNumerics,       // NaN or infinity in the loss
  kInternal,       // anything else
};

struct Failure {
  Error why;
  Origin origin = Origin::kInternal;
};

// fail(Origin::kNumerics, ErrorCode::kInvalid, "the loss is not finite")
inline Failure fail(Origin origin, ErrorCode code, std::string message) {
  return {{code, std::move(message)}, origin};
}

// A value or a Failure. Check ok() or bool before value(): access to the wrong one ends the process.
template <typename T = void>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Outcome(Failure failure)
      : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const Failure& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Outcome<void> {
 public:
  Outcome() = default;
  Outcome(Failure failure) : failure_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !failure_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Failure& error() const { return *failure_; }

 private:
  std::optional<Failure> failure_;
};

// `result`, whose error comes from `origin`.
template <typename T>
Outcome<T> from(Origin origin, Result<T> result) {
  if (!result) return Failure{result.error(), origin};
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return std::move(result).value();
  }
}

}  // namespace lockstep::trainer::elastic
