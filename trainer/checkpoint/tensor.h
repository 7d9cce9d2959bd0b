// Tensors as a checkpoint sees them: a name, a type, a shape and bytes in row-major order, owned by the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/checkpoint/stored_form.h"

namespace lockstep::trainer::checkpoint {

enum class DataType : std::uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUint8 };

size_t size_of(DataType type);                // bytes of one element
const char* safetensors_name(DataType type);  // "F32", "F64", "F16", "BF16", "I64", "I32", "U8"

// What to save. `bytes` is exactly product(shape) elements.
struct NamedTensor {
  std::string name;
  DataType type = DataType::kFloat32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::span<const std::byte> bytes;
  StoredForm stored = {};  // in a file
};

// Where to put what was saved; name and shape of the stored form, and the type, must agree with the file.
struct NamedBuffer {
  std::string name;
  DataType type = DataType::kFloat32;
  std::vector<std::int64_t> shape;
  std::span<std::byte> bytes;
  StoredForm stored = {};
};

// What a file says of a tensor: of NamedTensor and NamedBuffer.
template <typename Tensor>
const std::string& stored_name(const Tensor& tensor) {
  return tensor.stored.name.empty() ? tensor.name : tensor.stored.name;
}
template <typename Tensor>
const std::vector<std::int64_t>& stored_shape(const Tensor& tensor) {
  return tensor.stored.reorders() ? tensor.stored.shape : tensor.shape;
}

// All of a model's persistent state. Names are unique over both lists.
struct State {
  std::vector<NamedTensor> parameters;  // model.safetensors: also running statistics
  std::vector<NamedTensor> optimizer;   // optimizer.safetensors: moments, exponents, counters, scale
};

struct StateBuffers {
  std::vector<NamedBuffer> parameters;
  std::vector<NamedBuffer> optimizer;
};

// SHA-256 over (name, type, shape, bytes) of all tensors as memory has them, in order of name, in hexadecimal. Does not
// depend on the order of the lists, on which list holds a tensor, on files, stored forms, world size or time. kInvalid:
// a duplicate name, or a size that does not fit its shape.
Result<std::string> state_digest(const State& state);

}  // namespace lockstep::trainer::checkpoint
