// Reads a few fields of a JSON text without building it: a table of paths, and a visitor that is told what lies there.
// Whatever is on no path is skipped, and only its quotes and brackets are checked.
#pragma once

#include <string_view>

#include "operator/base/json_paths.h"

namespace lockstep::placement {

class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  // An object or array begins at a path with an id.
  virtual void begin(int id) = 0;
  // A scalar is at a path with an id: a string's characters, a number's digits, "true" or "false"; null is left out.
  // `key` is the last key on the way ("[]" in an array). Both are valid during the call.
  virtual void value(int id, std::string_view key, std::string_view text) = 0;
};

// False when `text` is not one value from its first to its last byte, or when what lies on a path is no JSON. The
// visitor has then seen a part of it.
bool walk_json(std::string_view text, const JsonPaths& paths, JsonVisitor& visitor);

}  // namespace lockstep::placement
