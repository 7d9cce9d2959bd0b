// Objects that an API server sends in protobuf, written as JSON text: what reads the text need not know how it came.
// Protobuf states the length of each part, so a part that nobody reads costs nothing; the server keeps one such text of
// an event for all of its watchers.
//
// Guarantees: bytes of any content are read within their bounds, and no deeper than the table. A value that is empty,
// zero or false is left out, as Kubernetes leaves it out of JSON. Elements of lists and members of maps always stay.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "operator/base/json_paths.h"

namespace lockstep::kube {

struct WireMessage;

// A field of a message that somebody reads.
struct WireField {
  enum class Kind {
    kText,
    kNumber,       // int32 or int64
    kTruth,        // bool
    kTime,         // metav1.Time: a text of whole seconds
    kTextMap,      // of texts by text
    kQuantityMap,  // of resource.Quantity by text
    kMessage,
  };
  int number;
  std::string_view name;  // in JSON
  Kind kind = Kind::kText;
  const WireMessage* message = nullptr;  // of kMessage
  bool repeated = false;
};

struct WireMessage {
  std::span<const WireField> fields;
};

// Whether a body is in the server's envelope for protobuf, and no JSON.
bool is_wire(std::string_view body);

// The JSON of the object in an envelope: what `message` knows and `fields` keep. Null keeps all. Empty: it cannot be
// read.
std::optional<std::string> wire_text(std::string_view envelope, const WireMessage& message,
                                     const JsonPaths* fields = nullptr);

// A list in an envelope: calls `on_item` with the text of each item once all were found. The answer is the JSON of its
// metadata. Empty when it cannot be read, also within an item; `on_item` may then have seen some.
std::optional<std::string> wire_list(std::string_view envelope, const WireMessage& item, const JsonPaths* fields,
                                     const std::function<void(std::string_view)>& on_item);

// An event of a watch, in views into `frame`: its type, and the envelope of its object.
struct WireEvent {
  std::string_view type, object;
};
std::optional<WireEvent> wire_event(std::string_view frame);

}  // namespace lockstep::kube
