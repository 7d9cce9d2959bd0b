// The communicator of a world of one rank: submit() completes every operation.
#pragma once

#include <atomic>

#include "trainer/comm/communicator.h"
#include "trainer/comm/device_reducer.h"

namespace lockstep::trainer::comm {

class SingleRankCommunicator final : public Communicator, public DeviceReducer {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Result<Ticket> submit(const AllReduce& operation) override;
  Result<Ticket> submit(const Broadcast& operation) override;
  Result<Ticket> submit(const HandOn& operation) override;
  Status wait(Ticket ticket) override;
  bool abort(Duration deadline) override;
  int suspect() const override { return -1; }
  DeviceReducer* device_reducer() override { return this; }
  bool reaches(int) const override { return true; }
  Result<Ticket> sum(const DeviceSum& operation) override;
  Activity activity() const override { return {.sequence = submitted_.load()}; }

 private:
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<bool> aborted_{false};
};

}  // namespace lockstep::trainer::comm
