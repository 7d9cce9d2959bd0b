#include "trainer/core/pixels.h"

#include "trainer/core/parallel.h"

namespace lockstep::trainer::core {

namespace {

template <typename Real>
void spread(const std::uint8_t* from, size_t count, const PixelValues& values, Real* to, int threads) {
  for_blocks(count, threads, [&](size_t, size_t begin, size_t end) {
    size_t colour = begin % kColours;
    for (size_t i = begin; i < end; ++i) {
      to[i] = values[colour][from[i]];
      colour = colour + 1 == kColours ? 0 : colour + 1;
    }
  });
}

}  // namespace

void spread_pixels(const std::uint8_t* from, size_t count, const PixelValues& values, ElementType real, void* to,
                   int threads) {
  if (real == ElementType::kFloat32) {
    spread(from, count, values, static_cast<float*>(to), threads);
  } else {
    spread(from, count, values, static_cast<double*>(to), threads);
  }
}

}  // namespace lockstep::trainer::core
