// How much of a long test a sanitizer's build repeats. It runs many times slower, and looks for other faults than the
// test does: a part of the cases shows it all of the code, and most properties are of one thread, which hardly concerns
// ThreadSanitizer.
#pragma once

namespace lockstep::sanitizer {

#if defined(__SANITIZE_THREAD__)
inline constexpr int kPart = 30;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr int kPart = 10;
#else
inline constexpr int kPart = 1;
#endif
inline constexpr bool kOn = kPart > 1;

// `usual` cases, a tenth of them under AddressSanitizer, and a thirtieth under ThreadSanitizer; at least one.
constexpr int cases(int usual) {
  return usual >= kPart ? usual / kPart : 1;
}

// `usual` steps of a training, and at most five under a sanitizer.
constexpr int steps(int usual) {
  return kOn && usual > 5 ? 5 : usual;
}

}  // namespace lockstep::sanitizer
