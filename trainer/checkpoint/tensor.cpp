#include "trainer/checkpoint/tensor.h"

#include <algorithm>
#include <vector>

#include "trainer/checkpoint/files.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep::trainer::checkpoint {

size_t size_of(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return 4;
    case DataType::kFloat64:
      return 8;
    case DataType::kFloat16:
      return 2;
    case DataType::kBFloat16:
      return 2;
    case DataType::kInt64:
      return 8;
    case DataType::kInt32:
      return 4;
    case DataType::kUint8:
      return 1;
  }
  return 1;
}

const char* safetensors_name(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "F32";
    case DataType::kFloat64:
      return "F64";
    case DataType::kFloat16:
      return "F16";
    case DataType::kBFloat16:
      return "BF16";
    case DataType::kInt64:
      return "I64";
    case DataType::kInt32:
      return "I32";
    case DataType::kUint8:
      return "U8";
  }
  return "unknown";
}

Result<std::string> state_digest(const State& state) {
  std::vector<NamedTensor> tensors = state.parameters;
  tensors.insert(tensors.end(), state.optimizer.begin(), state.optimizer.end());
  LOCKSTEP_CHECK_OK(validate(tensors));
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  Sha256 hash;
  // Every part is preceded by its length or ends with a character that it cannot hold, so no two states run together.
  for (const NamedTensor& tensor : tensors) {
    std::string head =
        std::to_string(tensor.name.size()) + ":" + tensor.name + ":" + safetensors_name(tensor.type) + ":";
    for (const std::int64_t dimension : tensor.shape) head += std::to_string(dimension) + ",";
    hash.add(head + ";");
    hash.add(tensor.bytes);
  }
  return hash.hex();
}

}  // namespace lockstep::trainer::checkpoint
