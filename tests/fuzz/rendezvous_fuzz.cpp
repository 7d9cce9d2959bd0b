// Anything at all as what an agent sends the coordinator, the coordinator an agent, or one of them a process: it is
// refused, or it survives a round trip.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "operator/rendezvous/protocol.h"
#include "operator/rendezvous/worker_contract.h"

extern "C" int rendezvous_fuzz(const std::uint8_t* data, std::size_t size);

extern "C" int rendezvous_fuzz(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::rendezvous;
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
    if (sent && !decode_from_agent(std::string_view(*sent).substr(4))) std::abort();
  }
  static_cast<void>(agent.decode(text));
  if (const auto message = decode_worker_message(text)) {
    const std::string line = encode(*message);
    if (!decode_worker_message(std::string_view(line).substr(0, line.size() - 1))) std::abort();
  }
  if (const auto message = decode_agent_message(text)) {
    const std::string line = encode(*message);
    if (!decode_agent_message(std::string_view(line).substr(0, line.size() - 1))) std::abort();
  }
  return 0;
}
