#include "trainer/comm/nccl_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::trainer::comm {
namespace {

template <typename T>
std::byte* raw(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

TEST(NcclForm, floats_keep_their_order_as_integers_and_nan_is_above_all) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> ascending{
      -inf, -3e38F, -1.0F, -1e-40F, 0.0F, 1e-40F, 2.5F, inf, std::numeric_limits<float>::quiet_NaN()};
  const NcclForm form = form_of(DataType::kFloat32, Reduction::kMax);
  std::vector<std::uint32_t> wire(ascending.size());
  to_wire(form, raw(wire), raw(ascending), ascending.size());
  for (size_t i = 1; i < wire.size(); ++i) EXPECT_LT(wire[i - 1], wire[i]) << ascending[i];
  std::vector<float> back(ascending.size());
  from_wire(form, raw(back), raw(wire), back.size());
  EXPECT_TRUE(std::isnan(back.back()));
  back.pop_back();
  ascending.pop_back();
  EXPECT_EQ(back, ascending);
}

TEST(NcclForm, a_nan_of_any_bits_is_a_nan_again) {
  std::vector<std::uint64_t> bits{0xfff8000000000001, 0x7ff0000000000001, 0xffffffffffffffff};
  const NcclForm form = form_of(DataType::kFloat64, Reduction::kMax);
  std::vector<std::uint64_t> wire(bits.size());
  to_wire(form, raw(wire), raw(bits), bits.size());
  std::vector<double> back(bits.size());
  from_wire(form, raw(back), raw(wire), back.size());
  for (const double value : back) EXPECT_TRUE(std::isnan(value));
}

TEST(NcclForm, the_maximum_of_bits_as_bytes_is_their_or) {
  std::vector<std::int64_t> a{0x0123456789abcdef, -1, 0};
  std::vector<std::int64_t> b{0x1000000000000010, 5, 0};
  const NcclForm form = form_of(DataType::kInt64, Reduction::kBitOr);
  ASSERT_EQ(form.wire_bytes, 64U);
  std::vector<std::uint8_t> wire_a(a.size() * form.wire_bytes);
  std::vector<std::uint8_t> wire_b(wire_a.size());
  to_wire(form, raw(wire_a), raw(a), a.size());
  to_wire(form, raw(wire_b), raw(b), b.size());
  for (size_t i = 0; i < wire_a.size(); ++i) wire_a[i] = std::max(wire_a[i], wire_b[i]);
  std::vector<std::int64_t> result(a.size());
  from_wire(form, raw(result), raw(wire_a), result.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(result[i], a[i] | b[i]);
}

TEST(NcclPlan, an_operation_without_elements_has_no_steps) {
  EXPECT_TRUE(NcclPlan(AllReduce{}, 1, 0, 64).done());
  EXPECT_TRUE(NcclPlan(Broadcast{}, 1, 0, 64).done());
  EXPECT_TRUE(NcclPlan(HandOn{nullptr, 0, true, true}, 1, 0, 64).done());
  std::vector<std::uint8_t> data(100);
  EXPECT_TRUE(NcclPlan(HandOn{data.data(), 100, false, false}, 1, 0, 64).done()) << "a rank that takes no part";
}

TEST(NcclPlan, only_the_root_of_a_broadcast_reads_and_only_the_others_write) {
  std::vector<std::uint8_t> data(100, 7);
  std::vector<std::byte> host(64);
  const NcclStep at_root = NcclPlan(Broadcast{data.data(), 100, 1}, 1, 1, 64).begin(host.data());
  EXPECT_EQ(at_root.up, 64U);
  EXPECT_EQ(at_root.down, 0U);
  const NcclStep elsewhere = NcclPlan(Broadcast{data.data(), 100, 1}, 1, 0, 64).begin(host.data());
  EXPECT_EQ(elsewhere.up, 0U);
  EXPECT_EQ(elsewhere.down, 64U);
}

// The bytes that one rank sends in its steps arrive at the next one in its own, in the same order.
TEST(NcclPlan, a_hand_on_forwards_each_chunk_while_the_next_one_arrives) {
  std::vector<std::uint8_t> data(150);
  std::vector<std::byte> host(64);
  NcclPlan first(HandOn{data.data(), 150, false, true}, 1, 0, 64);
  NcclPlan middle(HandOn{data.data(), 150, true, true}, 1, 1, 64);
  std::vector<size_t> sent, received, passed_on;
  while (!first.done()) {
    sent.push_back(first.begin(host.data()).send);
    first.finish(host.data());
  }
  int steps = 0;
  while (!middle.done()) {
    const NcclStep step = middle.begin(host.data());
    if (step.receive > 0) received.push_back(step.receive);
    if (step.send > 0) {
      EXPECT_NE(step.slot, step.send_slot) << "received bytes do not overwrite those to send";
      passed_on.push_back(step.send);
    }
    middle.finish(host.data());
    ++steps;
  }
  EXPECT_EQ(sent, (std::vector<size_t>{64, 64, 22}));
  EXPECT_EQ(received, sent);
  EXPECT_EQ(passed_on, sent);
  EXPECT_EQ(steps, 4);
}

}  // namespace
}  // namespace lockstep::trainer::comm
