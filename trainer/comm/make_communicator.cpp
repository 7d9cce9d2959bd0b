// Chooses the communicator that the options ask for.
#include "operator/base/unique_fd.h"
#include "trainer/comm/nccl_communicator.h"
#include "trainer/comm/ring_communicator.h"
#include "trainer/comm/single_rank_communicator.h"

namespace lockstep::trainer::comm {

Result<std::unique_ptr<Communicator>> make_communicator(RingOptions options, int* suspect) {
  if (suspect != nullptr) *suspect = -1;
  if (options.size == 1) {
    const UniqueFd taken(options.listen_fd);
    return std::unique_ptr<Communicator>(std::make_unique<SingleRankCommunicator>());
  }
  if (options.nccl) {
    LOCKSTEP_TRY(std::unique_ptr<Communicator> made, NcclCommunicator::create(std::move(options), suspect));
    return made;
  }
  LOCKSTEP_TRY(std::unique_ptr<Communicator> ring, RingCommunicator::create(std::move(options), suspect));
  return ring;
}

}  // namespace lockstep::trainer::comm
