#include "trainer/backend/cuda/blas.h"

#include <vector>

#include "trainer/cuda/library.h"

namespace lockstep::trainer::cuda {

Result<Blas> open_blas(const std::string& library) {
  const std::vector<std::string> usual{"libcublasLt.so.13", "libcublasLt.so.12"};
  LOCKSTEP_TRY(Library opened,
               Library::open(library.empty() ? usual : std::vector{library}, "cuBLASLt", "--cublaslt-library"));
  Blas blas;
  opened.find(blas.get_version, "cublasLtGetVersion");
  opened.find(blas.create, "cublasLtCreate");
  opened.find(blas.destroy, "cublasLtDestroy");
  opened.find(blas.status_string, "cublasLtGetStatusString");
  opened.find(blas.product_create, "cublasLtMatmulDescCreate");
  opened.find(blas.product_destroy, "cublasLtMatmulDescDestroy");
  opened.find(blas.product_set, "cublasLtMatmulDescSetAttribute");
  opened.find(blas.layout_create, "cublasLtMatrixLayoutCreate");
  opened.find(blas.layout_destroy, "cublasLtMatrixLayoutDestroy");
  opened.find(blas.preference_create, "cublasLtMatmulPreferenceCreate");
  opened.find(blas.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  opened.find(blas.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  opened.find(blas.get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  opened.find(blas.matmul, "cublasLtMatmul");
  LOCKSTEP_CHECK_OK(opened.status());
  return blas;
}

}  // namespace lockstep::trainer::cuda
