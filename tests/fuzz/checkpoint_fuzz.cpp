// Anything at all as a manifest or as the head of a safetensors file: it is refused, or what it names lies inside.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/safetensors.h"

extern "C" int checkpoint_fuzz(const std::uint8_t* data, std::size_t size);

extern "C" int checkpoint_fuzz(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::trainer::checkpoint;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::uint64_t file_bytes = size + 60;  // the tensors of the tests' small model
  if (const auto entries = parse_safetensors_header(text, file_bytes)) {
    for (const TensorEntry& entry : *entries) {
      const auto bytes = bytes_of(entry.type, entry.shape);
      if (!bytes || entry.begin > entry.end || entry.end > file_bytes || *bytes != entry.end - entry.begin) {
        std::abort();
      }
    }
  }
  if (const auto manifest = decode_manifest(text)) {
    const auto again = encode(*manifest);
    if (!again) std::abort();
    const auto manifest_again = decode_manifest(*again);
    if (!manifest_again || !(*manifest_again == *manifest)) std::abort();
  }
  if (const auto of = parse_folder_name(text)) {
    if (folder_name(of->step, of->generation) != text) std::abort();
  }
  return 0;
}
