#include "trainer/core/state_transfer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace lockstep::trainer::core {

namespace {

constexpr std::uint64_t kTransferMagic = 0x316574617473736cULL;  // changes with the layout of Header
constexpr size_t kInFlight = 2;  // chunks: the next one is copied while the one before is on its way

// The first broadcast. All ranks run the same program on the same kind of machine, so these are its bytes in memory.
struct Header {
  std::uint64_t magic = kTransferMagic;
  std::uint64_t bytes = 0;
  Version version;
  TransferNotes notes;
};

Error wrong(const std::string& what) {
  return fail(ErrorCode::kInternal, "the state of another rank cannot be taken: " + what);
}

Result<Header> exchange_header(State& state, comm::Communicator& communicator, int source, const Version& version,
                               const Header& own) {
  auto of = [](const Version& it) {
    return "step " + std::to_string(it.step) + " of generation " + std::to_string(it.committed_in);
  };
  auto other = [&](const Version& held) {
    return wrong("rank " + std::to_string(source) + " holds " + of(held) + " and was named as the source of " +
                 of(version) + ", or its bits are others");
  };
  // Before it says anything, so that the others hear of its end and do not end themselves.
  if (communicator.rank() == source && own.version != version) return other(own.version);
  Header header = own;
  LOCKSTEP_TRY(auto ticket, communicator.submit(comm::Broadcast{&header, sizeof header, source}));
  LOCKSTEP_CHECK_OK(communicator.wait(ticket));
  if (header.magic != kTransferMagic) return wrong("what came is no state");
  if (header.bytes != state.bytes()) {
    return wrong("it has " + std::to_string(header.bytes) + " bytes, and this model's has " +
                 std::to_string(state.bytes()));
  }
  if (header.version != version) return other(header.version);
  return header;
}

// Copies the state piece by piece, in the order of install()'s image.
class Gatherer {
 public:
  explicit Gatherer(State& state) : tensors_(state.tensors()) {}
  void next(std::byte* to, size_t bytes) {
    while (bytes > 0) {
      const StateTensor& tensor = tensors_[tensor_];
      size_t part = std::min(bytes, tensor.bytes - offset_);
      std::copy_n(tensor.data + offset_, part, to);
      to += part;
      bytes -= part;
      offset_ += part;
      if (offset_ == tensor.bytes) {
        ++tensor_;
        offset_ = 0;
      }
    }
  }

 private:
  std::vector<StateTensor> tensors_;
  size_t tensor_ = 0;
  size_t offset_ = 0;
};

}  // namespace

Result<Transferred> transfer_state(State& state, comm::Communicator& communicator, int source, const Version& version,
                                   const TransferNotes& notes) {
  Header own{.bytes = state.bytes(), .version = state.version(), .notes = notes};
  LOCKSTEP_TRY(const Header header, exchange_header(state, communicator, source, version, own));
  bool sends = communicator.rank() == source;
  bool receives = own.version != version;

  // Where chunks lie: a receiver has room for all of them, the others for those in flight.
  size_t chunk = std::min<size_t>(kTransferChunk, header.bytes);
  size_t room = receives ? header.bytes : kInFlight * chunk;
  std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[room]);
  if (!memory) return fail(ErrorCode::kExhausted, "no memory for a second state of " + std::to_string(room) + " bytes");

  Gatherer gatherer(state);
  std::deque<comm::Ticket> in_flight;
  auto wait_for_oldest = [&]() -> Status {
    comm::Ticket ticket = in_flight.front();
    in_flight.pop_front();
    return communicator.wait(ticket);
  };
  size_t place = 0;
  for (size_t at = 0; at < header.bytes; at += chunk, ++place) {
    if (in_flight.size() == kInFlight) LOCKSTEP_CHECK_OK(wait_for_oldest());
    size_t bytes = std::min(chunk, header.bytes - at);
    std::byte* data = memory.get() + (receives ? at : place % kInFlight * chunk);
    if (sends) gatherer.next(data, bytes);
    LOCKSTEP_TRY(auto ticket, communicator.submit(comm::Broadcast{data, bytes, source}));
    in_flight.push_back(ticket);
  }
  while (!in_flight.empty()) LOCKSTEP_CHECK_OK(wait_for_oldest());

  if (receives) {
    if (state.digest_of(memory.get()) != version.digest) return wrong("its bits are not those that were announced");
    state.install(memory.get(), version.committed_in);
  }
  return Transferred{receives, header.notes};
}

}  // namespace lockstep::trainer::core
