// The records of a simulated world: a compare-and-set that may fail before or after it was made, and a check. A
// generation's number is recorded with one set of members only, and never goes back.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "operator/rendezvous/coordinator_state.h"

namespace lockstep::rendezvous {

class SimulatedStore {
 public:
  using Members = std::map<int, std::int64_t>;  // incarnation by slot

  SimulatedStore(std::function<int(int least, int most)> between, std::function<void(const std::string&)> violate)
      : between_(std::move(between)), violate_(std::move(violate)) {}

  // How often calls fail from now on.
  void set_trouble(int per_cent) { trouble_ = per_cent; }

  Result<GenerationStore::Versioned> load() {
    if (between_(1, 100) <= trouble_) return fail(ErrorCode::kUnavailable, "the store does not answer");
    return GenerationStore::Versioned{record_, version()};
  }

  Result<std::string> compare_and_set(const WriteRecord& write) {
    const int trouble = between_(1, 100);
    if (trouble <= trouble_ / 2) return fail(ErrorCode::kUnavailable, "not written");
    if (write.version != version()) return fail(ErrorCode::kConflict, "another version");
    Members members;
    for (const Record::Member& member : write.next.members) members[member.slot] = member.incarnation;
    if (write.next.generation < record_.generation) violate_("the record's generation went back");
    if (const auto at = history_.emplace(write.next.generation, members).first; at->second != members) {
      violate_(fmt::format("generation {} was recorded with other members before", write.next.generation));
    }
    record_ = write.next;
    ++writes_;
    if (trouble <= trouble_) return fail(ErrorCode::kUnavailable, "written, but the answer was lost");
    return version();
  }

  // Null when that generation was never recorded.
  const Members* members(std::int64_t generation) const {
    const auto at = history_.find(generation);
    return at == history_.end() ? nullptr : &at->second;
  }
  int generations() const { return static_cast<int>(history_.size()); }

 private:
  std::string version() const { return writes_ == 0 ? "" : std::to_string(writes_); }

  const std::function<int(int, int)> between_;
  const std::function<void(const std::string&)> violate_;
  int trouble_ = 0;  // per cent
  Record record_;
  int writes_ = 0;
  std::map<std::int64_t, Members> history_;
};

}  // namespace lockstep::rendezvous
