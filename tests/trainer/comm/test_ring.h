// Shared by the tests of this folder: data with a known sum, the same code on every rank, waiting for facts.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/comm/ring_communicator.h"

namespace lockstep::trainer::comm {

// The factor by which a test shrinks where a sanitizer makes every access of memory slow.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr size_t kLess = 10;
#else
inline constexpr size_t kLess = 1;
#endif

// Communicators that end at the same time, as those of processes do: one over NCCL waits a moment for the others.
struct Ranks : std::vector<std::unique_ptr<Communicator>> {
  Ranks() = default;
  explicit Ranks(std::vector<std::unique_ptr<Communicator>> made) : vector(std::move(made)) {}
  Ranks(Ranks&&) = default;
  Ranks& operator=(Ranks&&) = delete;
  ~Ranks() {
    std::vector<std::thread> threads;
    for (auto& rank : *this) threads.emplace_back([&rank] { rank.reset(); });
    for (std::thread& thread : threads) thread.join();
  }
};

// The carriers of the tests that hold for every communicator.
enum class Carrier { kTcp, kSharedMemory, kNccl };
inline constexpr Carrier kCarriers[] = {Carrier::kTcp, Carrier::kSharedMemory, Carrier::kNccl};

inline std::string name_of(Carrier carrier) {
  return carrier == Carrier::kTcp ? "tcp" : carrier == Carrier::kSharedMemory ? "shared_memory" : "nccl";
}

// NCCL as the fake plays it (fake_nccl.h), with chunks so small that most operations have several.
inline std::shared_ptr<NcclSetup> fake_setup() {
  auto setup = std::make_shared<NcclSetup>();
  auto api = load_nccl(FAKE_NCCL_LIBRARY, FAKE_NCCL_LIBRARY);
  if (api) {
    setup->api = *api;
  } else {
    ADD_FAILURE() << api.error().message;
  }
  setup->chunk_bytes = size_t{64} << 10;
  return setup;
}

// The communicators, or a failed test and none.
inline Ranks make_ring(int n, bool shared = false, const RingOptions& base = {}) {
  auto ranks = make_in_process_ring(n, shared, base);
  if (!ranks) {
    ADD_FAILURE() << ranks.error().message;
    return {};
  }
  return Ranks(std::move(ranks).value());
}

inline Ranks make_ring(int n, Carrier carrier, RingOptions base = {}) {
  if (carrier == Carrier::kNccl) base.nccl = fake_setup();
  return make_ring(n, carrier == Carrier::kSharedMemory, base);
}

// Runs `body(rank)` on a thread per rank and waits for all.
inline void on_every_rank(size_t n, const std::function<void(size_t)>& body) {
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < n; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

// Submits and waits.
template <typename Operation>
Status run(Communicator& communicator, const Operation& operation) {
  auto ticket = communicator.submit(operation);
  if (!ticket) return ticket.error();
  return communicator.wait(*ticket);
}

// Polls `condition` until it holds, for ten seconds at most: NCCL, CUDA and a communicator's activity give no event.
inline bool comes_true(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Two ranks begin a collective, rank 1 later: `submit(rank)` submits it, and `await_early()` returns when rank 0 has
// waited for its peer for long. Bytes have travelled since both began, and no longer.
template <typename Submit>
void expect_bytes_travel_once_both_begin(const Ranks& ranks, const Submit& submit,
                                         const std::function<void()>& await_early) {
  const Ticket early = submit(0);
  await_early();
  const auto both = std::chrono::steady_clock::now();
  const Ticket late = submit(1);
  ASSERT_TRUE(ranks[0]->wait(early).ok() && ranks[1]->wait(late).ok());
  const double most = seconds_since(both);
  for (const auto& rank : ranks) {
    const double travelling = 1e-9 * static_cast<double>(rank->activity().travelling_ns);
    EXPECT_GT(travelling, 0);
    EXPECT_LT(travelling, most);
  }
}

}  // namespace lockstep::trainer::comm
