// A text for trainings in tests: 6,000 letters with a pattern that a model can learn.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/core/random.h"
#include "trainer/data/text_source.h"

namespace lockstep::trainer::testing {

// The first `training` letters are for training, the others are held out.
inline data::Text made_text(std::size_t training) {
  constexpr std::size_t kLetters = 6000;
  data::Text made;
  for (unsigned char c = 'a'; c <= 'z'; ++c) made.vocabulary.push_back(c);
  for (std::uint64_t i = 0; i < kLetters; ++i) {
    auto token = static_cast<std::uint8_t>((i * i / 7 + core::mix(i / 3) % 3) % 26);
    (i < training ? made.training : made.held_out).push_back(token);
  }
  made.files = {{.path = "made up", .training = training, .held_out = kLetters - training}};
  return made;
}

}  // namespace lockstep::trainer::testing
