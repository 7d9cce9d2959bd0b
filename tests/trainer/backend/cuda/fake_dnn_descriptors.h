// Part of the fake of cuDNN (fake_cudnn.cpp): what its descriptors hold, and what they may hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/fake_convolution.h"
#include "trainer/backend/cuda/dnn.h"

namespace lockstep::trainer::cuda::fake {

struct Contents;

struct Value {
  DnnType type = DnnType::kInt64;
  std::int64_t count = 0;
  std::vector<std::byte> bytes;                           // of plain elements
  std::vector<std::shared_ptr<const Contents>> contents;  // of descriptors
};

// What a descriptor holds. It never changes once it is finalized, so that others may share it.
struct Contents {
  DnnKind kind = DnnKind::kTensor;
  bool finalized = false;
  std::map<DnnAttribute, Value> values;

  const Contents& descriptor(DnnAttribute attribute) const { return *values.at(attribute).contents.front(); }
  template <typename Element>
  std::vector<Element> all(DnnAttribute attribute) const {
    const Value& value = values.at(attribute);
    std::vector<Element> elements(static_cast<size_t>(value.count));
    std::copy(value.bytes.begin(), value.bytes.end(), reinterpret_cast<std::byte*>(elements.data()));
    return elements;
  }
  template <typename Element>
  Element one(DnnAttribute attribute) const {
    return all<Element>(attribute).front();
  }
};

// Of plain elements.
template <typename Element>
Value value_of(DnnType type, const std::vector<Element>& elements) {
  Value value{.type = type, .count = static_cast<std::int64_t>(elements.size())};
  const auto* begin = reinterpret_cast<const std::byte*>(elements.data());
  value.bytes.assign(begin, begin + elements.size() * sizeof(Element));
  return value;
}

size_t size_of(DnnType type);

// The status, and its reason as the calling thread's latest.
DnnStatus refuse(DnnStatus status, std::string why);
const std::string& last_error();

// Whether a program may create a descriptor of this kind.
bool is_known(DnnKind kind);
// kSuccess: a program may set the attribute to so many elements of this type.
DnnStatus may_set(const Contents& to, DnnAttribute attribute, DnnType type, std::int64_t count);
// kSuccess: it has all its attributes, and they fit each other.
DnnStatus check(const Contents& of);
// What an operation with all its attributes computes.
Convolution convolution_of(const Contents& operation);

}  // namespace lockstep::trainer::cuda::fake
