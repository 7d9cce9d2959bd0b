// Expected failures as values: Error, Result<T>, and LOCKSTEP_TRY, which returns a failure to the caller. Exceptions
// stay inside the file that calls a library which throws.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace lockstep {

// The kind of failure, for code that has to choose; the message is for people.
enum class ErrorCode {
  kInvalid,           // the input is wrong and stays wrong: do not retry
  kNotFound,          // the named thing does not exist
  kAlreadyExists,     // a thing of that name exists
  kConflict,          // the resourceVersion or uid precondition failed: read again
  kGone,              // the resourceVersion is too old (410): list again
  kUnauthorized,      // the credentials were not accepted (401)
  kForbidden,         // the credentials do not allow it (403)
  kTooManyRequests,   // the server asks to wait (429, or 503 with Retry-After)
  kUnavailable,       // no answer, or the connection broke
  kDeadlineExceeded,  // the deadline passed
  kCancelled,         // the caller cancelled it
  kCorrupt,           // the data is damaged or of another kind
  kExhausted,         // disk, memory, descriptors or another resource ran out
  kInternal,          // a bug of this program or of the other side
};

// The name of a code in words, for logs and metrics ("not_found").
const char* error_code_name(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;               // one sentence: what failed, on what, why, what to do next
  double retry_after_seconds = 0.0;  // the pause that the server asked for; 0 if none

  // The same error with "<context>: " in front of its message.
  Error in(const std::string& context) const { return {code, context + ": " + message, retry_after_seconds}; }
};

// A value or an Error. Check ok() or bool before value(): access to the wrong one ends the process.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return std::get<1>(state_); }
  T value_or(T other) const { return ok() ? value() : std::move(other); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

// fail(ErrorCode::kInvalid, "nodes must be at least 1") reads better at a return than the braces do.
inline Error fail(ErrorCode code, std::string message) {
  return Error{code, std::move(message)};
}

}  // namespace lockstep

#define LOCKSTEP_CONCAT_INNER(a, b) a##b
#define LOCKSTEP_CONCAT(a, b) LOCKSTEP_CONCAT_INNER(a, b)

// LOCKSTEP_TRY(auto pod, client.get(name)); declares `pod`, or returns the error from the enclosing function.
#define LOCKSTEP_TRY(declaration, expression) \
  LOCKSTEP_TRY_INNER(LOCKSTEP_CONCAT(lockstep_result_, __LINE__), declaration, expression)
#define LOCKSTEP_TRY_INNER(result, declaration, expression) \
  auto result = (expression);                               \
  if (!result) return result.error();                       \
  declaration = std::move(result).value()

// LOCKSTEP_CHECK_OK(store.save(x)); returns the error from the enclosing function if there is one.
#define LOCKSTEP_CHECK_OK(expression)                                                          \
  do {                                                                                         \
    if (auto lockstep_status = (expression); !lockstep_status) return lockstep_status.error(); \
  } while (false)
