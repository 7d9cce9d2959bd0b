// One training step of each network on `ref`, against what PyTorch computes in float64 from the same numbers
// (pytorch/make_fixtures.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "trainer/backend/make_backend.h"
#include "trainer/comm/single_rank_communicator.h"
#include "trainer/core/program.h"
#include "trainer/core/random.h"
#include "trainer/core/step.h"
#include "trainer/models/char_transformer.h"
#include "trainer/models/mlp.h"
#include "trainer/models/mobilenet_v2.h"
#include "trainer/models/resnet.h"
#include "trainer/models/vgg_a.h"
#include "trainer/sync/all_reduce.h"

namespace lockstep::trainer::models {
namespace {

constexpr std::uint64_t kSeed = 17;
constexpr double kTolerance = 1e-8;  // of a tensor's norm
constexpr double kZero = 1e-12;      // the norm of what is zero but for rounding

// The same numbers as pytorch/hashing.py.
std::uint64_t key_of(std::string_view name) {
  return core::derive(kSeed, name);
}

double hashed(std::uint64_t key, size_t i) {
  return 2 * core::uniform(key, i) - 1;
}

void fill(const core::Segment& segment, double* values) {
  const std::uint64_t key = key_of(segment.name);
  const auto ends_with = [&](std::string_view end) { return segment.name.ends_with(end); };
  const double fan_in = static_cast<double>(core::count_of(segment.shape) / segment.shape[0]);
  for (size_t i = 0; i < segment.count; ++i) {
    const double value = hashed(key, i);
    if (ends_with(".gain") || ends_with(".running_variance")) {
      values[i] = 1 + value / 4;
    } else {
      values[i] = segment.shape.size() == 1 ? value / 4 : value * std::sqrt(6 / fan_in);
    }
  }
}

void fill(const core::Tensor& input, std::int32_t classes, std::byte* to) {
  const std::uint64_t key = key_of(input.name);
  for (size_t i = 0; i < static_cast<size_t>(core::count_of(input.shape)); ++i) {
    if (input.number == core::Number::kIndex) {
      reinterpret_cast<std::int32_t*>(to)[i] =
          static_cast<std::int32_t>(core::derive(key, i) % static_cast<std::uint64_t>(classes));
    } else {
      reinterpret_cast<double*>(to)[i] = hashed(key, i);
    }
  }
}

// What a tensor should be.
struct Expected {
  size_t count = 0;
  double norm = 0;
  std::vector<double> values;  // at place_of()

  size_t place_of(size_t k) const {
    return count == values.size() ? k : core::derive(key_of("sample"), k) % static_cast<std::uint64_t>(count);
  }
};

// By "kind name".
std::map<std::string, Expected> read_fixture(const std::string& network) {
  std::ifstream file(LOCKSTEP_PYTORCH_FIXTURES "/" + network + ".txt");
  std::map<std::string, Expected> tensors;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string kind, name;
    Expected tensor;
    words >> kind >> name >> tensor.count >> tensor.norm;
    for (double value = 0; words >> value;) tensor.values.push_back(value);
    tensors.emplace(kind + " " + name, tensor);
  }
  return tensors;
}

// One batch, again and again.
class OneBatch final : public core::SampleSource {
 public:
  OneBatch(const core::Graph& graph, std::int32_t classes) {
    for (core::TensorId id : graph.with_role(core::Role::kInput)) {
      const core::Tensor& tensor = graph.tensor(id);
      blocks_.emplace_back(core::bytes_of(tensor, core::ElementType::kFloat64));
      fill(tensor, classes, blocks_.back().data());
    }
  }
  Result<core::Batch> take(std::int64_t, std::int64_t, const std::atomic<bool>&) override {
    return core::Batch({blocks_.begin(), blocks_.end()}, nullptr);
  }
  std::int64_t held_out() const override { return 0; }
  Result<core::Batch> take_held_out(std::int64_t, std::int64_t, const std::atomic<bool>&) override {
    return fail(ErrorCode::kInternal, "nothing is held out");
  }

 private:
  std::vector<std::vector<std::byte>> blocks_;
};

struct Network {
  const char* name;
  std::function<core::Graph()> graph;
  std::int32_t classes = 10;  // or words
};

class PyTorch : public ::testing::TestWithParam<Network> {
 protected:
  // `values`: `count` of them.
  void compare(const std::string& tensor, const double* values, size_t count) {
    const auto found = fixture_.find(tensor);
    ASSERT_NE(found, fixture_.end()) << tensor;
    const Expected& expected = found->second;
    ASSERT_EQ(count, expected.count) << tensor;
    double squares = 0;
    for (size_t i = 0; i < count; ++i) squares += values[i] * values[i];
    if (expected.norm == 0) {
      EXPECT_LE(std::sqrt(squares), kZero) << tensor;
      fixture_.erase(found);
      return;
    }
    const auto check = [&](double value, double wanted) {
      const double difference = std::fabs(value - wanted) / expected.norm;
      if (!(difference <= worst_)) worst_ = difference;
      return difference <= kTolerance;
    };
    EXPECT_TRUE(check(std::sqrt(squares), expected.norm))
        << tensor << ": norm " << std::sqrt(squares) << ", not " << expected.norm;
    for (size_t k = 0; k < expected.values.size(); ++k) {
      const size_t at = expected.place_of(k);
      ASSERT_TRUE(check(values[at], expected.values[k]))
          << tensor << "[" << at << "] is " << values[at] << ", not " << expected.values[k] << ", in a tensor of norm "
          << expected.norm;
    }
    fixture_.erase(found);
  }

