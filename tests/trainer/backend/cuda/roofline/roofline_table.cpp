#include "tests/trainer/backend/cuda/roofline/roofline_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/trainer/backend/cuda/roofline/step_work.h"
#include "trainer/models/char_transformer.h"
#include "trainer/models/registry.h"

namespace lockstep::trainer::testing {

namespace {

using backend::Precision;

constexpr std::int64_t kSamples = 256;
constexpr size_t kKinds = 3;  // named of each row

// The width and depth of GPT-2 small, over the characters of English text.
const models::CharTransformerOptions kTransformer{
    .batch = kSamples, .vocabulary = 65, .context = 256, .layers = 12, .width = 768, .heads = 12};

struct Trained {
  std::string model;
  core::Graph graph;
  int slots = 1;  // of the default recipe's optimizer
};

std::vector<Trained> trained_models() {
  std::vector<Trained> trained;
  for (const char* name : {"resnet50", "mobilenet-v2", "resnet18", "vgg-a"}) {
    const models::Model& model = *models::find_model(name);
    trained.push_back({name, model.graph(models::settle(model, {}).value(), {}, kSamples)});
  }
  trained.push_back({"char-transformer", models::char_transformer(kTransformer), 2});
  return trained;
}

// What the backend is meant to reach: samples per second in bfloat16.
struct Aim {
  const char* model;
  const char* gpu;
  double samples;
};
constexpr Aim kAims[] = {{"resnet50", "H100", 4100},
                         {"resnet50", "H200", 4600},
                         {"mobilenet-v2", "H100", 9000},
                         {"mobilenet-v2", "H200", 9000}};

// A model in a precision.
struct Case {
  const Trained& trained;
  Precision precision;
  std::vector<Work> plain, fused;

  Case(const Trained& of, Precision in)
      : trained(of),
        precision(in),
        plain(works_of_step(of.graph, in, of.slots, Fused::kNo)),
        fused(works_of_step(of.graph, in, of.slots, Fused::kYes)) {}
  std::string name() const {
    return fmt::format("{:<17}{}", trained.model, precision == Precision::kBfloat16 ? "bf16" : "fp32");
  }
};

double total(const std::vector<Work>& works, double Work::*part) {
  return std::accumulate(works.begin(), works.end(), 0.0,
                         [part](double sum, const Work& work) { return sum + work.*part; });
}

double samples_per_second(const Bound& bound) {
  return static_cast<double>(kSamples) / bound.seconds;
}

double percent(double part, double whole) {
  return 100 * part / whole;
}

std::string costliest(const Bound& bound) {
  std::vector<std::pair<double, std::string>> kinds;
  for (const auto& [kind, seconds] : bound.kinds) kinds.emplace_back(seconds, kind);
  std::sort(kinds.rbegin(), kinds.rend());
  kinds.resize(std::min(kinds.size(), kKinds));
  std::vector<std::string> named;
  for (const auto& [seconds, kind] : kinds) {
    named.push_back(fmt::format("{} {:.0f} %", kind, percent(seconds, bound.seconds)));
  }
  return fmt::format("{}", fmt::join(named, ", "));
}

std::string work_row(const Case& of) {
  constexpr double kSamplesInGiga = kSamples * 1e9, kSamplesInMega = kSamples * 1e6;
  return fmt::format("{} {:>9.1f} {:>9.0f} {:>9.0f}\n", of.name(), total(of.plain, &Work::flops) / kSamplesInGiga,
                     total(of.plain, &Work::bytes) / kSamplesInMega, total(of.fused, &Work::bytes) / kSamplesInMega);
}

std::string bound_row(const Case& of, const Gpu& gpu) {
  const Bound plain = bound_of(of.plain, gpu), fused = bound_of(of.fused, gpu);
  return fmt::format("{} {} {:>7.0f} {:>7.0f} {:>5.0f} %  {}\n", of.name(), gpu.name, samples_per_second(plain),
                     samples_per_second(fused), percent(plain.memory_seconds, plain.seconds), costliest(plain));
}

std::string aim_rows(const Case& of, const Gpu& gpu) {
  std::string rows;
  for (const Aim& aim : kAims) {
    if (of.precision != Precision::kBfloat16 || aim.model != of.trained.model || aim.gpu != std::string(gpu.name)) {
      continue;
    }
    rows += fmt::format("{} {} {:>7.0f} {:>5.0f} %\n", of.name(), gpu.name, aim.samples,
                        percent(aim.samples, samples_per_second(bound_of(of.plain, gpu))));
  }
  return rows;
}

}  // namespace

std::string roofline_table() {
  const std::vector<Trained> trained = trained_models();
  std::vector<Case> cases;
  for (const Trained& one : trained) {
    for (const Precision precision : {Precision::kBfloat16, Precision::kFloat32}) cases.emplace_back(one, precision);
  }
  std::string table = fmt::format(
      "# `make cuda-roofline` prints this file: bounds by arithmetic, measured on no GPU. Micro-batches of {} "
      "samples,\n"
      "# one a step, on one GPU. char-transformer: {} layers, width {}, {} characters. fp32: without TF32.\n"
      "# GPU: Tflop/s of bf16 on tensor cores and of fp32, TB/s of memory.\n",
      kSamples, kTransformer.layers, kTransformer.width, kTransformer.context);
  for (const Gpu& gpu : kGpus) {
    table += fmt::format("# {} {:g} {:g} {:g}\n", gpu.name, gpu.tensor_flops / 1e12, gpu.float_flops / 1e12,
                         gpu.bandwidth / 1e12);
  }
  table += "\n# Of a sample: Gflop of products, MB read and written, MB with bias and ReLU in the convolution.\n";
  for (const Case& one : cases) table += work_row(one);
  table += "\n# Samples per second at most; with this fusion; the share of time that memory bounds; costliest kinds.\n";
  for (const Case& one : cases) {
    for (const Gpu& gpu : kGpus) table += bound_row(one, gpu);
  }
  table += "\n# Samples per second aimed at; as a share of the bound.\n";
  for (const Case& one : cases) {
    for (const Gpu& gpu : kGpus) table += aim_rows(one, gpu);
  }
  return table;
}

}  // namespace lockstep::trainer::testing
