// A communicator of one rank whose peer goes away when a test says so.
#pragma once

#include "trainer/comm/single_rank_communicator.h"

namespace lockstep::trainer::testing {

// Fails at a chosen all-reduce.
class Breaking final : public comm::Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Result<comm::Ticket> submit(const comm::AllReduce& operation) override {
    if (left-- == 0) return fail(ErrorCode::kUnavailable, "rank 1 went away");
    return inner.submit(operation);
  }
  Result<comm::Ticket> submit(const comm::Broadcast& operation) override { return inner.submit(operation); }
  Result<comm::Ticket> submit(const comm::HandOn& operation) override { return inner.submit(operation); }
  Status wait(comm::Ticket ticket) override { return inner.wait(ticket); }
  bool abort(Duration) override { return true; }
  int suspect() const override { return -1; }
  comm::Activity activity() const override { return inner.activity(); }

  comm::SingleRankCommunicator inner;
  int left = -1;  // all-reduces until one fails; negative: none does
};

}  // namespace lockstep::trainer::testing
