// A table of paths into a JSON text, and a function that cuts a text down to what lies on them.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The paths of one reader. A path is a row of keys between '|': "spec|containers|[]|name". "[]" is each element of an
// array, "*" each member of an object. Paths that end at the same place are one path with the id of the last.
class JsonPaths {
 public:
  struct Path {
    std::string_view text;
    int id = 0;  // the reader's; from 0
  };
  JsonPaths(std::initializer_list<Path> paths);

  // The place behind `key` of `place`, or -1: no path leads there. Place 0 is the whole text.
  int next(int place, std::string_view key) const;
  // No path leads on from the place: all of the value there is meant.
  bool last(int place) const { return places_[static_cast<std::size_t>(place)].next.empty(); }
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

// `text` with nothing in its objects and arrays but what lies on a path. It takes a fraction of the time of a parser,
// because it only counts quotes and brackets in what it leaves out. The reader of the rest checks whether that is valid
// JSON. Returns "" for an object or array that does not end with the text, and any other text as it is.
std::string keep_paths(std::string_view text, const JsonPaths& paths);

}  // namespace lockstep
