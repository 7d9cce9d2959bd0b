#include "trainer/comm/single_rank_communicator.h"

#include <fmt/format.h>

#include "trainer/comm/validate.h"

namespace lockstep::trainer::comm {
namespace {

Error aborted() {
  return fail(ErrorCode::kCancelled, "rank 0 aborted its communicator");
}

}  // namespace

Result<Ticket> SingleRankCommunicator::submit(const AllReduce& operation) {
  if (aborted_) return aborted();
  LOCKSTEP_CHECK_OK(validate(operation, 1));
  return Ticket{++submitted_};
}

Result<Ticket> SingleRankCommunicator::submit(const Broadcast& operation) {
  if (aborted_) return aborted();
  LOCKSTEP_CHECK_OK(validate(operation, 1));
  return Ticket{++submitted_};
}

Result<Ticket> SingleRankCommunicator::submit(const HandOn& operation) {
  if (aborted_) return aborted();
  LOCKSTEP_CHECK_OK(validate(operation, 1));
  return Ticket{++submitted_};
}

Result<Ticket> SingleRankCommunicator::sum(const DeviceSum& operation) {
  if (aborted_) return aborted();
  LOCKSTEP_CHECK_OK(validate(operation, 1));
  return Ticket{++submitted_};
}

Status SingleRankCommunicator::wait(Ticket ticket) {
  if (ticket.sequence == 0 || ticket.sequence > submitted_) {
    return fail(ErrorCode::kInvalid, fmt::format("ticket {} was never given out", ticket.sequence));
  }
  if (aborted_) return aborted();
  return {};
}

bool SingleRankCommunicator::abort(Duration) {
  aborted_ = true;
  return true;
}

}  // namespace lockstep::trainer::comm
