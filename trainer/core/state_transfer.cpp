#include "trainer/core/state_transfer.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "trainer/core/mutation.h"

namespace lockstep::trainer::core {

namespace {

constexpr std::int64_t kTransferMagic = 0x3365746174736773;  // changes with the layout of Words

// The first all-reduce, of sums: the words of the source (all others add zeros), then the receivers, by rank.
struct Words {
  enum : size_t { kMagic, kBytes, kStep, kCommittedIn, kDigest, kFirstLoss, kLoss, kReceives };
};

Error wrong(const std::string& what) {
  return fail(ErrorCode::kInternal, "the state of another rank cannot be installed: " + what);
}

std::string name_of(const Version& it) {
  return "step " + std::to_string(it.step) + " of generation " + std::to_string(it.committed_in);
}

struct Agreed {
  TransferNotes notes;
  std::vector<bool> receives;  // by rank
};

Result<Agreed> agree(State& state, comm::Communicator& communicator, int source, const Version& version,
                     const TransferNotes& notes, const Version& own) {
  const auto other = [&](const Version& held) {
    return wrong("rank " + std::to_string(source) + " holds " + name_of(held) + " and was named as the source of " +
                 name_of(version) + ", or their digests differ");
  };
  // Before the all-reduce, so that the other ranks see this one end and do not end themselves.
  if (communicator.rank() == source && own != version) return other(own);
  std::vector<std::int64_t> words(Words::kReceives + static_cast<size_t>(communicator.size()), 0);
  if (communicator.rank() == source) {
    words[Words::kMagic] = kTransferMagic;
    words[Words::kBytes] = static_cast<std::int64_t>(state.bytes());
    words[Words::kStep] = own.step;
    words[Words::kCommittedIn] = own.committed_in;
    words[Words::kDigest] = std::bit_cast<std::int64_t>(own.digest);
    words[Words::kFirstLoss] = std::bit_cast<std::int64_t>(notes.first_held_out_loss);
    words[Words::kLoss] = std::bit_cast<std::int64_t>(notes.loss);
  }
  words[Words::kReceives + static_cast<size_t>(communicator.rank())] = own != version ? 1 : 0;
  LOCKSTEP_TRY(auto ticket, communicator.submit(comm::AllReduce{words.data(), words.size(), comm::DataType::kInt64,
                                                                comm::Reduction::kSum}));
  LOCKSTEP_CHECK_OK(communicator.wait(ticket));
  if (words[Words::kMagic] != kTransferMagic) return wrong("the received bytes are no state");
  if (words[Words::kBytes] != static_cast<std::int64_t>(state.bytes())) {
    return wrong("it has " + std::to_string(words[Words::kBytes]) + " bytes, and this model's has " +
                 std::to_string(state.bytes()));
  }
  const Version theirs{words[Words::kCommittedIn], words[Words::kStep],
                       std::bit_cast<std::uint64_t>(words[Words::kDigest])};
  if (theirs != version) return other(theirs);
  Agreed agreed;
  agreed.notes = {std::bit_cast<double>(words[Words::kFirstLoss]), std::bit_cast<double>(words[Words::kLoss])};
  for (size_t i = Words::kReceives; i < words.size(); ++i) agreed.receives.push_back(words[i] != 0);
  return agreed;
}

}  // namespace

Result<Transferred> transfer_state(State& state, comm::Communicator& communicator, int source, const Version& version,
                                   const TransferNotes& notes, Held held, std::span<std::byte> spare) {
  const Version own = held == Held::kNothing ? Version{-1, -1, 0} : state.version();
  LOCKSTEP_TRY(const Agreed agreed, agree(state, communicator, source, version, notes, own));
  const auto rank = static_cast<size_t>(communicator.rank());
  const bool receives = agreed.receives[rank];
  const bool sends = agreed.receives[(rank + 1) % agreed.receives.size()];

  if (sends && !receives) LOCKSTEP_CHECK_OK(state.fetch());
  std::vector<State::Block> blocks = state.image();
  std::unique_ptr<std::byte[]> memory;  // where `spare` is too small
  std::byte* apart = nullptr;           // a second state
  if (receives && held == Held::kState) {
    const size_t bytes = state.bytes();
    if (spare.size() < bytes) memory.reset(new (std::nothrow) std::byte[bytes]);
    apart = spare.size() < bytes ? memory.get() : spare.data();
    if (apart == nullptr) {
      return fail(ErrorCode::kExhausted, "no memory for a second state of " + std::to_string(bytes) + " bytes");
    }
    std::byte* at = apart;
    for (State::Block& block : blocks) at += (block.data = at, block.bytes);
  }
  if (receives && held == Held::kNothing) state.changed();
  std::vector<comm::Ticket> tickets;
  for (const State::Block& block : blocks) {
    LOCKSTEP_TRY(auto ticket, communicator.submit(comm::HandOn{block.data, block.bytes, receives, sends}));
    tickets.push_back(ticket);
  }
  std::uint64_t digest = 0;
  std::uint64_t of_arenas = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {  // digest each while the next is on its way
    LOCKSTEP_CHECK_OK(communicator.wait(tickets[i]));
    if (!receives) continue;
    if (mutation() == Mutation::kTearTransfer && i == 0) {
      std::fill(blocks[i].data + blocks[i].bytes / 2, blocks[i].data + blocks[i].bytes, std::byte{0});
    }
    digest += state.digest_of(i, blocks[i].data);
    if (i < state.slots.size() + 1) of_arenas = digest;
  }
  if (!receives) return Transferred{false, agreed.notes};
  if (digest != version.digest && mutation() != Mutation::kTearTransfer)
    return wrong("the digest of the received bytes is not the announced one");
  LOCKSTEP_CHECK_OK(apart != nullptr ? state.install(apart, version.committed_in) : state.written());
  state.committed_in = version.committed_in;
  state.digested(of_arenas);
  return Transferred{true, agreed.notes};
}

}  // namespace lockstep::trainer::core
