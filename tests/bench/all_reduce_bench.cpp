// How far the ring all-reduce is from what this machine's memory allows, measured in the same run.
//
// The bound: each of n ranks sends 2 (n - 1) / n of its bytes (Patarasuk and Yuan, "Bandwidth optimal all-reduce
// algorithms for clusters of workstations", 2009), and whatever carries them must at least copy them once. So the
// bound is n threads that each copy that many bytes, at the same time, from memory to memory. A ratio of 1 would be an
// all-reduce that costs one copy and whose additions are free.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "trainer/comm/ring_communicator.h"

namespace lockstep::trainer::comm {
namespace {

using Floats = std::vector<float>;

constexpr int kRounds = 9;

double median_seconds(const std::function<void()>& once) {
  std::vector<double> seconds;
  for (int i = 0; i < kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    once();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return seconds[kRounds / 2];
}

void on_every_rank(int n, const std::function<void(size_t)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) threads.emplace_back([&body, rank] { body(static_cast<size_t>(rank)); });
  for (std::thread& thread : threads) thread.join();
}

Status measure(int n, bool shared_memory, size_t bytes) {
  auto ring = make_in_process_ring(n, shared_memory);
  if (!ring) return ring.error();
  const size_t ranks = static_cast<size_t>(n), sent = bytes * 2 * (ranks - 1) / ranks;
  std::vector<Floats> data(ranks, Floats(bytes / sizeof(float), 1.0F));
  std::vector<std::vector<char>> from(ranks, std::vector<char>(sent, 'a')), to(ranks, std::vector<char>(sent));
  std::vector<Status> ended(ranks);
  const double reduced = median_seconds([&] {
    on_every_rank(n, [&](size_t rank) {
      Communicator& communicator = *(*ring)[rank];
      auto ticket = communicator.submit(AllReduce{.data = data[rank].data(), .count = data[rank].size()});
      const Status status = ticket ? communicator.wait(*ticket) : Status(ticket.error());
      if (!status.ok()) ended[rank] = status;
    });
  });
  for (const Status& status : ended) LOCKSTEP_CHECK_OK(status);
  const double copied = median_seconds(
      [&] { on_every_rank(n, [&](size_t rank) { std::memcpy(to[rank].data(), from[rank].data(), sent); }); });
  fmt::print("{:>5}  {:<13}  {:>9}  {:>12.3f}  {:>10.3f}  {:>6.1f}\n", n, shared_memory ? "shared memory" : "TCP",
             bytes >> 10, reduced * 1e3, copied * 1e3, reduced / copied);
  std::fflush(stdout);
  return {};
}

}  // namespace
}  // namespace lockstep::trainer::comm

int main() {
  using namespace lockstep::trainer::comm;
  fmt::print("ring all-reduce of float32 against a plain copy of the bytes that it must send; median of {}\n\n",
             kRounds);
  fmt::print("ranks  transport      size, KiB  all-reduce ms     copy ms   ratio\n");
  for (const int ranks : {2, 4}) {
    for (const bool shared_memory : {false, true}) {
      for (const size_t bytes : {size_t{64} << 10, size_t{1} << 20, size_t{16} << 20, size_t{64} << 20}) {
        if (const auto status = measure(ranks, shared_memory, bytes); !status.ok()) {
          fmt::print(stderr, "all_reduce_bench: {}\n", status.error().message);
          return 1;
        }
      }
    }
  }
  return 0;
}
