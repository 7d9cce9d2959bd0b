// Anything at all as the record of a job's generation, which a user may edit. It is corrupt, or its numbers are within
// their bounds, no slot comes twice, and it comes back as it went.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "operator/job/api_generation_store.h"
#include "operator/rendezvous/limits.h"

extern "C" int generation_record_fuzz(const std::uint8_t* data, std::size_t size);

extern "C" int generation_record_fuzz(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  const auto record = job::record_from_text(std::string(reinterpret_cast<const char*>(data), size));
  if (!record) {
    if (record.error().code != ErrorCode::kCorrupt) std::abort();
    return 0;
  }
  if (record->generation < 0 || record->generation > rendezvous::kMostCount) std::abort();
  std::set<int> slots;
  for (const auto& member : record->members) {
    if (member.slot < 0 || member.slot > rendezvous::kMostRanks || !slots.insert(member.slot).second) std::abort();
  }
  const bool whole = record->format == rendezvous::kRecordFormat && !record->members.empty();
  if (!whole || record->progress) return 0;  // a loss may be no number, and is not equal to itself then
  const auto again = job::record_from_text(job::record_to_text(*record));
  if (!again || *again != *record) std::abort();
  return 0;
}
