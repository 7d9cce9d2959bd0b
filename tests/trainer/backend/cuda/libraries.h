// Fixtures for tests of cuDNN and cuBLASLt under test: memory of the device, and a handle of the library.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/under_test.h"
#include "trainer/backend/cuda/convolution.h"
#include "trainer/backend/cuda/device_memory.h"
#include "trainer/backend/cuda/device_queue.h"
#include "trainer/backend/cuda/matmul.h"
#include "trainer/core/random.h"
#include "trainer/cuda/runtime.h"

namespace lockstep::trainer::cuda {

struct Case {
  const char* name;
  ConvolutionShape shape;  // the sizes after it follow from those before
};

inline ConvolutionShape with_outputs(ConvolutionShape s) {
  s.out_height = (s.height + 2 * s.padding - s.kernel) / s.stride + 1;
  s.out_width = (s.width + 2 * s.padding - s.kernel) / s.stride + 1;
  return s;
}

// Height and width differ, as do channels before and after, so that none can stand for another.
inline const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"one_by_one", {.samples = 2, .height = 3, .width = 4, .channels = 5, .outputs = 7}},
      {"one_by_one_stride_2", {.samples = 2, .height = 5, .width = 4, .channels = 3, .outputs = 2, .stride = 2}},
      {"three_by_three",
       {.samples = 2, .height = 5, .width = 4, .channels = 3, .outputs = 6, .kernel = 3, .padding = 1}},
      {"three_by_three_without_padding",
       {.samples = 1, .height = 6, .width = 5, .channels = 2, .outputs = 3, .kernel = 3}},
      {"three_by_three_stride_2",
       {.samples = 2, .height = 7, .width = 6, .channels = 4, .outputs = 3, .kernel = 3, .stride = 2, .padding = 1}},
      {"seven_by_seven_stride_2",
       {.samples = 1, .height = 9, .width = 8, .channels = 3, .outputs = 2, .kernel = 7, .stride = 2, .padding = 3}},
      {"two_groups",
       {.samples = 2, .height = 4, .width = 5, .channels = 6, .outputs = 4, .kernel = 3, .padding = 1, .groups = 2}},
      {"a_group_for_each_channel",
       {.samples = 1, .height = 4, .width = 5, .channels = 3, .outputs = 3, .kernel = 3, .padding = 1, .groups = 3}}};
  return all;
}

using Values = std::vector<float>;

inline Values reals(std::uint64_t key, std::int64_t count) {
  Values values;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    values.push_back(static_cast<float>(core::normal(key, i)));
  }
  return values;
}

// Calls body(i, j, k) with the places in x, weight and y of the factors of each product that the layer sums.
inline void for_each_product(const ConvolutionShape& s, const std::function<void(size_t, size_t, size_t)>& body) {
  const std::int64_t in_group = s.channels / s.groups, out_group = s.outputs / s.groups;
  for (std::int64_t y = 0; y < s.samples * s.out_height * s.out_width * s.outputs; ++y) {
    const std::int64_t output = y % s.outputs, column = y / s.outputs % s.out_width;
    const std::int64_t row = y / (s.outputs * s.out_width) % s.out_height;
    const std::int64_t sample = y / (s.outputs * s.out_width * s.out_height);
    for (std::int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
      const std::int64_t h = row * s.stride - s.padding + tap / s.kernel;
      const std::int64_t w = column * s.stride - s.padding + tap % s.kernel;
      if (h < 0 || h >= s.height || w < 0 || w >= s.width) continue;
      for (std::int64_t c = 0; c < in_group; ++c) {
        const std::int64_t x = ((sample * s.height + h) * s.width + w) * s.channels + output / out_group * in_group + c;
        const std::int64_t weight = (output * s.kernel * s.kernel + tap) * in_group + c;
        body(static_cast<size_t>(x), static_cast<size_t>(weight), static_cast<size_t>(y));
      }
    }
  }
}

using Sums = std::array<std::vector<double>, 3>;

// What the passes add to y, x and weight, by loops.
inline Sums sums_of(const ConvolutionShape& s, const Values& x, const Values& weight, const Values& y) {
  Sums sums = {std::vector<double>(y.size()), std::vector<double>(x.size()), std::vector<double>(weight.size())};
  for_each_product(s, [&](size_t i, size_t j, size_t k) {
    const auto a = static_cast<double>(x[i]), b = static_cast<double>(weight[j]), c = static_cast<double>(y[k]);
    sums[0][k] += a * b;
    sums[1][i] += c * b;
    sums[2][j] += c * a;
  });
  return sums;
}

class OnDevice : public ::testing::Test {
 protected:
  template <typename Element>
  std::unique_ptr<DeviceMemory> put(const std::vector<Element>& values) {
    auto memory = DeviceMemory::allocate(*queue_, values.size() * sizeof(Element)).value();
    queue_->write(memory->data(), values.data(), memory->bytes());
    EXPECT_TRUE(queue_->wait(queue_->mark()).ok());
    return memory;
  }
  template <typename Element = float>
  std::vector<Element> get(const DeviceMemory& memory) {
    std::vector<Element> values(memory.bytes() / sizeof(Element));
    queue_->read(values.data(), memory.data(), memory.bytes());
    EXPECT_TRUE(queue_->wait(queue_->mark()).ok());
    return values;
  }
  static float* floats(const DeviceMemory& memory) { return reinterpret_cast<float*>(memory.data()); }

  std::unique_ptr<DeviceQueue> queue_ =
      DeviceQueue::create(*load_cuda_runtime(trainer::testing::libraries().cudart).value(), 0).value();
};

class Convolutions : public OnDevice {
 protected:
  Convolutions() { EXPECT_EQ(dnn_.create(&place_.handle), DnnStatus::kSuccess); }
  ~Convolutions() override { dnn_.destroy(place_.handle); }

  // What the library had against the latest call.
  std::string why() const {
    std::array<char, 256> text{};
    dnn_.last_error(text.data(), text.size());
    return text.data();
  }

  const Dnn dnn_ = open_dnn(trainer::testing::libraries().cudnn).value();
  DnnPlace place_{.dnn = dnn_};
};

class Products : public OnDevice {
 protected:
  Products() {
    EXPECT_EQ(blas_.create(&place_.handle), BlasStatus::kSuccess);
    place_.workspace = workspace_->data();
    place_.workspace_bytes = workspace_->bytes();
  }
  ~Products() override { blas_.destroy(place_.handle); }

  const Blas blas_ = open_blas(trainer::testing::libraries().cublaslt).value();
  std::unique_ptr<DeviceMemory> workspace_ = DeviceMemory::allocate(*queue_, size_t{1} << 20).value();
  BlasPlace place_{.blas = blas_};
};

}  // namespace lockstep::trainer::cuda
