// The safetensors layout: 8 bytes of header length (little-endian), a JSON header, then the tensors end to end.
// Python's safetensors opens our files. The reader checks a file before it uses anything of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/tensor.h"

namespace lockstep::trainer::checkpoint {

// Of a file, and of all files that are read together: a hundred thousand tensors. Parsed, a header takes many times as
// much memory.
inline constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{16} << 20;

struct TensorEntry {
  std::string name;
  DataType type = DataType::kFloat32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // in the file
  std::uint64_t end = 0;

  bool operator==(const TensorEntry&) const = default;
};

// product(shape) * size_of(type); kInvalid for negative dimensions and overflow.
Result<std::uint64_t> bytes_of(DataType type, const std::vector<std::int64_t>& shape);
// kInvalid: duplicate names, bytes that do not fit the shape, or a stored form that does not fit the tensor.
Status validate(const std::vector<NamedTensor>& tensors);

// The first bytes of a file with these tensors, in order and in their stored forms: length, header, padding up to a
// multiple of 64. kInvalid: as validate(), or the header is longer than kMostHeaderBytes.
Result<std::string> safetensors_header(const std::vector<NamedTensor>& tensors);
// Reads a header back from the start of a file; `text` begins with the length and holds at least the header.
// kCorrupt: it is no safetensors header, or its tensors do not tile a file of `file_bytes` exactly.
Result<std::vector<TensorEntry>> parse_safetensors_header(std::string_view text, std::uint64_t file_bytes);

// Writes folder/name and returns its digest.
Result<FileDigest> write_safetensors(const std::string& folder, const std::string& name,
                                     const std::vector<NamedTensor>& tensors);
// The tensors of folder/name, whose header has at most `most` bytes; kCorrupt or a file error, with the file named.
Result<std::vector<TensorEntry>> read_safetensors_entries(const std::string& folder, const std::string& name,
                                                          std::uint64_t most = kMostHeaderBytes);

}  // namespace lockstep::trainer::checkpoint
