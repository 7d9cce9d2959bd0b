#include "trainer/backend/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <omp.h>
#include <dnnl.hpp>

#include <utility>

#include "trainer/backend/cpu/fusion.h"
#include "trainer/backend/cpu/kernel.h"
#include "trainer/backend/cpu/primitive.h"
#include "trainer/backend/host_backend.h"

namespace lockstep::trainer::backend {

namespace cpu {

bool can_run(const RowKernels& kernels) {
  __builtin_cpu_init();
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
  if (&kernels == &row_kernels_v4) return v4;
  if (&kernels == &row_kernels_v3) return v3;
  return true;
}

const RowKernels& best_kernels() {
  if (can_run(row_kernels_v4)) return row_kernels_v4;
  return can_run(row_kernels_v3) ? row_kernels_v3 : row_kernels_baseline;
}

}  // namespace cpu

namespace {

const char* instructions_of_library() {
  if (cpu::library_has(dnnl_cpu_isa_avx512_core)) return "avx512";
  if (cpu::library_has(dnnl_cpu_isa_avx2)) return "avx2";
  if (cpu::library_has(dnnl_cpu_isa_avx)) return "avx";
  return "sse41";
}

class CpuBackend final : public HostBackend {
 public:
  CpuBackend(int threads, const cpu::RowKernels& kernels) : threads_(threads), kernels_(kernels) {}

  const char* name() const override { return "cpu"; }
  core::ElementType real() const override { return core::ElementType::kFloat32; }
  int threads() const override { return threads_; }
  std::string numerics() const override {
    const dnnl_version_t* version = dnnl_version();
    return fmt::format("cpu/float32/onednn-{}.{}.{}-{}/loops-{}.{}/threads-{}", version->major, version->minor,
                       version->patch, instructions_of_library(), kernels_.name, cpu::kKernelsRevision, threads_);
  }
  Result<core::Lowered> lower(const core::Graph& graph, bool trains) override {
    enter();  // the library plans for the number of threads that is set
    return planned([&](const core::Node*& current) {
      return lower_nodes(graph, trains, real(), cpu::runs_of(graph), [&](const Run& run) {
        current = &cpu::main_node(graph, run);
        return cpu::needs_of(graph, run, team());
      });
    });
  }
  Result<std::unique_ptr<core::Executable>> bind(const core::Graph& graph, const core::Lowered& lowered,
                                                 const core::Addresses& addresses) override {
    enter();
    return planned([&](const core::Node*& current) {
      return bind_nodes(graph, lowered, addresses, [&](const Run& run, Bindings bindings) {
        const core::Node& node = cpu::main_node(graph, run);
        current = &node;
        NodeSite at{.graph = graph, .node = node, .bindings = std::move(bindings)};
        cpu::Site site{.at = std::move(at), .team = team()};
        return cpu::make_kernel(run, std::move(site));
      });
    });
  }
  // The number of threads is a property of the calling thread, both for our kernels and for oneDNN's.
  void enter() override {
    if (omp_get_max_threads() != threads_) omp_set_num_threads(threads_);
  }

 private:
  cpu::Team team() const { return {.threads = static_cast<size_t>(threads_), .kernels = kernels_}; }

  // Runs plan(node), which sets `node` to the node that it plans. A dnnl::error becomes an Error that names that node.
  template <typename Plan>
  static auto planned(const Plan& plan) -> Result<decltype(plan(std::declval<const core::Node*&>()))> {
    const core::Node* node = nullptr;
    try {
      return plan(node);
    } catch (const dnnl::error& error) {
      return fail(error.status == dnnl_out_of_memory ? ErrorCode::kExhausted : ErrorCode::kInternal,
                  fmt::format("layer '{}': oneDNN cannot plan this layer: {}", node == nullptr ? "" : node->name,
                              error.what()));
    }
  }

  int threads_;
  const cpu::RowKernels& kernels_;
};

}  // namespace

Result<std::unique_ptr<core::Backend>> make_cpu_backend(int threads, const cpu::RowKernels& kernels) {
  if (threads < 1) return fail(ErrorCode::kInvalid, "a micro-batch needs at least one thread");
  if (threads > omp_get_thread_limit()) {
    return fail(ErrorCode::kInvalid, fmt::format("OMP_THREAD_LIMIT allows {} threads, but {} are asked for",
                                                 omp_get_thread_limit(), threads));
  }
  omp_set_dynamic(0);  // exactly as many threads as asked for
  return std::unique_ptr<core::Backend>(std::make_unique<CpuBackend>(threads, kernels));
}

}  // namespace lockstep::trainer::backend
