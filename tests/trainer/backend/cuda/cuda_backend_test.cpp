#include "trainer/backend/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/sanitizer.h"
#include "tests/trainer/backend/bench.h"
#include "tests/trainer/backend/cuda/on_fake.h"
#include "tests/trainer/backend/image_layers.h"
#include "tests/trainer/backend/layer_checks.h"
#include "tests/trainer/backend/layers.h"
#include "tests/trainer/cuda/fake_cuda.h"
#include "trainer/backend/make_backend.h"
#include "trainer/core/fixed_point.h"
#include "trainer/core/norm.h"
#include "trainer/core/optimizer.h"
#include "trainer/models/char_transformer.h"
#include "trainer/models/linear_regression.h"
#include "trainer/models/mlp.h"

namespace lockstep::trainer {
namespace {

using testing::Bench;
using testing::fake_gpu;
using testing::LayerCase;

std::string case_name(const ::testing::TestParamInfo<LayerCase>& info) {
  return info.param.name;
}

class CudaLayer : public ::testing::TestWithParam<LayerCase> {};

TEST_P(CudaLayer, loss_and_gradient_are_those_of_ref) {
  auto ref = backend::make_backend("ref", 1).value();
  auto cuda = fake_gpu();
  const core::Graph graph = GetParam().graph();
  Bench expected(graph, *ref, GetParam().classes), actual(graph, *cuda, GetParam().classes);
  const double tolerance = testing::kTolerance * std::sqrt(70.0);
  const double loss = expected.loss(), evaluated = expected.loss(core::RunContext::Mode::kEvaluate);
  EXPECT_NEAR(actual.loss(), loss, std::fabs(loss) * tolerance);
  EXPECT_LT(testing::worst_difference(expected.layout(), actual.gradient(), expected.gradient()), tolerance);
  EXPECT_NEAR(actual.loss(core::RunContext::Mode::kEvaluate), evaluated, std::fabs(evaluated) * tolerance);
  EXPECT_EQ(actual.gradient(), actual.gradient()) << "not the same bits again";
}

INSTANTIATE_TEST_SUITE_P(Small, CudaLayer, ::testing::ValuesIn(testing::layer_cases(5, 4)), case_name);
INSTANTIATE_TEST_SUITE_P(Odd, CudaLayer, ::testing::ValuesIn(testing::layer_cases(37, 21)), case_name);
INSTANTIATE_TEST_SUITE_P(Even, CudaLayer, ::testing::ValuesIn(testing::layer_cases(32, 64)), case_name);

class CudaOnlyPath : public ::testing::TestWithParam<LayerCase> {};

TEST_P(CudaOnlyPath, a_nan_in_a_parameter_reaches_the_loss) {
  auto cuda = fake_gpu();
  const core::Graph graph = GetParam().graph();
  Bench bench(graph, *cuda, GetParam().classes);
  testing::expect_a_nan_to_reach_the_loss(bench);
}

INSTANTIATE_TEST_SUITE_P(Small, CudaOnlyPath, ::testing::ValuesIn(testing::layer_cases(5, 4, false)), case_name);

TEST(CudaModels, gradients_of_every_layer_are_those_of_ref) {
  auto cuda = fake_gpu();
  testing::expect_gradients_of_ref("linear regression", models::linear_regression(4), 1, *cuda);
  testing::expect_gradients_of_ref(
      "mlp", models::mlp({.batch = 16, .features = 12, .width = 24, .classes = 5, .dropout = 0.2}), 5, *cuda);
  testing::expect_gradients_of_ref(
      "char-transformer",
      models::char_transformer(
          {.batch = 2, .vocabulary = 29, .context = 16, .layers = 2, .width = 32, .heads = 4, .dropout = 0.1}),
      29, *cuda);
}

TEST(CudaBackend, a_graph_with_an_op_that_it_lacks_is_refused_with_the_layers_name) {
  auto cuda = fake_gpu();
  int refused = 0;
  for (const LayerCase& layer : testing::image_layer_cases(5, 4)) {
    const core::Graph graph = layer.graph();
    const auto lowered = cuda->lower(graph, true);
    const bool has_all = std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const core::Node& node) {
      return std::holds_alternative<core::ops::Conv2d>(node.op) ||
             std::holds_alternative<core::ops::MaxPool2d>(node.op) ||
             std::holds_alternative<core::ops::GlobalAveragePool>(node.op) ||
             std::holds_alternative<core::ops::Relu6>(node.op);
    });
    ASSERT_EQ(lowered.ok(), has_all) << layer.name;
    if (lowered) continue;
    ++refused;
    EXPECT_EQ(lowered.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(lowered.error().message, ::testing::MatchesRegex("layer '.*': --backend=cuda has no convolution, .*"));
  }
  EXPECT_GT(refused, 3);
}

TEST(CudaBackend, numerics_name_the_gpu_and_each_library) {
  auto cuda = fake_gpu();
  EXPECT_THAT(cuda->numerics(),
              ::testing::MatchesRegex(
                  "cuda/float32/.+/sm-[0-9]+/driver-[0-9.]+/runtime-[0-9.]+/cublaslt-[0-9]+/kernels-[0-9]+"));
}

TEST(CudaBackend, an_index_out_of_range_ends_a_wait_with_its_layer_and_row) {
  auto cuda = fake_gpu();
  const core::Graph graph =
      models::char_transformer({.batch = 2, .vocabulary = 13, .context = 8, .layers = 1, .width = 16, .heads = 2});
  Bench bench(graph, *cuda, 13);
  const auto inputs = graph.with_role(core::Role::kInput);
  for (std::int32_t wrong : {13, 1001, -1, std::numeric_limits<std::int32_t>::min()}) {
    for (size_t i = 0; i < 2; ++i) {
      auto* at = static_cast<std::byte*>(bench.program().data(inputs[i])) + 9 * sizeof wrong;
      std::int32_t right = 0;
      cuda->read(&right, at, sizeof right);
      ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
      cuda->write(at, &wrong, sizeof wrong);
      ASSERT_TRUE(bench.program().forward(bench.context, bench.abort).ok());
      ASSERT_TRUE(bench.program().backward(bench.context, bench.abort).ok());
      const Status waited = cuda->wait(cuda->mark());
      ASSERT_FALSE(waited.ok());
      EXPECT_EQ(waited.error().message, "layer '" + std::string(i == 0 ? "embedding" : "loss") + "': the index " +
                                            std::to_string(wrong) + " of row 9 is not in [0, 13)");
      EXPECT_EQ(waited.error().code, ErrorCode::kCorrupt);
      EXPECT_TRUE(cuda->wait(cuda->mark()).ok()) << "the error is returned once";
      cuda->write(at, &right, sizeof right);
      EXPECT_TRUE(std::isfinite(bench.loss()));
    }
  }
}

// Memory, copies and marks.

std::vector<int> numbers(size_t count, int from) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), from);
  return all;
}

