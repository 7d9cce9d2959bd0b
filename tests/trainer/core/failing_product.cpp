#include "tests/trainer/core/failing_product.h"

#include <dlfcn.h>
#include <dnnl.h>

extern "C" dnnl_status_t dnnl_sgemm(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k, float alpha,
                                    const float* a, dnnl_dim_t lda, const float* b, dnnl_dim_t ldb, float beta,
                                    float* c, dnnl_dim_t ldc) {
  static const auto product = reinterpret_cast<decltype(&dnnl_sgemm)>(::dlsym(RTLD_NEXT, "dnnl_sgemm"));
  if (lockstep::trainer::testing::products_until_failure-- == 0) return dnnl_runtime_error;
  return product(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
