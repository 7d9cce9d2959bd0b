// The backends of lockstep-trainer-late: `cpu` computes late, on memory that no other thread reaches.
#include "tests/trainer/backend/late_backend.h"
#include "trainer/backend/make_backend.h"
#include "trainer/backend/ref/ref_backend.h"

namespace lockstep::trainer::backend {

const std::vector<std::string>& backend_names() {
  static const std::vector<std::string> names = {"cpu", "cuda", "ref"};
  return names;
}

Result<std::unique_ptr<core::Backend>> make_backend(const std::string& name, int threads, const CudaOptions&) {
  if (name == "cuda") return fail(ErrorCode::kNotFound, "this program computes late, on no GPU");
  return name == "cpu" ? testing::make_late_backend(threads) : make_ref_backend();
}

}  // namespace lockstep::trainer::backend
