// Anything at all as an object, a list or a watch in protobuf: it is read without harm, and what is read is JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "operator/kube/frame_splitter.h"
#include "operator/kube/wire_messages.h"
#include "operator/kube/wire_text.h"

extern "C" int wire_fuzz(const std::uint8_t* data, size_t size);

namespace {

void check(std::string_view text) {
  if (!nlohmann::json::parse(text, nullptr, false).is_object()) std::abort();
}

}  // namespace

extern "C" int wire_fuzz(const std::uint8_t* data, size_t size) {
  using namespace lockstep::kube;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const WireMessage& pod = *message_of(kPods);
  if (const auto text = wire_text(bytes, pod)) check(*text);
  if (const auto list = wire_list(bytes, pod, nullptr, check)) check(*list);
  FrameSplitter frames(1000);
  frames.feed(bytes, [&](std::string_view frame) {
    const auto event = wire_event(frame);
    const auto text = event ? wire_text(event->object, pod) : std::nullopt;
    if (text) check(*text);
    return true;
  });
  return 0;
}
