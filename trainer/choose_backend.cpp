#include "trainer/choose_backend.h"

#include <fmt/format.h>

#include <utility>

#include "operator/rendezvous/worker_contract.h"
#include "trainer/backend/make_backend.h"

namespace lockstep::trainer {

static_assert(backend::kExitDeviceLost == rendezvous::kExitTemporary, "backend/ does not know the contract");

Result<BackendChoice> BackendChoice::make(const Flags& flags, int local_rank) {
  const bool automatic = flags.backend == "auto";
  const backend::CudaOptions cuda{.local_rank = local_rank,
                                  .cudart = flags.cudart_library,
                                  .cublaslt = flags.cublaslt_library,
                                  .cudnn = flags.cudnn_library};
  auto made = backend::make_backend(automatic ? "cuda" : flags.backend, flags.threads, cuda);
  if (made || !automatic) {
    if (!made) return made.error();
    return BackendChoice(std::move(*made), automatic, "");
  }
  LOCKSTEP_TRY(auto cpu, backend::make_backend("cpu", flags.threads));
  return BackendChoice(std::move(cpu), true, made.error().message);
}

Status BackendChoice::suit(const Flags& flags, const core::Graph& graph) {
  if (!automatic_ || !why_not_.empty()) return {};
  const auto lowered = backend_->lower(graph, true);
  if (lowered) return {};
  why_not_ = lowered.error().message;
  LOCKSTEP_TRY(backend_, backend::make_backend("cpu", flags.threads));
  return {};
}

std::string BackendChoice::sentence() const {
  if (!automatic_) return "";
  if (why_not_.empty()) return fmt::format("--backend=auto computes on a GPU: {}", backend_->numerics());
  return fmt::format("--backend=auto computes on the CPU: {}", why_not_);
}

}  // namespace lockstep::trainer
