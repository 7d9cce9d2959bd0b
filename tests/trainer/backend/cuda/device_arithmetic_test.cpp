// What the CUDA backend does to whole arenas has the bits of the host.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tests/trainer/backend/cuda/under_test.h"
#include "trainer/backend/make_backend.h"
#include "trainer/core/fixed_point.h"
#include "trainer/core/norm.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/random.h"
#include "trainer/models/mlp.h"

namespace lockstep::trainer::device_arithmetic_test {
namespace {

using testing::gpu;

std::vector<float> reals(size_t count, float scale) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = scale * static_cast<float>(core::normal(3, i));
  return all;
}

class Arenas : public ::testing::Test {
 protected:
  std::unique_ptr<core::Memory> put(const std::vector<float>& values) {
    auto memory = cuda_->allocate(values.size() * sizeof(float)).value();
    cuda_->write(memory->data(), values.data(), memory->bytes());
    return memory;
  }
  template <typename T>
  std::vector<T> get(const core::Memory& memory, size_t count) {
    std::vector<T> values(count);
    cuda_->read(values.data(), memory.data(), count * sizeof(T));
    EXPECT_TRUE(cuda_->wait(cuda_->mark()).ok());
    return values;
  }

  static constexpr size_t kCount = 9001;
  std::unique_ptr<core::Backend> cuda_ = gpu();
};

TEST_F(Arenas, sums_and_flags_of_rounding_are_those_of_the_host) {
  std::vector<float> first = reals(kCount, 1e-3f), second = reals(kCount, 2.0f);
  second[77] = std::numeric_limits<float>::infinity();
  std::vector<std::int64_t> sums(kCount);
  core::RoundingFlags expected, flags;
  auto sum_memory = cuda_->allocate(kCount * sizeof(std::int64_t)).value();
  for (auto* values : {&first, &second}) {
    const bool add = values == &second;
    auto memory = put(*values);
    core::round_and_clear(values->data(), core::ElementType::kFloat32, kCount, 30, add, sums.data(), 1, expected);
    cuda_->round_and_clear(memory->data(), kCount, 30, add, sum_memory->data(), &flags);
    EXPECT_EQ(get<float>(*memory, kCount), std::vector<float>(kCount, 0));
    EXPECT_EQ(get<std::int64_t>(*sum_memory, kCount), sums);
    EXPECT_EQ(flags.overflow, expected.overflow);
    EXPECT_EQ(flags.not_finite, expected.not_finite);
  }
  EXPECT_EQ(flags.not_finite, 1);
  auto back = cuda_->allocate(kCount * sizeof(float)).value();
  std::uint64_t largest = 0;
  cuda_->unround(sum_memory->data(), kCount, 29, back->data(), &largest);
  std::vector<float> values(kCount);
  const std::uint64_t expected_largest =
      core::unround(sums.data(), kCount, 29, values.data(), core::ElementType::kFloat32, 1);
  EXPECT_EQ(get<float>(*back, kCount), values);
  EXPECT_EQ(largest, expected_largest);
  auto zeros = cuda_->allocate(sum_memory->bytes()).value();
  cuda_->unround(zeros->data(), kCount, 29, back->data(), &largest);
  ASSERT_TRUE(cuda_->wait(cuda_->mark()).ok());
  EXPECT_EQ(largest, 0u) << "not the largest of an earlier call";
}

TEST_F(Arenas, flags_are_gathered_over_calls) {
  auto memory = put({std::numeric_limits<float>::quiet_NaN()}), fine = put({1.0f}), large = put({1e30f});
  auto sums = cuda_->allocate(64).value();
  core::RoundingFlags flags;
  for (const auto* values : {&memory, &fine, &large}) {
    cuda_->round_and_clear((*values)->data(), 1, 30, true, sums->data(), &flags);
  }
  ASSERT_TRUE(cuda_->wait(cuda_->mark()).ok());
  EXPECT_EQ(flags.not_finite, 1);
  EXPECT_EQ(flags.overflow, 1);
  core::RoundingFlags others;
  cuda_->round_and_clear(fine->data(), 1, 30, true, sums->data(), &others);
  ASSERT_TRUE(cuda_->wait(cuda_->mark()).ok());
  EXPECT_EQ(others.not_finite + others.overflow, 0) << "what an earlier call met is not this one's";
}

TEST_F(Arenas, the_norm_is_that_of_the_host) {
  core::NormTree tree;
  for (const size_t count : {size_t{1}, size_t{4096}, kCount, size_t{300001}}) {
    const std::vector<float> values = reals(count, 0.3f);
    auto memory = put(values);
    double norm = 0;
    cuda_->norm(memory->data(), count, &norm);
    ASSERT_TRUE(cuda_->wait(cuda_->mark()).ok());
    EXPECT_EQ(norm, tree.norm(values.data(), count, core::ElementType::kFloat32, 1)) << count;
  }
}

TEST_F(Arenas, a_norm_is_taken_on_the_right_gpu_after_another_was_used) {
  auto memory = put(reals(kCount, 1));
  double first = 0, second = 0;
  cuda_->norm(memory->data(), kCount, &first);
  backend::CudaOptions options = testing::libraries();
  options.local_rank = 1;
  auto other = backend::make_cuda_backend(options).value();
  cuda_->norm(memory->data(), kCount, &second);
  const Status waited = cuda_->wait(cuda_->mark());
  ASSERT_TRUE(waited.ok()) << waited.error().message;
  EXPECT_EQ(first, second);
}

TEST_F(Arenas, an_update_leaves_the_bits_and_the_digest_that_the_host_would) {
  const core::Graph graph = models::mlp({.batch = 4, .features = 90, .width = 70, .classes = 3});
  const core::Layout layout = core::lay_out(graph);
  auto host = backend::make_backend("cpu", 1).value();
  core::Optimizer optimizer{.schedule = {.peak = 0.01}, .matrices = {.weight_decay = 0.1, .trust_ratio = true}};
  for (const core::Rule& rule : {core::Rule(core::Sgd{}), core::Rule(core::Sgd{.nesterov = true}),
                                 core::Rule(core::AdamW{}), core::Rule(core::Lars{})}) {
    SCOPED_TRACE(rule.index());
    optimizer.rule = rule;
    const size_t slots = core::slots_of(rule).size();
    std::vector<std::vector<float>> arenas(2 + slots, std::vector<float>(layout.count, 0));
    for (const core::Segment& segment : layout.segments) {  // padding stays zero
      for (size_t part = 0; part < arenas.size(); ++part) {
        const std::vector<float> values = reals(segment.count, 0.1f * static_cast<float>(part + 1));
        for (size_t i = 0; i < segment.count; ++i) {
          arenas[part][segment.offset + i] = part < 2 ? values[i] : std::fabs(values[i]);
        }
      }
    }
    std::vector<std::unique_ptr<core::Memory>> memories;
    for (const auto& arena : arenas) memories.push_back(put(arena));
    std::vector<void*> host_slots, slot_memories;
    for (size_t i = 0; i < slots; ++i) {
      host_slots.push_back(arenas[2 + i].data());
      slot_memories.push_back(memories[2 + i]->data());
    }
    core::Update update{.layout = &layout,
                        .parameters = arenas[0].data(),
                        .gradients = arenas[1].data(),
                        .slots = host_slots,
                        .gradient_scale = 0.7,
                        .step = 3};
    const std::uint64_t digest = host->update(optimizer, update);
    update.parameters = memories[0]->data();
    update.gradients = memories[1]->data();
    update.slots = slot_memories;
    EXPECT_EQ(cuda_->update(optimizer, update), digest);
    for (size_t part = 0; part < arenas.size(); ++part) {
      EXPECT_TRUE(get<float>(*memories[part], layout.count) == arenas[part]) << "arena " << part;
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer::device_arithmetic_test
