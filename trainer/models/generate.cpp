#include "trainer/models/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "trainer/core/random.h"

namespace lockstep::trainer::models {

namespace {

// Draws from softmax(scores / temperature) with the uniform number `u`.
size_t draw(const std::vector<double>& scores, double temperature, double u) {
  auto best = std::max_element(scores.begin(), scores.end());
  if (temperature <= 0) return static_cast<size_t>(best - scores.begin());
  std::vector<double> weights(scores.size());
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) sum += weights[i] = std::exp((scores[i] - *best) / temperature);
  double left = u * sum;
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return i;
  }
  return static_cast<size_t>(best - scores.begin());
}

// The length of the run of the last token at the end.
std::int64_t run_at_the_end(const std::vector<std::uint8_t>& tokens) {
  auto other = std::find_if(tokens.rbegin(), tokens.rend(), [&](std::uint8_t t) { return t != tokens.back(); });
  return other - tokens.rbegin();
}

}  // namespace

Result<std::vector<std::uint8_t>> generate(core::Program& program, const GenerateOptions& options,
                                           const std::atomic<bool>& abort) {
  const core::Graph& graph = program.graph();
  std::vector<core::TensorId> inputs = graph.with_role(core::Role::kInput);
  auto context = static_cast<size_t>(graph.tensor(inputs[0]).shape[1]);
  const core::TensorId scores_id = graph.output("scores");
  auto vocabulary = static_cast<size_t>(graph.tensor(scores_id).shape[1]);
  core::Backend& backend = program.backend();
  auto* characters = static_cast<std::byte*>(program.data(inputs[0]));  // targets keep the zeros that they begin with
  const auto* output = static_cast<const std::byte*>(program.data(scores_id));
  const size_t width = core::size_of(backend.real());
  std::vector<std::int32_t> window(context);
  std::vector<std::byte> last(vocabulary * width);  // scores after the last character

  std::uint64_t key = core::derive(options.seed, "generate");
  std::vector<std::uint8_t> tokens = options.prompt;
  std::vector<double> scores(vocabulary);
  for (std::int64_t n = 0; n < options.count; ++n) {
    size_t used = std::min(tokens.size(), context);
    std::fill_n(window.begin(), context, 0);  // causal attention hides what follows the last character
    std::copy_n(tokens.end() - static_cast<std::ptrdiff_t>(used), used, window.begin());
    backend.write(characters, window.data(), context * sizeof(std::int32_t));
    core::RunContext run{.mode = core::RunContext::Mode::kEvaluate};
    LOCKSTEP_CHECK_OK(program.forward(run, abort));
    backend.read(last.data(), output + (used - 1) * last.size(), last.size());
    LOCKSTEP_CHECK_OK(backend.wait(backend.mark()));
    for (size_t i = 0; i < vocabulary; ++i) {
      scores[i] = core::real_at(last.data(), backend.real(), i);
    }
    if (run_at_the_end(tokens) >= options.longest_run) scores[tokens.back()] = -std::numeric_limits<double>::infinity();
    double u = core::uniform(key, static_cast<std::uint64_t>(n));
    tokens.push_back(static_cast<std::uint8_t>(draw(scores, options.temperature, u)));
  }
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(options.prompt.size()));
  return tokens;
}

}  // namespace lockstep::trainer::models
