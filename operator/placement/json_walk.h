// Reads a few fields of a JSON text without building it: a table of paths, and a visitor that is told what lies there.
// Whatever is on no path is skipped; memory does not grow with the text or its depth.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::placement {

// The paths of one scan. A path is a row of keys between '|': "spec|containers|[]|name". "[]" is each element of an
// array, "*" each member of an object. Paths that end at the same place are one path with the id of the last.
class JsonPaths {
 public:
  struct Path {
    std::string_view text;
    int id;  // from 0
  };
  JsonPaths(std::initializer_list<Path> paths);

  // The place behind `key` of `place`, or -1: no path leads there. Place 0 is the whole text.
  int next(int place, std::string_view key) const;
  // The id of the path that ends at `place`, or -1.
  int id(int place) const { return places_[static_cast<std::size_t>(place)].id; }

 private:
  struct Place {
    std::string key;
    int id = -1;
    std::vector<int> next;
  };
  std::vector<Place> places_;
};

class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  // An object or array begins at a path with an id.
  virtual void begin(int id) = 0;
  // A scalar is at a path with an id: a string's characters, a number's digits, "true" or "false"; null is left out.
  // `key` is the last key on the way ("[]" in an array). Both are valid during the call.
  virtual void value(int id, std::string_view key, std::string_view text) = 0;
};

// False when `text` is not one JSON value from its first to its last byte. The visitor has then seen a part of it.
bool walk_json(std::string_view text, const JsonPaths& paths, JsonVisitor& visitor);

}  // namespace lockstep::placement
