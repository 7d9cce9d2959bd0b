// The distance of the ring all-reduce from the limit of this machine's memory, measured in the same run.
//
// The bound: each of n ranks sends 2 (n - 1) / n of its bytes, and whatever carries them must at least copy them once.
// The source is Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009. So
// the bound is n threads that each copy that many bytes, at the same time, from memory to memory. A ratio of 1 would be
// an all-reduce that costs one copy and whose additions are free.
//
// Without arguments a table of many sizes; with --ranks, --transport and --bytes one row alone, as JSON for other
// benchmarks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
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

struct Measured {
  double reduced = 0, copied = 0;  // seconds
};

Result<Measured> measure(int n, bool shared_memory, size_t bytes) {
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
  return Measured{reduced, copied};
}

Status print_table() {
  fmt::print("ring all-reduce of float32 against a plain copy of the bytes that it must send; median of {}\n\n",
             kRounds);
  fmt::print("ranks  transport      size, KiB  all-reduce ms     copy ms   ratio\n");
  for (const int ranks : {2, 4}) {
    for (const bool shared_memory : {false, true}) {
      for (const size_t bytes : {size_t{64} << 10, size_t{1} << 20, size_t{16} << 20, size_t{64} << 20}) {
        LOCKSTEP_TRY(const Measured measured, measure(ranks, shared_memory, bytes));
        fmt::print("{:>5}  {:<13}  {:>9}  {:>12.3f}  {:>10.3f}  {:>6.1f}\n", ranks,
                   shared_memory ? "shared memory" : "TCP", bytes >> 10, measured.reduced * 1e3, measured.copied * 1e3,
                   measured.reduced / measured.copied);
        std::fflush(stdout);
      }
    }
  }
  return {};
}

Status print_one(int ranks, bool shared_memory, size_t bytes) {
  LOCKSTEP_TRY(const Measured measured, measure(ranks, shared_memory, bytes));
  fmt::print("{{\"allReduceMs\": {:.4f}, \"copyMs\": {:.4f}}}\n", measured.reduced * 1e3, measured.copied * 1e3);
  return {};
}

}  // namespace
}  // namespace lockstep::trainer::comm

int main(int argc, char** argv) {
  using namespace lockstep::trainer::comm;
  CLI::App app("Measures the ring all-reduce.", "all_reduce_bench");
  int ranks = 0;
  size_t bytes = 0;
  std::string transport;
  auto* one = app.add_option("--ranks", ranks, "Ranks of the one all-reduce to measure")->check(CLI::Range(2, 64));
  auto* over = app.add_option("--transport", transport, "tcp or shm")->check(CLI::IsMember({"tcp", "shm"}));
  auto* size = app.add_option("--bytes", bytes, "Its bytes")->check(CLI::Range(size_t{4}, size_t{1} << 30));
  one->needs(over)->needs(size);
  over->needs(one);
  size->needs(one);
  CLI11_PARSE(app, argc, argv);
  const lockstep::Status status = ranks > 0 ? print_one(ranks, transport == "shm", bytes) : print_table();
  if (status.ok()) return 0;
  fmt::print(stderr, "all_reduce_bench: {}\n", status.error().message);
  return 1;
}
