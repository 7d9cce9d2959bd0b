// Anything at all as a job file: it is read, checked and parsed without harm.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "operator/api/training_job.h"
#include "operator/api/validate.h"

extern "C" int validate_fuzz(const std::uint8_t* data, size_t size);

extern "C" int validate_fuzz(const std::uint8_t* data, size_t size) {
  using lockstep::api::Json;
  const auto file = lockstep::api::read_job_file({reinterpret_cast<const char*>(data), size});
  for (const auto& problem : file.problems) {
    if (problem.sentence.empty()) std::abort();
  }
  const auto job = lockstep::api::parse_training_job(file.json);
  // What has no problem can be read, and comes back as it went in.
  if (file.problems.empty() && !job) std::abort();
  if (job) {
    const auto again = lockstep::api::parse_training_job(lockstep::api::to_json(*job));
    if (!again || lockstep::api::to_json(*again) != lockstep::api::to_json(*job)) std::abort();
  }
  (void)file.json.dump(-1, ' ', false, Json::error_handler_t::strict);  // text that is not UTF-8 would throw here
  return 0;
}
