#include "operator/job/priority.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/api/lookup.h"
#include "operator/api/suggest.h"

namespace lockstep::job {
namespace {

using namespace std::chrono_literals;
using api::at;
using kube::Json;

// A class that is deleted and created again may have another value.
constexpr Duration kKeep = 5min;
// Every reconcile of a job with an unknown class asks; the API server is asked once in this time.
constexpr Duration kListAgain = 5s;

// A value beyond the range of int32 is none: the API server refuses it.
int value_in(const Json& object) {
  const Json& value = at(object, "value");
  return value.is_number_integer() ? value.get<int>() : 0;
}

}  // namespace

Result<PriorityClasses::Known> PriorityClasses::list() const {
  Known known{.listed = clock_.now()};
  kube::ListOptions options;
  do {
    LOCKSTEP_TRY(const kube::ListPage page, api_.list(kube::kPriorityClasses, options));
    for (const Json& item : page.items) {
      const int value = value_in(item);
      known.values[api::text_of(at(at(item, "metadata"), "name"))] = value;
      if (at(item, "globalDefault") == true) known.without_class = value;
    }
    options.continue_token = page.continue_token;
  } while (!options.continue_token.empty());
  return known;
}

Result<int> PriorityClasses::value_of(const std::string& name) {
  const std::lock_guard guard(mutex_);
  const bool missing = known_ && !name.empty() && known_->values.count(name) == 0;
  if (!known_ || clock_.now() - known_->listed >= (missing ? kListAgain : kKeep)) {
    auto listed = list();
    if (!listed && listed.error().code == ErrorCode::kForbidden && name.empty()) return 0;
    if (!listed) return listed.error().in("priority classes");
    known_ = *std::move(listed);
  }
  if (name.empty()) return known_->without_class;
  if (const auto found = known_->values.find(name); found != known_->values.end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [other, value] : known_->values) names.push_back(other);
  const auto near = api::nearest(name, names);
  return fail(ErrorCode::kNotFound,
              fmt::format("the job's pods name the PriorityClass \"{}\", which the cluster does not have; {}", name,
                          near ? fmt::format("did you mean {}?", *near) : "create it, or name another"));
}

}  // namespace lockstep::job
