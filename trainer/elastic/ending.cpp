#include "trainer/elastic/ending.h"

namespace lockstep::trainer::elastic {
namespace {

using namespace rendezvous;  // the exit codes

constexpr int kExitInternal = 1;  // permanent: trying again would meet the same bug

int exit_code_of(ErrorCode code, Origin origin) {
  const bool storage = origin == Origin::kRestore || origin == Origin::kSave;
  if (storage && code == ErrorCode::kDeadlineExceeded) return kExitWatchdog;
  const bool unread = code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded;
  if (origin == Origin::kData && unread) return kExitWatchdog;  // storage that does not answer may do so later
  const bool reads = origin == Origin::kData || origin == Origin::kRestore;
  if (reads && code == ErrorCode::kExhausted) return kExitTemporary;  // memory, threads, descriptors
  switch (origin) {
    case Origin::kUsage:
      return kExitUsage;
    case Origin::kConfig:
      return kExitConfig;
    case Origin::kDevice:
      return code == ErrorCode::kNotFound ? kExitNoDevice : kExitTemporary;  // others may have its memory for now
    case Origin::kData:
      return kExitData;
    case Origin::kRestore:
      return kExitCheckpoint;
    case Origin::kSave:
      return kExitDisk;
    case Origin::kNumerics:
      return kExitDiverged;
    case Origin::kCommunication:
      if (caused_by_peer(code)) return kExitCommunication;
      if (code == ErrorCode::kExhausted) return kExitTemporary;
      // Ranks that submit different operations run with different settings.
      return code == ErrorCode::kInternal ? kExitInternal : kExitConfig;
    case Origin::kInternal:
      if (code == ErrorCode::kExhausted || code == ErrorCode::kUnavailable) return kExitTemporary;
      return kExitInternal;
  }
  return kExitInternal;
}

}  // namespace

bool caused_by_peer(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded || code == ErrorCode::kCancelled;
}

Ending ending_of(const Failure& failure, int suspect) {
  Ending ending;
  ending.exit_code = exit_code_of(failure.why.code, failure.origin);
  const bool peers = ending.exit_code == kExitCommunication;
  ending.report.kind = peers ? FailureReport::Class::kCommunication : FailureReport::Class::kOwn;
  ending.report.suspect_rank = peers ? suspect : -1;
  ending.report.message = failure.why.message;
  return ending;
}

}  // namespace lockstep::trainer::elastic
