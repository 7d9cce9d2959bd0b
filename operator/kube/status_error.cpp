#include "operator/kube/status_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "operator/base/number.h"
#include "operator/kube/json_text.h"

namespace lockstep::kube {
namespace {

constexpr std::size_t kMaxMessage = 4096;

bool has_cause(const Json& status, const std::string& reason) {
  const Json* causes = value_at(status, {"details", "causes"});
  if (causes == nullptr || !causes->is_array()) return false;
  return std::any_of(causes->begin(), causes->end(),
                     [&](const Json& cause) { return text_at(cause, {"reason"}) == reason; });
}

constexpr double kMostRetryAfter = 300.0;  // seconds

// The pause that the server asks for: a header or, inside the object, details.retryAfterSeconds.
double wait_asked_for(const Json& status, double header) {
  if (header > 0) return header;
  return std::clamp(static_cast<double>(integer_at(status, {"details", "retryAfterSeconds"})), 0.0, kMostRetryAfter);
}

// 404 of a kind rather than of an object: the Status names no object, or is none at all ("404 page not found").
bool is_unknown_kind(const Json& status) {
  return text_at(status, {"message"}).find("the server could not find the requested resource") != std::string::npos ||
         text_at(status, {"details", "name"}).empty();
}

Error map(int code, const Json& status, const std::string& sentence, double wait, const Resource& resource) {
  const std::string reason = text_at(status, {"reason"});
  switch (code) {
    case 400:
    case 405:
    case 406:
    case 413:
    case 415:
    case 422:
      return fail(ErrorCode::kInvalid, sentence);
    case 401:
      return fail(ErrorCode::kUnauthorized,
                  "the server did not accept our credentials (" + sentence + "): they are wrong or have expired");
    case 403:
      return fail(ErrorCode::kForbidden, sentence);
    case 404:
      if (is_unknown_kind(status)) {
        const bool ours = resource.kind == kTrainingJobs.kind;
        return fail(ErrorCode::kNotFound,
                    fmt::format("{} ({}) is not known to this server{}", resource.kind, resource.api_version(),
                                ours ? ": install the chart, or kubectl apply -f manifests/crd.yaml" : ""));
      }
      return fail(ErrorCode::kNotFound, sentence);
    case 409:
      return fail(reason == "AlreadyExists" ? ErrorCode::kAlreadyExists : ErrorCode::kConflict, sentence);
    case 410:
      return fail(ErrorCode::kGone, sentence);
    case 429:
      return {ErrorCode::kTooManyRequests, sentence, wait};
    case 503:
      if (wait > 0) return {ErrorCode::kTooManyRequests, sentence, wait};
      return fail(ErrorCode::kUnavailable, sentence);
    case 504:
      // A list that asks for more than a restored server knows: like 410, the answer is to list without a version.
      if (has_cause(status, "ResourceVersionTooLarge") ||
          sentence.find("Too large resource version") != sentence.npos) {
        return fail(ErrorCode::kGone, sentence);
      }
      return {ErrorCode::kDeadlineExceeded, sentence, wait};
    default:
      if (code >= 500) return {ErrorCode::kUnavailable, sentence, wait};
      return fail(ErrorCode::kInternal, sentence);
  }
}

}  // namespace

Error error_from_answer(int http_status, const std::string& body, double retry_after_seconds,
                        const Resource& resource) {
  const Json status = Json::parse(body, nullptr, false);
  std::string sentence = text_at(status, {"message"}).substr(0, kMaxMessage);
  if (sentence.empty()) {
    const std::string shown = body.substr(0, std::min<std::size_t>(body.find('\n'), 200));
    sentence = fmt::format("HTTP {}{}{}", http_status, shown.empty() ? "" : ": ", shown);
  }
  return map(http_status, status, sentence, wait_asked_for(status, retry_after_seconds), resource);
}

Error error_from_status(const Json& status, double retry_after_seconds, const Resource& resource) {
  auto code = static_cast<int>(std::clamp<std::int64_t>(integer_at(status, {"code"}), 0, 999));
  const std::string reason = text_at(status, {"reason"});
  if (reason == "Expired" || reason == "Gone") code = 410;
  std::string sentence = text_at(status, {"message"}).substr(0, kMaxMessage);
  if (sentence.empty()) sentence = fmt::format("the server ended the watch with code {}", code);
  return map(code == 0 ? 500 : code, status, sentence, wait_asked_for(status, retry_after_seconds), resource);
}

double seconds_of_retry_after(std::string_view value) {
  return std::clamp(as_number<double>(value).value_or(0), 0.0, kMostRetryAfter);
}

}  // namespace lockstep::kube
