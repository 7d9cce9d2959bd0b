// A gang of ranks inside one process, over the real ring, for tests of the influence of world size.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/trainer/backend/late_backend.h"
#include "trainer/backend/make_backend.h"
#include "trainer/comm/ring_communicator.h"
#include "trainer/comm/single_rank_communicator.h"
#include "trainer/core/step.h"
#include "trainer/sync/all_reduce.h"

namespace lockstep::trainer::testing {

// The backend that tests of steps run on: "cpu", or what LOCKSTEP_TEST_BACKEND says ("late": backend/late_backend.h).
inline std::string backend_under_test() {
  const char* name = std::getenv("LOCKSTEP_TEST_BACKEND");
  return name == nullptr ? "cpu" : name;
}

// The task of a gang; each rank creates its own from this.
struct Recipe {
  std::function<core::Graph()> graph;
  std::function<std::unique_ptr<core::SampleSource>(core::ElementType)> source;
  core::Optimizer optimizer;
  core::StepOptions options;
  std::string backend = backend_under_test();
  std::function<std::unique_ptr<core::Backend>(int rank)> device = {};  // makes the backend, if it is not one by name
  bool deterministic = false;
  std::function<std::unique_ptr<core::Synchronizer>(int rank)> synchronizer = {};  // empty: all-reduce
  // Links that many ranks; empty: a ring.
  std::function<std::vector<std::unique_ptr<comm::Communicator>>(int ranks)> link = {};
};

using Bytes = std::vector<std::byte>;

// All of a state in one block, to compare and to restore.
inline Bytes bytes_of(core::State& state) {
  EXPECT_TRUE(state.fetch().ok());
  Bytes all;
  for (const core::StateTensor& tensor : state.tensors())
    all.insert(all.end(), tensor.data, tensor.data + tensor.bytes);
  const auto* samples = reinterpret_cast<const std::byte*>(&state.samples);
  all.insert(all.end(), samples, samples + sizeof state.samples);
  return all;
}
inline size_t digest_of(core::State& state) {
  Bytes all = bytes_of(state);
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(all.data()), all.size()});
}
inline void restore(core::State& state, const Bytes& from) {
  size_t offset = 0;
  for (const core::StateTensor& tensor : state.tensors()) {
    ASSERT_LE(offset + tensor.bytes, from.size());
    std::copy_n(from.data() + offset, tensor.bytes, tensor.data);
    offset += tensor.bytes;
  }
  ASSERT_EQ(offset + sizeof state.samples, from.size());
  std::memcpy(&state.samples, from.data() + offset, sizeof state.samples);
  ASSERT_TRUE(state.written().ok());
}

struct GangResult {
  std::vector<double> losses;                // by step, of rank 0
  std::vector<double> norms;                 // of gradients
  std::vector<Bytes> states;                 // by rank, at the end
  std::vector<std::vector<size_t>> digests;  // of the state, by rank and step
  double held_out_loss = 0;
  int redone = 0;
};

inline std::unique_ptr<core::Backend> make_backend_of(const Recipe& recipe, int rank) {
  if (recipe.device) return recipe.device(rank);
  return (recipe.backend == "late" ? make_late_backend(1) : backend::make_backend(recipe.backend, 1)).value();
}

// One rank's replica with all that it refers to.
struct Rank {
  Rank(const Recipe& recipe, comm::Communicator& communicator, const Bytes& from = {})
      : backend(make_backend_of(recipe, communicator.rank())),
        graph(recipe.graph()),
        source(recipe.source(backend->real())),
        optimizer(recipe.optimizer),
        synchronizer(recipe.synchronizer
                         ? recipe.synchronizer(communicator.rank())
                         : std::make_unique<sync::AllReduce>(sync::AllReduceOptions{recipe.deterministic})),
        replica(core::Replica::create({graph, *backend, optimizer, *source, *synchronizer, communicator},
                                      recipe.options, abort)
                    .value()) {
    if (!from.empty()) restore(replica->state(), from);
  }
  std::unique_ptr<core::Backend> backend;
  core::Graph graph;
  std::unique_ptr<core::SampleSource> source;
  core::Optimizer optimizer;
  std::unique_ptr<core::Synchronizer> synchronizer;
  std::atomic<bool> abort{false};
  std::unique_ptr<core::Replica> replica;
};

// Trains `steps` steps on `ranks` ranks, from `from` if given.
inline GangResult train(const Recipe& recipe, int ranks, int steps, const Bytes& from = {}) {
  GangResult result;
  result.states.resize(static_cast<size_t>(ranks));
  result.digests.resize(static_cast<size_t>(ranks));
  std::vector<std::unique_ptr<comm::Communicator>> ring;
  if (recipe.link) {
    ring = recipe.link(ranks);
  } else if (ranks == 1) {
    ring.push_back(std::make_unique<comm::SingleRankCommunicator>());
  } else {
    ring = comm::make_in_process_ring(ranks, true).value();
  }
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      // They end at the same time, as those of processes do: one over NCCL waits a moment for the others.
      const std::unique_ptr<comm::Communicator> communicator = std::move(ring[static_cast<size_t>(r)]);
      Rank rank(recipe, *communicator, from);
      for (int i = 0; i < steps; ++i) {
        auto report = rank.replica->step({});
        ASSERT_TRUE(report.ok()) << report.error().message;
        ASSERT_TRUE(report->committed);
        result.digests[static_cast<size_t>(r)].push_back(digest_of(rank.replica->state()));
        if (r != 0) continue;
        result.losses.push_back(report->loss);
        result.norms.push_back(report->gradient_norm);
        result.redone += report->redone;
      }
      auto held_out = rank.replica->evaluate();
      ASSERT_TRUE(held_out.ok());
      if (r == 0) result.held_out_loss = held_out->loss;
      auto agree = rank.replica->ranks_agree();
      ASSERT_TRUE(agree.ok());
      EXPECT_TRUE(*agree);
      result.states[static_cast<size_t>(r)] = bytes_of(rank.replica->state());
    });
  }
  for (auto& thread : threads) thread.join();
  return result;
}

}  // namespace lockstep::trainer::testing
