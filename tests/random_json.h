// Random JSON values for property tests.
#pragma once

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace lockstep {

// A value of at most `depth` levels. Its strings hold the characters that a reader of JSON may stumble over; members of
// its objects have `keys`.
inline nlohmann::json random_json(std::mt19937_64& random, int depth, const std::vector<std::string>& keys) {
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  switch (below(depth > 0 ? 6 : 4)) {
    case 0:
      return static_cast<int>(below(1000)) - 500;
    case 1:
      return std::string(below(4), "a\"\\{}[],:/\n"[below(11)]);
    case 2:
      return below(2) == 0;
    case 3:
      return nullptr;
    case 4: {
      auto array = nlohmann::json::array();
      for (std::size_t i = below(4); i > 0; --i) array.push_back(random_json(random, depth - 1, keys));
      return array;
    }
    default: {
      auto object = nlohmann::json::object();
      for (std::size_t i = below(5); i > 0; --i)
        object[keys[below(keys.size())]] = random_json(random, depth - 1, keys);
      return object;
    }
  }
}

}  // namespace lockstep
