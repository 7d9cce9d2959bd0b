// One YAML document as JSON, with the line and column of everything in it. Scalars mean what they mean to kubectl, so
// that a file is read the same way with and without a cluster. That is YAML 1.1: an unquoted `yes` is true.
//
// Safe for files of any origin. Size, depth and the growth through aliases are bounded, a duplicate key and a second
// document are refused, and nothing throws.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::api {

// Counted from 1; 0: unknown.
struct Position {
  int line = 0;
  int column = 0;

  bool operator==(const Position&) const = default;
};

struct YamlLimits {
  size_t bytes = 1 << 20;
  size_t nodes = 100'000;  // values in the result, those that aliases copied included
  size_t key_bytes = 1024;
  int depth = 64;
};

struct YamlDocument {
  // The position of a value (of its key, if it has one), and of the values inside it.
  struct Place {
    Position at;
    std::vector<std::pair<std::string, Place>> fields;
    std::vector<Place> entries;
  };

  nlohmann::json json;
  Place root;

  // The position of the key or entry at `path`; if it is missing, that of the nearest value around it.
  Position position_of(std::string_view path) const;
};

// kInvalid with a sentence; `failed_at`, if given, gets the position of the mistake. An empty document is null.
Result<YamlDocument> parse_yaml(std::string_view text, Position* failed_at = nullptr, const YamlLimits& limits = {});

// The suffix of a path for a key or an entry: ".nodes" ("nodes" at the start), "[nvidia.com/gpu]", "[0]".
std::string path_step(std::string_view key, bool at_start);
std::string path_step(size_t entry);

}  // namespace lockstep::api
