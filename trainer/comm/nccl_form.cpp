#include "trainer/comm/nccl_form.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace lockstep::trainer::comm {
namespace {

// Floats as integers in the same order: all bits of negative ones inverted, the sign bit of the others set.
template <typename Float, typename Whole>
Whole ordered(Float value) {
  if (std::isnan(value)) return std::numeric_limits<Whole>::max();
  constexpr Whole kSign = Whole{1} << (sizeof(Whole) * 8 - 1);
  Whole bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return (bits & kSign) != 0 ? static_cast<Whole>(~bits) : static_cast<Whole>(bits | kSign);
}

template <typename Float, typename Whole>
Float unordered(Whole number) {
  if (number == std::numeric_limits<Whole>::max()) return std::numeric_limits<Float>::quiet_NaN();
  constexpr Whole kSign = Whole{1} << (sizeof(Whole) * 8 - 1);
  const Whole bits = (number & kSign) != 0 ? static_cast<Whole>(number & ~kSign) : static_cast<Whole>(~number);
  Float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename Float, typename Whole>
void order(std::byte* wire, const std::byte* data, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Float value = 0;
    std::memcpy(&value, data + i * sizeof value, sizeof value);
    const Whole number = ordered<Float, Whole>(value);
    std::memcpy(wire + i * sizeof number, &number, sizeof number);
  }
}

template <typename Float, typename Whole>
void unorder(std::byte* data, const std::byte* wire, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Whole number = 0;
    std::memcpy(&number, wire + i * sizeof number, sizeof number);
    const Float value = unordered<Float, Whole>(number);
    std::memcpy(data + i * sizeof value, &value, sizeof value);
  }
}

}  // namespace

NcclForm form_of(DataType type, Reduction reduction) {
  NcclForm form;
  form.element_bytes = form.wire_bytes = size_of(type);
  if (reduction == Reduction::kBitOr) {
    form.change = NcclForm::Change::kBits;
    form.operation = NcclOperation::kMax;
    form.wire_elements = form.wire_bytes = 8 * form.element_bytes;
    return form;
  }
  const bool max = reduction == Reduction::kMax;
  form.operation = max ? NcclOperation::kMax : NcclOperation::kSum;
  switch (type) {
    case DataType::kFloat32:
      form.type = max ? NcclType::kUint32 : NcclType::kFloat32;
      if (max) form.change = NcclForm::Change::kOrdered32;
      break;
    case DataType::kFloat64:
      form.type = max ? NcclType::kUint64 : NcclType::kFloat64;
      if (max) form.change = NcclForm::Change::kOrdered64;
      break;
    case DataType::kInt64:
      form.type = max ? NcclType::kInt64 : NcclType::kUint64;
      break;
    case DataType::kUint8:
      form.type = NcclType::kUint8;
      break;
  }
  return form;
}

void to_wire(const NcclForm& form, std::byte* wire, const std::byte* data, size_t count) {
  switch (form.change) {
    case NcclForm::Change::kNone:
      if (count > 0) std::memcpy(wire, data, count * form.element_bytes);
      return;
    case NcclForm::Change::kOrdered32:
      return order<float, std::uint32_t>(wire, data, count);
    case NcclForm::Change::kOrdered64:
      return order<double, std::uint64_t>(wire, data, count);
    case NcclForm::Change::kBits:
      for (size_t i = 0; i < 8 * form.element_bytes * count; ++i) {
        wire[i] = (data[i / 8] >> (i % 8)) & std::byte{1};
      }
      return;
  }
}

void from_wire(const NcclForm& form, std::byte* data, const std::byte* wire, size_t count) {
  switch (form.change) {
    case NcclForm::Change::kNone:
      if (count > 0) std::memcpy(data, wire, count * form.element_bytes);
      return;
    case NcclForm::Change::kOrdered32:
      return unorder<float, std::uint32_t>(data, wire, count);
    case NcclForm::Change::kOrdered64:
      return unorder<double, std::uint64_t>(data, wire, count);
    case NcclForm::Change::kBits:
      for (size_t i = 0; i < form.element_bytes * count; ++i) {
        std::byte value{0};
        for (unsigned bit = 0; bit < 8; ++bit) value |= wire[8 * i + bit] << bit;
        data[i] = value;
      }
      return;
  }
}

}  // namespace lockstep::trainer::comm