  std::map<std::string, Expected> fixture_;  // what was not compared yet
  double worst_ = 0;                         // difference, relative to a tensor's norm
};

TEST_P(PyTorch, one_step_has_its_scores_loss_gradients_and_statistics) {
  fixture_ = read_fixture(GetParam().name);
  const core::Graph graph = GetParam().graph();
  auto backend = backend::make_backend("ref", 1).value();
  OneBatch source(graph, GetParam().classes);
  const std::atomic<bool> abort{false};

  // At a learning rate of 1 without momentum, a step subtracts the gradient.
  const core::Optimizer optimizer{.rule = core::Sgd{.momentum = 0}, .schedule = {.peak = 1}};
  comm::SingleRankCommunicator alone;
  sync::AllReduce all_reduce({});
  auto replica = core::Replica::create({graph, *backend, optimizer, source, all_reduce, alone}, {}, abort).value();
  std::vector<double> before(replica->layout().count);
  for (const core::Segment& segment : replica->layout().segments) fill(segment, before.data() + segment.offset);
  auto* parameters = reinterpret_cast<double*>(replica->state().parameters->data());
  std::copy(before.begin(), before.end(), parameters);
  for (const core::Segment& segment : replica->layout().statistics) {
    fill(segment, replica->state().statistics.data() + segment.offset);
  }
  replica->state().changed();

  // The scores, by a program of its own.
  std::vector<double> gradients(before.size()), staged(replica->state().statistics.size());
  auto program = core::Program::compile(graph, *backend,
                                        {.layout = &replica->layout(),
                                         .parameters = reinterpret_cast<std::byte*>(before.data()),
                                         .gradients = reinterpret_cast<std::byte*>(gradients.data()),
                                         .statistics = replica->state().statistics.data(),
                                         .staged_statistics = staged.data()})
                     .value();
  for (core::TensorId id : graph.with_role(core::Role::kInput)) {
    fill(graph.tensor(id), GetParam().classes, static_cast<std::byte*>(program->data(id)));
  }
  ASSERT_TRUE(program->forward({}, abort).ok());
  const core::Tensor& scores = graph.tensor(graph.outputs[0].tensor);
  compare("scores scores", static_cast<const double*>(program->data(graph.outputs[0].tensor)),
          static_cast<size_t>(core::count_of(scores.shape)));

  const auto report = replica->step({});
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_TRUE(report->committed);
  compare("loss loss", &report->loss, 1);
  for (const core::Segment& segment : replica->layout().segments) {
    std::vector<double> gradient(segment.count);
    for (size_t i = 0; i < segment.count; ++i) {
      gradient[i] = before[segment.offset + i] - parameters[segment.offset + i];
    }
    compare("gradient " + segment.name, gradient.data(), segment.count);
  }
  for (const core::Segment& segment : replica->layout().statistics) {
    compare("statistic " + segment.name, replica->state().statistics.data() + segment.offset, segment.count);
  }
  for (const auto& [tensor, expected] : fixture_) ADD_FAILURE() << "the network lacks " << tensor;
  std::printf("%s: largest difference %.1e of a tensor's norm\n", GetParam().name, worst_);
}

INSTANTIATE_TEST_SUITE_P(
    Networks, PyTorch,
    ::testing::Values(
        Network{"mlp", [] { return mlp({.batch = 8, .features = 6, .width = 12, .layers = 2, .classes = 5}); }, 5},
        Network{"char-transformer",
                [] {
                  return char_transformer(
                      {.batch = 2, .vocabulary = 11, .context = 8, .layers = 2, .width = 16, .heads = 4});
                },
                11},
        Network{"resnet18-cifar",
                [] {
                  return resnet18(
                      {.batch = 4, .pixels = 32, .classes = 10, .width = 16, .stem = ResNetOptions::Stem::kCifar});
                }},
        Network{"resnet18", [] { return resnet18({.batch = 4, .pixels = 64, .classes = 10, .width = 16}); }},
        Network{"resnet50",
                [] { return resnet50({.batch = 4, .pixels = 64, .classes = 10, .width = 8, .smoothing = 0.1}); }},
        Network{"mobilenet-v2",
                [] { return mobilenet_v2({.batch = 4, .pixels = 64, .classes = 10, .dropout = 0, .smoothing = 0.1}); }},
        Network{"vgg-a", [] { return vgg_a({.batch = 2, .pixels = 32, .classes = 10, .dropout = 0}); }}),
    [](const auto& network) {
      std::string name = network.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace lockstep::trainer::models
