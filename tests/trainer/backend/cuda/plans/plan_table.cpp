#include "tests/trainer/backend/cuda/plans/plan_table.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace lockstep::trainer::testing {

Result<std::string> plan_table(const cuda::Dnn& dnn) {
  const size_t version = dnn.get_version();
  std::string table = fmt::format(
      "# `make cuda-plans` prints this file: cuDNN {}.{}.{}, micro-batches of {} samples. fp32: without TF32.\n"
      "# tf32: with or without TF32, as the heuristics prefer. All have sums in float32 and are deterministic.\n"
      "# Columns: the first model and layer that have it, images, weights, stride, padding, precision, result;\n"
      "# for",
      version / 10000, version / 100 % 100, version % 100, kPlannedSamples);
  for (const DescribedGpu& gpu : kDescribedGpus) table += fmt::format(" {},", gpu.name);
  table += " each: the engine's number and its workspace in KiB.\n";

  const std::vector<ModelPass> passes = passes_of_models();
  std::vector<std::string> rows;
  for (const ModelPass& pass : passes) rows.push_back(row_of(pass));
  for (const DescribedGpu& gpu : kDescribedGpus) {
    LOCKSTEP_TRY(const OwnedDescriptor device, describe(dnn, gpu));
    const cuda::DnnPlace place{.dnn = dnn, .device = device.get()};
    for (size_t i = 0; i < passes.size(); ++i) {
      const ModelPass& pass = passes[i];
      auto plan = cuda::ConvolutionPlan::plan(place, pass.shape, pass.pass, pass.adds);
      if (!plan) return plan.error().in(fmt::format("{}: {}, layer '{}'", gpu.name, pass.model, pass.layer));
      rows[i] += fmt::format("{:>4} {:>6}", plan->engine(), (plan->workspace_bytes() + 1023) / 1024);
    }
  }
  for (const std::string& row : rows) table += row + "\n";
  return table;
}

}  // namespace lockstep::trainer::testing
