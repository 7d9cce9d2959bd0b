#include "trainer/backend/ref/ref_backend.h"

#include <utility>

#include "trainer/backend/host_memory.h"

namespace lockstep::trainer::backend {

namespace {

class RefBackend final : public core::Backend {
 public:
  const char* name() const override { return "ref"; }
  core::ElementType real() const override { return core::ElementType::kFloat64; }
  int threads() const override { return 1; }
  std::string numerics() const override { return "ref/float64/threads-1"; }
  Result<std::unique_ptr<core::Memory>> allocate(size_t bytes) override { return HostMemory::allocate(bytes); }
  Result<std::unique_ptr<core::Kernel>> compile(const core::Graph& graph, const core::Node& node,
                                                core::Bindings bindings) override {
    return ref::make_kernel(graph, node, std::move(bindings));
  }
  void enter() override {}
};

}  // namespace

Result<std::unique_ptr<core::Backend>> make_ref_backend() {
  return std::unique_ptr<core::Backend>(std::make_unique<RefBackend>());
}

}  // namespace lockstep::trainer::backend
