// For the .cu files: which pixels a sliding window holds, which windows hold a pixel, and packs of channels.
#pragma once

#include "trainer/backend/cuda/kernels/device.h"
#include "trainer/backend/cuda/kernels/slid_images.h"

namespace lockstep::trainer::cuda {

// Neighbouring values that a thread loads and stores as one.
template <typename T, int kCount>
struct alignas(kCount * sizeof(T)) Pack {
  T at[kCount];
};

// Values of a pack: 16 bytes of float, where the channels divide into packs.
inline int pack_of(std::int64_t channels) {
  return channels % 4 == 0 ? 4 : 1;
}

template <int kCount, typename T>
__device__ Pack<T, kCount> load(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}

template <int kCount, typename T>
__device__ void store(T* to, const Pack<T, kCount>& values) {
  *reinterpret_cast<Pack<T, kCount>*>(to) = values;
}

// As float.
template <int kCount, typename Element>
__device__ Pack<float, kCount> load_wide(const Element* from) {
  const Pack<Element, kCount> values = load<kCount>(from);
  Pack<float, kCount> all;
  for (int c = 0; c < kCount; ++c) all.at[c] = wide(values.at[c]);
  return all;
}

template <int kCount, typename Element>
__device__ void store_rounded(Element* to, const Pack<float, kCount>& values) {
  Pack<Element, kCount> all;
  for (int c = 0; c < kCount; ++c) all.at[c] = rounded<Element>(values.at[c]);
  store(to, all);
}

// *to = values, or *to += values.
template <int kCount, typename Element>
__device__ void put(Element* to, Pack<float, kCount> values, bool accumulate) {
  if (accumulate) {
    const Pack<float, kCount> before = load_wide<kCount>(to);
    for (int c = 0; c < kCount; ++c) values.at[c] = before.at[c] + values.at[c];
  }
  store_rounded(to, values);
}

// Element `i` of images (samples, height, width, width of a pixel).
struct ImagePlace {
  std::int64_t sample;
  int row, column;
  std::int64_t channel;
};

inline __device__ ImagePlace image_place(std::int64_t i, int height, int width, std::int64_t channels) {
  const auto [pixel, channel] = row_and_column(i, channels);
  const auto [line, column] = row_and_column(pixel, width);
  const auto [sample, row] = row_and_column(line, height);
  return {sample, static_cast<int>(row), static_cast<int>(column), channel};
}

// [begin, end)
struct Range {
  int begin, end;
};

// The rows of the window at row `place` that lie in an image of `size` rows. Columns alike.
inline __device__ Range rows_inside(const SlidImages& images, int place, int size) {
  const int first = place * images.stride - images.padding;
  return {first < 0 ? -first : 0, size - first < images.kernel ? size - first : images.kernel};
}

// The rows of windows, of `places`, that hold row `row` of the image. Columns alike.
inline __device__ Range windows_with(const SlidImages& images, int row, int places) {
  const int padded = row + images.padding, end = padded / images.stride + 1;
  return {padded < images.kernel ? 0 : (padded - images.kernel) / images.stride + 1, end < places ? end : places};
}

}  // namespace lockstep::trainer::cuda
