// libFuzzer's entry point for the target that LOCKSTEP_FUZZ_TARGET names (on_small_changes.h).
#include <cstddef>
#include <cstdint>

extern "C" int LOCKSTEP_FUZZ_TARGET(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return LOCKSTEP_FUZZ_TARGET(data, size);
}
