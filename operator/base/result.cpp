#include "operator/base/result.h"

namespace lockstep {

const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return "invalid";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kAlreadyExists:
      return "already_exists";
    case ErrorCode::kConflict:
      return "conflict";
    case ErrorCode::kGone:
      return "gone";
    case ErrorCode::kUnauthorized:
      return "unauthorized";
    case ErrorCode::kForbidden:
      return "forbidden";
    case ErrorCode::kTooManyRequests:
      return "too_many_requests";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kExhausted:
      return "exhausted";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

}  // namespace lockstep
