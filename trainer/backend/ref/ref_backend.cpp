#include "trainer/backend/ref/ref_backend.h"

#include <utility>
#include <variant>

#include "trainer/backend/host_backend.h"
#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend {

namespace {

class RefBackend final : public HostBackend {
 public:
  const char* name() const override { return "ref"; }
  core::ElementType real() const override { return core::ElementType::kFloat64; }
  int threads() const override { return 1; }
  std::string numerics() const override { return "ref/float64/threads-1"; }
  Result<core::Lowered> lower(const core::Graph& graph, bool trains) override {
    return lower_nodes(graph, trains, real(), nodes_alone(graph), [&](const Run& run) {
      const core::Node& node = graph.nodes[run.first];
      return std::visit([&](const auto& op) { return ref::needs_of(op, dimensions_of(graph, node)); }, node.op);
    });
  }
  Result<std::unique_ptr<core::Executable>> bind(const core::Graph& graph, const core::Lowered& lowered,
                                                 const core::Addresses& addresses) override {
    return bind_nodes(graph, lowered, addresses, [&](const Run& run, Bindings bindings) {
      const core::Node& node = graph.nodes[run.first];
      ref::Site site{.graph = graph, .node = node, .bindings = std::move(bindings)};
      return std::visit([&](const auto& op) { return ref::make_kernel(op, std::move(site)); }, node.op);
    });
  }
  void enter() override {}
};

}  // namespace

Result<std::unique_ptr<core::Backend>> make_ref_backend() {
  return std::unique_ptr<core::Backend>(std::make_unique<RefBackend>());
}

}  // namespace lockstep::trainer::backend
