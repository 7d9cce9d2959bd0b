#include "trainer/rank.h"

#include <fmt/format.h>

#include <limits>
#include <type_traits>

#include "trainer/checkpoint/storage_deadline.h"
#include "trainer/choose_backend.h"
#include "trainer/core/footprint.h"
#include "trainer/cuda/runtime.h"
#include "trainer/identity.h"
#include "trainer/preflight.h"
#include "trainer/print.h"
#include "trainer/sync/all_reduce.h"

namespace lockstep::trainer {

namespace {

// Of the state, without its few statistics and exponents.
std::uint64_t state_bytes(const Task& task, core::ElementType real) {
  return core::lay_out(task.graph).count * core::size_of(real) * (1 + core::slots_of(task.optimizer.rule).size());
}

core::Recompute recompute_of(const Flags& flags) {
  return flags.recompute == "norm" ? core::Recompute::kNorms : core::Recompute::kNothing;
}

// Whether a GPU has room for all that the rank is going to take of it; the GPU may wait for it. Now, and not in the
// middle of it, when the peers are waiting.
Status find_room(core::Backend& backend, const Task& task, const Flags& flags) {
  if (backend.gpu() < 0) return {};
  LOCKSTEP_TRY(size_t bytes, core::replica_bytes(task.graph, backend, task.optimizer, recompute_of(flags)));
  if (flags.deterministic) bytes += core::lay_out(task.graph).count * sizeof(std::int64_t);  // sums in fixed point
  const auto memory = backend.allocate(bytes);
  if (!memory) return memory.error().in("the model with a micro-batch does not fit");
  return {};
}

// What people need to find a fault, and what may become one.
void tell_of_machine(const Rank& rank) {
  if (const int gpu = rank.backend->gpu(); gpu >= 0) {
    const auto runtime = cuda::load_cuda_runtime(rank.flags.cudart_library);
    const std::string uuid = runtime ? gpu_uuid(**runtime, gpu) : "";
    if (!uuid.empty()) print(stdout, "GPU {} is {}\n", gpu, uuid);
  }
  if (!rank.world.nccl) return;
  for (const std::string& doubt : doubts_about_nccl(this_machine(), rank.world.local_size)) {
    print(stdout, "{}\n", doubt);
  }
}

Origin origin_of_backend(const Flags& flags) {
  return flags.backend == "cuda" || flags.precision != "fp32" ? Origin::kDevice : Origin::kConfig;
}

// Flags that ask for a GPU with a model that it cannot compute contradict themselves; anything else is of the device.
Origin origin_of_model(const Flags& flags, const Error& error) {
  return error.code == ErrorCode::kInvalid ? Origin::kConfig : origin_of_backend(flags);
}

}  // namespace

Rank::~Rank() {
  board.use(nullptr, 0);
  if (!interruption) return;
  // Before the link, whose thread would abort the communicator and wake the source.
  interruption->use(nullptr);
  interruption->on_raise({});
}

std::string Rank::numerics_id() const {
  if (!flags.deterministic) return "";
  return fmt::format("{}/micro-batch-{}", backend->numerics(), flags.micro_batch_size);
}

Outcome<> find_place(Rank& rank) {
  const Flags& flags = rank.flags;
  elastic::World& world = rank.world;
  LOCKSTEP_TRY(world, from(Origin::kConfig, elastic::world_from_environment()));
  LOCKSTEP_TRY(rank.interruption, from(Origin::kConfig, elastic::Interruption::create()));
  LOCKSTEP_TRY(rank.agent, from(Origin::kConfig, elastic::AgentLink::open(world.agent_fd, rank.stop)));
  rank.agent->watch([&board = rank.board] { return board.look(); });
  rank.agent->on_regroup([&interruption = *rank.interruption] { interruption.raise(); });
  LOCKSTEP_CHECK_OK(from(Origin::kConfig, resolve(rank.flags, world)));
  world.shared_memory = flags.transport == "auto";
  // Where there is no GPU the backend's sentence says so, and NCCL's would name a library.
  LOCKSTEP_TRY(rank.choice, from(origin_of_backend(flags), BackendChoice::make(flags, world.local_rank)));
  if (flags.transport == "nccl") {
    LOCKSTEP_TRY(world.nccl, from(origin_of_backend(flags),
                                  comm::make_nccl_setup(flags.nccl_library, flags.cudart_library, world.local_rank)));
  }
  return {};
}

Outcome<> load(Rank& rank) {
  const Flags& flags = rank.flags;
  elastic::World& world = rank.world;
  LOCKSTEP_TRY(rank.task, from(Origin::kData, make_task(flags, rank.choice->backend().real())));
  const Status suits = rank.choice->suit(flags, rank.task->graph);
  if (!suits) return Failure{suits.error(), origin_of_model(flags, suits.error())};
  if (const std::string sentence = rank.choice->sentence(); !sentence.empty()) print(stdout, "{}\n", sentence);
  rank.backend = rank.choice->take();
  tell_of_machine(rank);
  const Status room = find_room(*rank.backend, *rank.task, flags);
  if (!room) return Failure{room.error(), origin_of_model(flags, room.error())};
  if (flags.follows_best() && rank.task->data.source->held_out() == 0) {
    return fail(Origin::kConfig, ErrorCode::kInvalid,
                fmt::format("{} needs held-out samples, and the data has none",
                            flags.keep_best ? "--keep-best" : "--early-stop-evaluations"));
  }
  if (const Duration patience = rank.task->data.source->patience(); patience > Duration::zero()) {
    world.data_deadline = patience + checkpoint::kTimeToEnd;
  }
  rank.interruption->on_raise([&source = *rank.task->data.source] { source.wake(); });
  if (!flags.checkpoint_dir.empty()) {
    world.storage_deadline = checkpoint::storage_deadline(state_bytes(*rank.task, rank.backend->real()));
  }
  world.identity = rendezvous::identity_line(identity_of(rank));
  rank.agent->identity(world.identity);
  if (flags.generate > 0) {  // refused before training, not after it
    LOCKSTEP_TRY(rank.opening, from(Origin::kConfig, make_opening(flags, *rank.task)));
  }
  return {};
}

Outcome<> connect(Rank& rank) {
  elastic::World world = rank.world;
  // How long a peer may wait for its storage follows from the state, which a rank that has loaded nothing cannot know.
  if (!rank.task && !rank.flags.checkpoint_dir.empty()) {
    world.storage_deadline = checkpoint::storage_deadline(std::numeric_limits<std::uint64_t>::max());
  }
  LOCKSTEP_TRY(auto options, from(Origin::kCommunication, elastic::ring_options(world)));
  options.cancel_fd = rank.interruption->fd();
  const Clock::time_point linking = Clock::now();
  LOCKSTEP_TRY(rank.communicator,
               from(Origin::kCommunication, comm::make_communicator(std::move(options), &rank.unlinked)));
  rank.entry.init_ms = milliseconds_since(linking);
  rank.interruption->use(rank.communicator.get());
  rank.board.use(rank.communicator.get(), rank.world.generation);
  return {};
}

Outcome<> make_replica(Rank& rank) {
  const Flags& flags = rank.flags;
  // Random numbers would be overwritten by the state of another rank.
  rank.initial = rank.world.state_source.rank < 0 && !rank.world.standby;
  rank.synchronizer = std::make_unique<sync::AllReduce>(sync::AllReduceOptions{.deterministic = flags.deterministic});
  const core::StepOptions step{.seed = flags.seed,
                               .micro_batches = flags.batch_size / flags.micro_batch_size,
                               .clip_norm = *flags.clip_norm,
                               .recompute = recompute_of(flags),
                               .initialize = rank.initial,
                               .pulse = &rank.board.pulse,
                               .checksums = !flags.ledger.empty(),
                               .loading_rest = rank.world.data_deadline};
  auto replica = core::Replica::create({rank.task->graph, *rank.backend, rank.task->optimizer, *rank.task->data.source,
                                        *rank.synchronizer, *rank.communicator},
                                       step, rank.interruption->flag());
  if (!replica) return Failure{replica.error(), origin_of_model(flags, replica.error())};
  rank.replica = std::move(*replica);
  return {};
}

Outcome<> share_best(Rank& rank, int from) {
  if (!rank.flags.follows_best()) return {};
  static_assert(std::is_trivially_copyable_v<Best>);
  LOCKSTEP_TRY(auto ticket, elastic::from(Origin::kCommunication,
                                          rank.communicator->submit(comm::Broadcast{&rank.best, sizeof(Best), from})));
  return elastic::from(Origin::kCommunication, rank.communicator->wait(ticket));
}

}  // namespace lockstep::trainer
