// Matrix products by oneDNN.
#pragma once

#include <dnnl.h>

#include <atomic>
#include <cstddef>

#include "operator/base/result.h"
#include "trainer/core/graph.h"

namespace lockstep::trainer::backend::cpu {

enum class As { kIs, kTransposed };

// The products of one kernel. A failure is kept until the run has ended, because any thread may meet it.
class Products {
 public:
  // C (m, n) = A B, or C += A B, of A (m, k) and B (k, n); row-major with row strides; kTransposed reads a matrix
  // stored as (n, k) or (k, m). Any thread.
  void multiply(As a_as, As b_as, size_t m, size_t n, size_t k, const float* a, size_t a_stride, const float* b,
                size_t b_stride, float beta, float* c, size_t c_stride);
  // Whether all products since the last call succeeded; the error names the node.
  Status take(const core::Node& node);

 private:
  std::atomic<dnnl_status_t> failed_{dnnl_success};
};

}  // namespace lockstep::trainer::backend::cpu