TEST(CudaMemory, is_zero_at_first_and_holds_what_was_written) {
  auto cuda = fake_gpu();
  auto memory = cuda->allocate(4096).value();
  std::vector<int> got = numbers(1024, 1);
  cuda->read(got.data(), memory->data(), 4096);
  ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
  EXPECT_EQ(got, std::vector<int>(1024, 0));
  cuda->write(memory->data(), numbers(1024, 5).data(), 4096);  // memory that is gone when the call has returned
  cuda->read(got.data(), memory->data(), 4096);
  ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
  EXPECT_EQ(got, numbers(1024, 5));
  cuda->clear(memory->data() + 4, 8);
  cuda->read(got.data(), memory->data(), 4096);
  ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
  EXPECT_THAT(std::vector<int>(got.begin(), got.begin() + 4), ::testing::ElementsAre(5, 0, 0, 8));
}

TEST(CudaMemory, copies_may_be_larger_than_the_pinned_ring_and_of_any_size) {
  auto cuda = fake_gpu();
  const size_t count = (size_t{5} << 20) + 3;  // 20 MiB and a little
  auto memory = cuda->allocate(count * sizeof(int)).value();
  const std::vector<int> given = numbers(count, -7);
  std::vector<int> got(count);
  cuda->write(memory->data(), given.data(), count * sizeof(int));
  cuda->read(got.data(), memory->data(), count * sizeof(int));
  ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
  EXPECT_TRUE(got == given);
}

TEST(CudaMemory, many_small_copies_wait_for_the_oldest_and_lose_nothing) {
  auto cuda = fake_gpu();
  auto memory = cuda->allocate(5000 * sizeof(int)).value();
  std::vector<int> got(5000);
  for (int i = 0; i < 5000; ++i) {
    auto* at = memory->data() + static_cast<size_t>(i) * sizeof(int);
    cuda->write(at, &i, sizeof i);
    cuda->read(&got[static_cast<size_t>(i)], at, sizeof i);
  }
  ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
  EXPECT_TRUE(got == numbers(5000, 0));
}

TEST(CudaMemory, a_write_of_what_an_earlier_read_brings_waits_for_it) {
  auto cuda = fake_gpu();
  auto from = cuda->allocate(64).value(), to = cuda->allocate(64).value();
  int number = 41, middle = 0, got = 0;
  cuda->write(from->data(), &number, sizeof number);
  cuda->read(&middle, from->data(), sizeof middle);
  cuda->write(to->data(), &middle, sizeof middle);
  cuda->read(&got, to->data(), sizeof got);
  ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
  EXPECT_EQ(got, 41);
}

