#include "trainer/peak_speed.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <vector>

#include "trainer/core/layout.h"
#include "trainer/core/program.h"

namespace lockstep::trainer {
namespace {

constexpr std::int64_t kFewestRows = 512;
constexpr std::int64_t kMostRows = 4096;  // a quarter of a GiB, beside the state
constexpr int kProducts = 3;              // that are timed, of each size
constexpr double kLongEnough = 30e-3;     // seconds of a product
constexpr size_t kPatternBytes = 1 << 16;

// (rows, rows) times (rows, rows). A graph has a loss; a forward pass computes it as well, which costs little beside
// the product.
core::Graph product_of(std::int64_t rows) {
  core::GraphBuilder build(rows);
  const auto x = build.real_input("x", {rows, rows});
  const auto y = build.real_input("y", {rows, rows});
  const auto product = core::ops::linear(build, "product", x, rows, false);
  return build.finish(product, core::ops::mean_squared_error(build, "loss", product, y));
}

// Numbers from -1 to 1, because a GPU multiplies zeros faster than others.
void fill(core::Backend& backend, std::byte* to, size_t bytes) {
  static const std::vector<float> narrow = [] {
    std::vector<float> values(kPatternBytes / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 37 % 251) / 125.0F - 1;
    return values;
  }();
  static const std::vector<double> wide(narrow.begin(), narrow.end());
  const bool is_narrow = backend.real() == core::ElementType::kFloat32;
  const auto* pattern = is_narrow ? static_cast<const void*>(narrow.data()) : wide.data();
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(bytes - done, kPatternBytes);
    backend.write(to + done, pattern, part);
    done += part;
  }
}

// The shortest time of a product, in seconds.
Result<double> shortest_product(const core::Graph& graph, core::Backend& backend, const lockstep::Clock& clock) {
  const core::Layout layout = core::lay_out(graph);
  LOCKSTEP_TRY(const auto weight, backend.allocate(layout.count * core::size_of(backend.real())));
  LOCKSTEP_TRY(const auto program,
               core::Program::compile(graph, backend, {.layout = &layout, .parameters = weight->data()}));
  fill(backend, weight->data(), weight->bytes());
  for (const core::TensorId input : graph.with_role(core::Role::kInput)) {
    fill(backend, static_cast<std::byte*>(program->data(input)), core::bytes_of(graph.tensor(input), backend.real()));
  }
  const std::atomic<bool> abort = false;
  const auto multiply = [&]() -> Status {
    LOCKSTEP_CHECK_OK(program->forward({.mode = core::RunContext::Mode::kEvaluate}, abort));
    return backend.wait(backend.mark());
  };
  LOCKSTEP_CHECK_OK(multiply());  // prepares what later ones reuse
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kProducts; ++i) {
    const MonotonicTime begun = clock.now();
    LOCKSTEP_CHECK_OK(multiply());
    shortest = std::min(shortest, std::chrono::duration<double>(clock.now() - begun).count());
  }
  return shortest;
}

}  // namespace

Result<double> peak_flops(core::Backend& backend, const lockstep::Clock& clock) {
  double peak = 0;
  for (std::int64_t rows = kFewestRows; rows <= kMostRows; rows *= 2) {
    const core::Graph graph = product_of(rows);
    const auto shortest = shortest_product(graph, backend, clock);
    if (!shortest && shortest.error().code == ErrorCode::kExhausted && peak > 0) break;
    if (!shortest) return shortest.error();
    const double seconds = *shortest;
    if (seconds > 0) peak = std::max(peak, core::flops_of(graph).forward / seconds);
    if (seconds >= kLongEnough) break;
  }
  return peak;
}

}  // namespace lockstep::trainer
