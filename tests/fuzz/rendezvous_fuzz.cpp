// Anything at all as what an agent sends the coordinator, the coordinator an agent, or one of them a process. It is
// refused, or it survives a round trip.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <variant>

#include "operator/rendezvous/limits.h"
#include "operator/rendezvous/protocol.h"
#include "operator/rendezvous/worker_contract.h"

extern "C" int rendezvous_fuzz(const std::uint8_t* data, std::size_t size);

namespace {

using namespace lockstep::rendezvous;

// What is sent of a message that was decoded. Its sentence goes with a problem alone, and is clipped after the word of
// an unknown problem has been put in front of it.
AgentToCoordinator as_sent(AgentToCoordinator message) {
  std::visit(
      [](auto& m) {
        using Message = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<Message, Ready> || std::is_same_v<Message, Exit>) {
          m.message = m.problem == lockstep::api::Cause::kNone ? "" : clipped(m.message, kMaxMessage);
        }
      },
      message);
  return message;
}

}  // namespace

extern "C" int rendezvous_fuzz(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  FrameReader reader;
  reader.feed(text);
  CoordinatorReader agent;
  for (auto frame = reader.next(); frame && *frame; frame = reader.next()) {
    static_cast<void>(agent.decode(**frame));
    static_cast<void>(decode_from_agent(**frame));
  }
  if (const auto message = decode_from_agent(text)) {
    const auto sent = encode_frame(*message);
    if (sent) {
      const auto again = decode_from_agent(std::string_view(*sent).substr(4));
      if (!again || !(*again == as_sent(*message))) std::abort();
    }
  }
  static_cast<void>(agent.decode(text));
  if (const auto message = decode_worker_message(text)) {
    const std::string line = encode(*message);
    const auto again = decode_worker_message(std::string_view(line).substr(0, line.size() - 1));
    // A loss that is no number is not equal to itself, but its line is.
    if (!again || !(message->progress ? encode(*again) == line : *again == *message)) std::abort();
  }
  if (const auto message = decode_agent_message(text)) {
    const std::string line = encode(*message);
    const auto again = decode_agent_message(std::string_view(line).substr(0, line.size() - 1));
    if (!again || !(*again == *message)) std::abort();
  }
  return 0;
}
