// Damage of stored samples: bytes that do not fit their checksum, or that cannot be decoded. It is a function of the
// bytes alone, so each rank finds the same.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::trainer::data {

// What becomes of a record whose checksum does not fit or whose image cannot be decoded.
enum class OnDamage {
  kFail,  // take() returns kCorrupt
  kSkip,  // the next intact record of the files takes its place
};

// A place that was skipped.
struct Damage {
  std::string file;
  std::uint64_t offset = 0;  // of the record; of the first lost one, if a length is damaged
  std::string why;           // a sentence that names file and offset
};

}  // namespace lockstep::trainer::data
