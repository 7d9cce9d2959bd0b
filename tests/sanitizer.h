// How much of a long property test a sanitizer's build repeats. It runs many times slower, and looks for other faults
// than the properties do: a part of the cases shows it all of the code.
#pragma once

namespace lockstep::sanitizer {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kOn = true;
#else
inline constexpr bool kOn = false;
#endif

// `usual` cases, and a fifth of them under a sanitizer.
constexpr int cases(int usual) {
  return kOn ? usual / 5 : usual;
}

}  // namespace lockstep::sanitizer
