// How much of a long test a sanitizer's build repeats. It runs many times slower, and looks for other faults than the
// test does. A part of the cases shows it all of the code. Most properties are of one thread, which hardly concerns
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
inline constexpr bool kThreads = kPart == 30;  // ThreadSanitizer, to which code of one thread has little to show

// `usual` cases, a tenth of them under AddressSanitizer, and a thirtieth under ThreadSanitizer; at least one.
constexpr int cases(int usual) {
  return usual >= kPart ? usual / kPart : 1;
}

// `usual` steps of a training, and at most five under AddressSanitizer, three under ThreadSanitizer.
constexpr int steps(int usual) {
  constexpr int kMost = kThreads ? 3 : 5;
  return kOn && usual > kMost ? kMost : usual;
}

}  // namespace lockstep::sanitizer
