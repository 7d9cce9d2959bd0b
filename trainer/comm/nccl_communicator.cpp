#include "trainer/comm/nccl_communicator.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "operator/base/log.h"
#include "trainer/comm/links.h"
#include "trainer/comm/nccl_rank.h"
#include "trainer/comm/validate.h"

namespace lockstep::trainer::comm {
namespace {

// Communicators whose end hangs in a library. Never destroyed: their threads may run until the process ends.
struct Hanging {
  std::mutex mutex;
  std::vector<std::unique_ptr<NcclRank>> list;

  static Hanging& of_this_process() {
    static auto* const instance = new Hanging();
    return *instance;
  }
};

}  // namespace

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::create(RingOptions options, int* suspect) {
  if (suspect != nullptr) *suspect = -1;
  Status valid = validate(options);
  if (valid.ok() && (!options.nccl || options.nccl->chunk_bytes < 64 || options.nccl->chunk_bytes % 64 != 0)) {
    valid =
        fail(ErrorCode::kInvalid, "a communicator over NCCL needs its library, and chunks of a multiple of 64 bytes");
  }
  if (!valid) {
    const UniqueFd taken(options.listen_fd);
    return valid.error();
  }
  const MonotonicTime linked_by = std::chrono::steady_clock::now() + options.init_deadline;
  RingOptions control = options;  // NCCL finds out which ranks share a machine
  control.members.clear();
  control.memory = 0;
  LOCKSTEP_TRY(Links links, make_links(control, suspect));
  links.data_previous.reset();
  links.data_next.reset();
  UniqueFd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake) return fail(ErrorCode::kExhausted, fmt::format("no eventfd for a communicator: {}", std::strerror(errno)));
  std::unique_ptr<NcclCommunicator> made(
      new NcclCommunicator(std::make_unique<NcclRank>(options, std::move(links), std::move(wake), linked_by)));
  if (const Status up = made->rank_->up(); !up) {
    if (suspect != nullptr) *suspect = made->suspect();
    if (made->abort(kMostToEnd)) return up.error();
    return fail(ErrorCode::kInternal,
                fmt::format("{}; and NCCL could not be ended, so this process must be restarted", up.error().message));
  }
  return made;
}

NcclCommunicator::NcclCommunicator(std::unique_ptr<NcclRank> rank) : rank_(std::move(rank)) {}

NcclCommunicator::~NcclCommunicator() {
  if (rank_->close(kMostToEnd)) return;
  log::error("a communicator hangs in NCCL or CUDA and is kept until this process ends",
             {{"rank", std::to_string(rank_->rank())}});
  auto& hanging = Hanging::of_this_process();
  const std::lock_guard guard(hanging.mutex);
  hanging.list.push_back(std::move(rank_));
}

size_t NcclCommunicator::hanging() {
  auto& hanging = Hanging::of_this_process();
  const std::lock_guard guard(hanging.mutex);
  std::erase_if(hanging.list, [](const auto& rank) { return rank->ended(); });
  return hanging.list.size();
}

int NcclCommunicator::rank() const {
  return rank_->rank();
}
int NcclCommunicator::size() const {
  return rank_->size();
}
Result<Ticket> NcclCommunicator::submit(const AllReduce& operation) {
  return rank_->submit(operation);
}
Result<Ticket> NcclCommunicator::submit(const Broadcast& operation) {
  return rank_->submit(operation);
}
Result<Ticket> NcclCommunicator::submit(const HandOn& operation) {
  return rank_->submit(operation);
}
Status NcclCommunicator::wait(Ticket ticket) {
  return rank_->wait(ticket);
}
bool NcclCommunicator::abort(Duration deadline) {
  return rank_->abort(deadline);
}
int NcclCommunicator::suspect() const {
  return rank_->suspect();
}
bool NcclCommunicator::reaches(int gpu) const {
  return gpu == rank_->gpu();
}
Result<Ticket> NcclCommunicator::sum(const DeviceSum& operation) {
  return rank_->submit(operation);
}
Activity NcclCommunicator::activity() const {
  return rank_->activity();
}

}  // namespace lockstep::trainer::comm
