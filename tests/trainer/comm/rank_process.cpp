// One rank as a process of its own, to be killed by ring_failures_test:
//   comm_rank_process RANK SIZE PEERS LISTEN_FD CARRIER FLOATS
// CARRIER is tcp, shared_memory or the path of a library that has NCCL and the CUDA runtime.
// All-reduces FLOATS numbers again and again. Prints "up" after the first, and when one fails "SUSPECT MESSAGE"; then
// exits 3.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "trainer/comm/ring_communicator.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc != 7) return 64;
  trainer::comm::RingOptions options;
  options.rank = std::atoi(argv[1]);
  options.size = std::atoi(argv[2]);
  const std::string peers = argv[3];
  for (size_t begin = 0; begin <= peers.size();) {
    const size_t comma = std::min(peers.find(',', begin), peers.size());
    options.peers.push_back(peers.substr(begin, comma - begin));
    begin = comma + 1;
  }
  options.listen_fd = std::atoi(argv[4]);
  options.job_uid = "killed " + peers;
  const std::string carrier = argv[5];
  if (carrier == "shared_memory") {
    options.members.assign(static_cast<size_t>(options.size), 0);
  } else if (carrier != "tcp") {
    auto api = trainer::comm::load_nccl(carrier, carrier);
    if (!api) {
      std::printf("%s\n", api.error().message.c_str());
      return 5;
    }
    options.nccl = std::make_shared<trainer::comm::NcclSetup>(
        trainer::comm::NcclSetup{.api = *api, .device = options.rank, .chunk_bytes = size_t{64} << 10});
  }
  std::vector<float> data(static_cast<size_t>(std::atoi(argv[6])), 1.0F);

  auto ring = trainer::comm::make_communicator(options);
  if (!ring) {
    std::printf("%s\n", ring.error().message.c_str());
    return 4;
  }
  for (int i = 0;; ++i) {
    auto ticket = (*ring)->submit(trainer::comm::AllReduce{data.data(), data.size()});
    const Status status = ticket ? (*ring)->wait(*ticket) : Status(ticket.error());
    if (!status) {
      std::printf("%d %s\n", (*ring)->suspect(), status.error().message.c_str());
      return 3;
    }
    if (i == 0) {
      std::printf("up\n");
      std::fflush(stdout);
    }
  }
}
