#include "trainer/state_views.h"

namespace lockstep::trainer {

namespace {

checkpoint::DataType converted(core::ElementType type) {
  switch (type) {
    case core::ElementType::kFloat32:
      return checkpoint::DataType::kFloat32;
    case core::ElementType::kFloat64:
      return checkpoint::DataType::kFloat64;
    case core::ElementType::kInt32:
      return checkpoint::DataType::kInt32;
    case core::ElementType::kInt64:
      return checkpoint::DataType::kInt64;
  }
  return checkpoint::DataType::kUint8;
}

}  // namespace

Result<checkpoint::State> state_tensors(core::State& state) {
  LOCKSTEP_CHECK_OK(state.fetch());
  checkpoint::State views;
  for (core::StateTensor& tensor : state.tensors()) {
    auto& list = tensor.optimizer ? views.optimizer : views.parameters;
    list.push_back({tensor.name, converted(tensor.type), tensor.shape, {tensor.data, tensor.bytes}});
  }
  return views;
}

checkpoint::StateBuffers state_buffers(core::State& state) {
  checkpoint::StateBuffers views;
  for (core::StateTensor& tensor : state.tensors()) {
    auto& list = tensor.optimizer ? views.optimizer : views.parameters;
    list.push_back({tensor.name, converted(tensor.type), tensor.shape, {tensor.data, tensor.bytes}});
  }
  return views;
}

}  // namespace lockstep::trainer
