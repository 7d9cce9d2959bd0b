// N ranks in one process: real sockets over the loopback interface, one set-up thread per rank.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "operator/base/address.h"
#include "operator/base/unique_fd.h"
#include "trainer/comm/ring_communicator.h"

namespace lockstep::trainer::comm {

Result<std::vector<std::unique_ptr<Communicator>>> make_in_process_ring(int n, bool shared, const RingOptions& base) {
  if (n < 1) return fail(ErrorCode::kInvalid, fmt::format("a ring of {} ranks", n));
  const auto size = static_cast<size_t>(n);
  std::vector<UniqueFd> listeners;
  std::vector<std::string> peers;
  for (size_t i = 0; i < size; ++i) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in loopback{};
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!fd ||
        ::bind(fd.get(), static_cast<const sockaddr*>(static_cast<const void*>(&loopback)), sizeof loopback) != 0 ||
        ::listen(fd.get(), 16) != 0) {
      return fail(ErrorCode::kExhausted, fmt::format("no listening socket: {}", std::strerror(errno)));
    }
    LOCKSTEP_TRY(const Address address, local_address(fd.get()));
    peers.push_back(format_address(address));
    listeners.push_back(std::move(fd));
  }
  std::vector<std::optional<Result<std::unique_ptr<Communicator>>>> made(size);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < size; ++i) {
    RingOptions options = base;
    options.rank = static_cast<int>(i);
    options.size = n;
    options.peers = peers;
    options.listen_fd = listeners[i].release();
    options.members.clear();
    for (int rank = 0; rank < n; ++rank) options.members.push_back(shared ? 0 : rank);
    if (base.nccl) {
      auto setup = std::make_shared<NcclSetup>(*base.nccl);
      setup->device = static_cast<int>(i);
      options.nccl = std::move(setup);
    }
    if (options.job_uid.empty()) options.job_uid = "in-process " + peers[0];
    threads.emplace_back([&made, i, options] { made[i].emplace(make_communicator(options)); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (auto& result : made) {
    LOCKSTEP_TRY(auto rank, std::move(*result));
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace lockstep::trainer::comm
