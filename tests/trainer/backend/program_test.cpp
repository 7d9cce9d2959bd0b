#include "trainer/core/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "tests/trainer/backend/bench.h"
#include "tests/trainer/backend/heads.h"
#include "tests/trainer/backend/image_layers.h"
#include "tests/trainer/backend/layer_checks.h"
#include "tests/trainer/backend/layers.h"
#include "trainer/backend/make_backend.h"
#include "trainer/models/char_transformer.h"
#include "trainer/models/mobilenet_v2.h"
#include "trainer/models/resnet.h"

namespace lockstep::trainer {
namespace {

using testing::Bench;

core::Graph small_transformer() {
  return models::char_transformer(
      {.batch = 2, .vocabulary = 13, .context = 8, .layers = 3, .width = 16, .heads = 2, .dropout = 0.1});
}

TEST(Program, shared_memory_changes_no_bit_and_saves_most_of_the_bytes) {
  auto backend = backend::make_backend("cpu", 1).value();
  core::Graph graph = small_transformer();
  Bench shared(graph, *backend, 13), apart(graph, *backend, 13, {.share_memory = false});
  EXPECT_EQ(shared.gradient(), apart.gradient());
  EXPECT_EQ(shared.gradient(), apart.gradient()) << "and again over memory that is no longer zero";
  EXPECT_LT(shared.program().arena_bytes(), apart.program().arena_bytes() * 3 / 4);
}

constexpr int kThreads = 2;

TEST(Recompute, changes_no_bit_of_any_layer) {
  for (const char* name : {"cpu", "ref"}) {
    auto backend = backend::make_backend(name, kThreads).value();
    testing::expect_the_same_bits_of_cheap_layers(*backend);
    for (const auto& layers : {testing::layer_cases(5, 4), testing::image_layer_cases(5, 4)}) {
      for (const testing::LayerCase& layer : layers) {
        testing::expect_the_same_bits_recomputed(layer.name, layer.graph(), layer.classes, *backend);
      }
    }
  }
}

TEST(Recompute, changes_no_bit_of_a_network_and_saves_memory) {
  for (const char* name : {"cpu", "ref"}) {
    auto backend = backend::make_backend(name, kThreads).value();
    testing::expect_less_memory_recomputed("char-transformer", small_transformer(), 13, *backend, 0.95);
    testing::expect_less_memory_recomputed(
        "resnet50", models::resnet50({.batch = 2, .pixels = 64, .classes = 5, .width = 4}), 5, *backend, 0.8);
    testing::expect_less_memory_recomputed(
        "mobilenet-v2", models::mobilenet_v2({.batch = 2, .pixels = 32, .classes = 5}), 5, *backend, 0.75);
  }
}

TEST(Program, an_abort_ends_it_between_nodes) {
  auto backend = backend::make_backend("ref", 1).value();
  core::Graph graph = small_transformer();
  Bench bench(graph, *backend, 13);
  bench.abort = true;
  EXPECT_EQ(bench.program().forward(bench.context, bench.abort).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(bench.program().backward(bench.context, bench.abort).error().code, ErrorCode::kCancelled);
}

TEST(Program, gradients_add_up_over_micro_batches) {
  auto backend = backend::make_backend("ref", 1).value();
  core::Graph graph = small_transformer();
  Bench bench(graph, *backend, 13);
  std::vector<double> once = bench.gradient();
  ASSERT_TRUE(bench.program().forward(bench.context, bench.abort).ok());
  ASSERT_TRUE(bench.program().backward(bench.context, bench.abort).ok());  // a second time, without clearing
  const auto& first = bench.layout().segments.front();
  auto* twice = static_cast<double*>(static_cast<void*>(bench.gradient_data()));
  EXPECT_DOUBLE_EQ(twice[first.offset], 2 * once[first.offset]);
}

// Two layers of one weight, and one with a weight of its own.
core::Graph tied_layers() {
  core::GraphBuilder build(5);
  const core::TensorId x = build.real_input("x", {5, 6});
  const core::TensorId a = core::ops::linear(build, "first", x, 6, true, 0, "tied");
  const core::TensorId b = core::ops::linear(build, "second", a, 6, true, 0, "tied");
  const core::TensorId y = core::ops::linear(build, "own", b, 3);
  return build.finish(y, core::ops::mean_squared_error(build, "loss", y, build.real_input("target", {5, 3})));
}

TEST(Overwriting, computes_the_bits_of_adding_to_zeros) {
  auto backend = backend::make_backend("cpu", kThreads).value();
  std::vector<testing::LayerCase> layers = testing::layer_cases(5, 4);
  layers.push_back({"large linear", [] {
                      core::GraphBuilder build(300);  // a sum that threads may share
                      const core::TensorId y = core::ops::linear(build, "y", build.real_input("x", {300, 512}), 512);
                      const core::TensorId target = build.real_input("target", {300, 512});
                      return build.finish(y, core::ops::mean_squared_error(build, "loss", y, target));
                    }});
  for (const testing::LayerCase& layer : layers) {
    const core::Graph graph = layer.graph();
    Bench bench(graph, *backend, layer.classes);
    const std::vector<double> expected = bench.gradient();
    EXPECT_EQ(bench.overwritten_gradient(), expected) << layer.name;
  }
}

TEST(Overwriting, adds_to_a_parameter_of_several_layers) {
  const core::Graph graph = tied_layers();
  auto backend = backend::make_backend("cpu", 1).value();
  Bench bench(graph, *backend);
  const auto is_added = [&](const core::Segment& segment) {
    const auto& added = bench.program().added();
    return std::any_of(added.begin(), added.end(), [&](core::Range range) {
      return range.begin <= segment.offset && segment.offset + segment.count <= range.end;
    });
  };
  for (const core::Segment& segment : bench.layout().segments) {
    EXPECT_EQ(is_added(segment), segment.name != "own.weight") << segment.name;
  }
  const std::vector<double> expected = bench.gradient();
  EXPECT_EQ(bench.overwritten_gradient(), expected);
}

TEST(Program, no_step_writes_to_a_bucket_that_is_ready) {
  auto backend = backend::make_backend("cpu", 1).value();
  for (const testing::LayerCase& layer : testing::layer_cases(5, 4)) {
    core::Graph graph = layer.graph();
    Bench bench(graph, *backend, layer.classes);
    const core::Layout layout = core::lay_out(graph, {.first_bytes = 1, .bytes = 1});  // a bucket for each tensor
    const std::vector<double> complete = bench.gradient();
    std::memset(bench.gradient_data(), 0, layout.count * sizeof(float));
    bench.loss();
    for (size_t step = bench.program().steps(); step-- > 0;) {
      ASSERT_TRUE(bench.program().backward(step, bench.context, bench.abort).ok());
      for (const core::Bucket& bucket : layout.buckets) {
        if (bucket.ready_node < bench.program().done_from(step)) continue;
        for (size_t i = bucket.begin; i < bucket.end; ++i) {
          ASSERT_EQ(bench.get(bench.gradient_data(), i), complete[i])
              << layer.name << ": " << layout.segments[bucket.first_segment].name << " after step " << step;
        }
      }
    }
  }
}

// The gradient of two micro-batches, from memory that two others have used before.
std::vector<double> gradient_of_two(Bench& bench) {
  bench.gradient();
  bench.gradient();
  bench.loss();
  EXPECT_TRUE(bench.program().backward(bench.context, bench.abort).ok());
  std::vector<double> sums(bench.layout().count);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = bench.get(bench.gradient_data(), i);
  return sums;
}

TEST(Program, outputs_that_no_loss_reads_change_no_bit_of_a_gradient) {
  for (const char* name : {"cpu", "ref"}) {
    auto backend = backend::make_backend(name, 1).value();
    core::Graph plain = testing::with_heads({});
    Bench expected(plain, *backend, testing::kClassesOfHeads);
    const std::vector<double> gradient = gradient_of_two(expected);
    for (const testing::Heads& heads : testing::kHeads) {
      core::Graph graph = testing::with_heads(heads);
      for (bool share_memory : {true, false}) {
        Bench bench(graph, *backend, testing::kClassesOfHeads, {.share_memory = share_memory});
        EXPECT_EQ(gradient_of_two(bench), gradient)
            << name << ", before the loss " << heads.before << ", after it " << heads.after << ", a second loss "
            << heads.second_loss << ", shared memory " << share_memory;
      }
    }
  }
}

// A norm of images, an activation that reads it, and, if `read_twice`, something else that does.
core::Graph norm_of_images(bool read_twice, bool named) {
  core::GraphBuilder build(2);
  auto x = build.parameter("x", {2, 3, 3, 4}, core::Fill::kNormal, 1.0);
  auto normal = core::ops::batch_norm(build, "norm", x);
  auto y = core::ops::relu(build, "relu", normal);
  if (read_twice) y = core::ops::add(build, "sum", y, normal);
  y = core::ops::flatten(build, "flat", y);
  auto loss = core::ops::mean_squared_error(build, "loss", y, build.real_input("target", {2, 36}));
  std::vector<core::NamedOutput> outputs = {{"y", y}};
  if (named) outputs.push_back({"normal", normal});
  return build.finish(std::move(outputs), {{loss}});
}

TEST(Program, cpu_fuses_a_norm_with_its_activation_unless_others_read_the_norm) {
  auto backend = backend::make_backend("cpu", 1).value();
  for (const bool read_twice : {false, true}) {
    for (const bool named : {false, true}) {
      core::Graph graph = norm_of_images(read_twice, named);
      Bench bench(graph, *backend);
      const size_t together = read_twice || named ? 0 : 1;
      EXPECT_EQ(bench.program().steps(), graph.nodes.size() - together) << read_twice << named;
      EXPECT_EQ(bench.program().data(graph.nodes[0].output) == nullptr, together == 1) << read_twice << named;
    }
  }
}

// One linear layer, a batch norm and a loss; when `wide`, its tensors have other numbers.
core::Graph line_of(std::int64_t features, bool wide, const std::string& name = "line") {
  core::GraphBuilder build(2);
  if (wide) build.real_input("other", {2, 7});
  auto x = build.real_input("x", {2, features});
  auto target = build.real_input("target", {2, 3});
  auto y = core::ops::batch_norm(build, "norm", core::ops::linear(build, name, x, 3));
  return build.finish(y, core::ops::mean_squared_error(build, "loss", y, target));
}

// A program that predicts with what `bench` has learnt.
Result<std::unique_ptr<core::Program>> predict(const core::Graph& graph, core::Backend& backend, Bench& bench) {
  return core::Program::compile(graph, backend,
                                {.layout = &bench.layout(),
                                 .parameters = bench.state().parameters->data(),
                                 .statistics = bench.state().statistics.data()});
}

TEST(Program, finds_the_parameters_of_another_graph_by_name) {
  auto backend = backend::make_backend("ref", 1).value();
  core::Graph graph = line_of(5, false), wide = line_of(5, true);
  Bench bench(graph, *backend);
  auto program = predict(wide, *backend, bench);
  ASSERT_TRUE(program.ok()) << program.error().message;
  const auto input = [](const core::Graph& of, size_t i) { return of.with_role(core::Role::kInput)[i]; };
  std::copy_n(static_cast<const double*>(bench.program().data(input(graph, 0))), 2 * 5,
              static_cast<double*>((*program)->data(input(wide, 1))));
  bench.loss(core::RunContext::Mode::kEvaluate);
  ASSERT_TRUE((*program)->forward(bench.context, bench.abort).ok());
  for (size_t i = 0; i < 2 * 3; ++i) {
    EXPECT_EQ(bench.get((*program)->data(wide.output("norm")), i),
              bench.get(bench.program().data(graph.output("norm")), i));
  }
}

TEST(Program, refuses_a_parameter_that_the_state_lacks_or_has_in_another_shape) {
  auto backend = backend::make_backend("ref", 1).value();
  core::Graph graph = line_of(5, false), other = line_of(5, false, "curve"), larger = line_of(6, false);
  Bench bench(graph, *backend);
  EXPECT_EQ(predict(other, *backend, bench).error().message, "the state has no 'curve.weight', which the graph needs");
  EXPECT_EQ(predict(larger, *backend, bench).error().message,
            "'line.weight' has the shape (3, 5) in the state, but (3, 6) in the graph");
  EXPECT_EQ(predict(larger, *backend, bench).error().code, ErrorCode::kInvalid);
}

TEST(Program, an_index_out_of_range_ends_it_with_its_layer_and_row) {
  for (const char* name : {"cpu", "ref"}) {
    auto backend = backend::make_backend(name, 1).value();
    core::Graph graph = small_transformer();
    const auto inputs = graph.with_role(core::Role::kInput);
    for (std::int32_t wrong : {13, 1001, -1, std::numeric_limits<std::int32_t>::min()}) {
      Bench bench(graph, *backend, 13);
      for (size_t i = 0; i < 2; ++i) {
        auto& index = static_cast<std::int32_t*>(bench.program().data(inputs[i]))[9];
        const std::int32_t right = std::exchange(index, wrong);
        const std::string sentence = "layer '" + std::string(i == 0 ? "embedding" : "loss") + "': the index " +
                                     std::to_string(wrong) + " of row 9 is not in [0, 13)";
        Status forward = bench.program().forward(bench.context, bench.abort);
        ASSERT_FALSE(forward.ok()) << sentence;
        EXPECT_EQ(forward.error().message, sentence);
        EXPECT_EQ(forward.error().code, ErrorCode::kCorrupt);
        EXPECT_EQ(bench.program().backward(bench.context, bench.abort).error().message, sentence);
        index = right;
      }
      EXPECT_TRUE(bench.program().forward(bench.context, bench.abort).ok());
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer
