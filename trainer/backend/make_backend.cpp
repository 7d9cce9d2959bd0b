#include "trainer/backend/make_backend.h"

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/ref/ref_backend.h"

namespace lockstep::trainer::backend {

const std::vector<std::string>& backend_names() {
  static const std::vector<std::string> names = {"cpu", "ref"};
  return names;
}

Result<std::unique_ptr<core::Backend>> make_backend(const std::string& name, int threads) {
  if (name == "cpu") return make_cpu_backend(threads);
  if (name == "ref") return make_ref_backend();
  return fail(ErrorCode::kInvalid, "there is no backend '" + name + "'; choose cpu or ref");
}

}  // namespace lockstep::trainer::backend
