#include "trainer/choose_backend.h"

#include <fmt/format.h>

#include <utility>

#include "operator/rendezvous/worker_contract.h"
#include "trainer/backend/make_backend.h"

namespace lockstep::trainer {

namespace {

// No other backend has another precision.
bool needs_gpu(const Flags& flags) {
  return flags.precision != "fp32";
}

backend::Precision precision_of(const Flags& flags) {
  if (flags.precision == "tf32") return backend::Precision::kTf32;
  return flags.precision == "bf16" ? backend::Precision::kBfloat16 : backend::Precision::kFloat32;
}

Error no_gpu(const Flags& flags, const Error& why) {
  return fail(why.code, fmt::format("--precision={} needs a GPU; --precision=fp32 computes on the CPU: {}",
                                    flags.precision, why.message));
}

}  // namespace

static_assert(backend::kExitDeviceLost == rendezvous::kExitTemporary, "backend/ does not know the contract");

Result<BackendChoice> BackendChoice::make(const Flags& flags, int local_rank) {
  const bool automatic = flags.backend == "auto";
  const backend::CudaOptions cuda{.local_rank = local_rank,
                                  .precision = precision_of(flags),
                                  .cudart = flags.cudart_library,
                                  .cublaslt = flags.cublaslt_library,
                                  .cudnn = flags.cudnn_library};
  auto made = backend::make_backend(automatic ? "cuda" : flags.backend, flags.threads, cuda);
  if (made || !automatic) {
    if (!made) return made.error();
    return BackendChoice(std::move(*made), automatic, "");
  }
  if (needs_gpu(flags)) return no_gpu(flags, made.error());
  LOCKSTEP_TRY(auto cpu, backend::make_backend("cpu", flags.threads));
  return BackendChoice(std::move(cpu), true, made.error().message);
}

Status BackendChoice::suit(const Flags& flags, const core::Graph& graph) {
  if (!automatic_ || !why_not_.empty()) return {};
  const auto lowered = backend_->lower(graph, true);
  if (lowered) return {};
  if (needs_gpu(flags)) return no_gpu(flags, lowered.error());
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