TEST(CudaMemory, a_read_shows_at_its_mark_and_not_before_work_is_done) {
  auto cuda = fake_gpu();
  auto memory = cuda->allocate(64).value();
  std::vector<int> got(200, -1);
  std::vector<core::Mark> marks;
  for (int i = 0; i < 200; ++i) {  // more than the queue has events
    cuda->write(memory->data(), &i, sizeof i);
    cuda->read(&got[static_cast<size_t>(i)], memory->data(), sizeof i);
    marks.push_back(cuda->mark());
  }
  EXPECT_EQ(cuda->mark().number, marks.back().number) << "no work since";
  EXPECT_EQ(got.back(), -1);
  ASSERT_TRUE(cuda->wait(marks[150]).ok());
  EXPECT_TRUE(cuda->reached(marks[3]));
  for (size_t i = 0; i <= 150; ++i) EXPECT_EQ(got[i], static_cast<int>(i));
  while (!cuda->reached(marks.back())) {
  }
  EXPECT_EQ(got, numbers(200, 0));
}

TEST(CudaMemory, too_much_is_refused_with_its_bytes) {
  auto cuda = fake_gpu();
  const auto memory = cuda->allocate(size_t{1} << 40);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(memory.error().message, ::testing::HasSubstr("the GPU has no room for 1099511627776 bytes"));
}

// Arithmetic over arenas: the bits of the host.

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
  std::unique_ptr<core::Backend> cuda_ = fake_gpu();
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

// A device that breaks.

class BrokenDevice : public ::testing::Test {
 protected:
  ~BrokenDevice() override {
    fake_cuda_fail_after(-1);
    fake_cuda_mend();
  }
};

TEST_F(BrokenDevice, every_wait_says_so_and_nothing_hangs) {
  {
    auto cuda = fake_gpu();
    const core::Graph graph = models::linear_regression(4);
    Bench bench(graph, *cuda);
    fake_cuda_fail_after(1);
    static_cast<void>(bench.program().forward(bench.context, bench.abort));
    for (int i = 0; i < 2; ++i) {
      const Status waited = cuda->wait(cuda->mark());
      ASSERT_FALSE(waited.ok());
      EXPECT_EQ(waited.error().code, ErrorCode::kExhausted);
      EXPECT_THAT(waited.error().message, ::testing::HasSubstr("GPU 0 ("));
      EXPECT_THAT(waited.error().message, ::testing::HasSubstr("failed"));
    }
    int number = 7;
    cuda->read(&number, static_cast<std::byte*>(bench.program().data(0)), sizeof number);
    EXPECT_FALSE(cuda->reached(cuda->mark()));
    EXPECT_EQ(number, 7) << "nothing of a lost device arrives";
  }
  fake_cuda_fail_after(-1);
  fake_cuda_mend();
  EXPECT_EQ(fake_cuda_pinned_bytes(), 0u);
}

TEST_F(BrokenDevice, an_update_on_it_ends_the_process_with_a_code_that_may_be_tried_again) {
  const core::Graph graph = models::linear_regression(4);
  const core::Layout layout = core::lay_out(graph);
  const auto update = [&] {
    auto cuda = fake_gpu();
    const size_t bytes = layout.count * sizeof(float);
    auto parameters = cuda->allocate(bytes).value(), gradients = cuda->allocate(bytes).value();
    auto slot = cuda->allocate(bytes).value();
    void* const slots[] = {slot->data()};
    fake_cuda_fail_after(0);
    cuda->update({.rule = core::Sgd{}, .schedule = {.peak = 0.1}},
                 {.layout = &layout, .parameters = parameters->data(), .gradients = gradients->data(), .slots = slots});
  };
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(update(), ::testing::ExitedWithCode(75), "the optimizer's update did not end: GPU 0 ");
}

TEST(MakeCudaBackend, a_missing_library_is_one_sentence) {
  auto options = testing::on_fake();
  options.cublaslt = "/nowhere/libcublasLt.so";
  EXPECT_EQ(backend::make_cuda_backend(options).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(backend::make_cuda_backend(options).error().message, ::testing::HasSubstr("--cublaslt-library"));
  options = testing::on_fake();
  options.cudart = "/nowhere/libcudart.so";
  EXPECT_THAT(backend::make_cuda_backend(options).error().message, ::testing::HasSubstr("--cudart-library"));
}

}  // namespace
}  // namespace lockstep::trainer
