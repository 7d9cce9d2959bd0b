#include "trainer/backend/cpu/multiply.h"

#include <dnnl_debug.h>
#include <fmt/format.h>

namespace lockstep::trainer::backend::cpu {

void Products::multiply(As a_as, As b_as, size_t m, size_t n, size_t k, const float* a, size_t a_stride, const float* b,
                        size_t b_stride, float beta, float* c, size_t c_stride) {
  auto size = [](size_t v) { return static_cast<dnnl_dim_t>(v); };
  dnnl_status_t status = dnnl_sgemm(a_as == As::kIs ? 'N' : 'T', b_as == As::kIs ? 'N' : 'T', size(m), size(n), size(k),
                                    1.0f, a, size(a_stride), b, size(b_stride), beta, c, size(c_stride));
  if (status != dnnl_success) failed_.store(status, std::memory_order_relaxed);
}

Status Products::take(const core::Node& node) {
  dnnl_status_t status = failed_.exchange(dnnl_success, std::memory_order_relaxed);
  if (status == dnnl_success) return {};
  return fail(status == dnnl_out_of_memory ? ErrorCode::kExhausted : ErrorCode::kInternal,
              fmt::format("layer '{}': oneDNN could not multiply matrices ({})", node.name, dnnl_status2str(status)));
}

}  // namespace lockstep::trainer::backend::cpu
