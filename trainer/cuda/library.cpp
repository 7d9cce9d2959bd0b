#include "trainer/cuda/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace lockstep::trainer::cuda {

Result<Library> Library::open(const std::vector<std::string>& names, const std::string& package,
                              const std::string& flag) {
  std::string why;
  for (const std::string& name : names) {
    if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return Library(handle, name, flag);
    const char* error = ::dlerror();
    why += fmt::format("{}{}", why.empty() ? "" : "; ", error != nullptr ? error : name);
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("no {} can be loaded ({}); give its path with {} or put its folder into LD_LIBRARY_PATH",
                          package, why, flag));
}

void* Library::address_of(const char* symbol) {
  if (!status_) return nullptr;
  void* address = ::dlsym(handle_, symbol);
  if (address == nullptr) {
    status_ = fail(ErrorCode::kNotFound, fmt::format("{} has no {}: it is too old or another library; give one with {}",
                                                     name_, symbol, flag_));
  }
  return address;
}

}  // namespace lockstep::trainer::cuda
