// A call on each of many files or folders of storage that may be slow. Several calls run at a time, each with a
// deadline of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"

namespace lockstep::trainer::data {

inline constexpr int kVisitors = 8;  // threads that wait for storage at the same time, whatever the CPUs

// Calls work(i) for each of `paths`, on up to kVisitors threads, as PatientReader::attempt() does with `verb`. A call
// that fails because the storage does not answer is tried again for `patience`. Returns the error of the first path
// whose call failed. kDeadlineExceeded: a call hangs for longer than `patience`; its thread is left behind, so `work`
// owns all that it uses.
Status visit(const char* verb, std::vector<std::string> paths, Duration patience,
             std::function<Status(std::size_t)> work);

}  // namespace lockstep::trainer::data
