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

checkpoint::StoredForm form_of(const std::string& name, const StoredForms& forms) {
  const auto known = forms.find(name);
  return known == forms.end() ? checkpoint::StoredForm() : known->second;
}

// All tensors, as `Views` (State or StateBuffers) has them.
template <typename Views>
Views views_of(core::State& state, const StoredForms& forms) {
  Views views;
  for (core::StateTensor& tensor : state.tensors()) {
    auto& list = tensor.optimizer ? views.optimizer : views.parameters;
    list.push_back({tensor.name,
                    converted(tensor.type),
                    tensor.shape,
                    {tensor.data, tensor.bytes},
                    tensor.optimizer ? checkpoint::StoredForm() : form_of(tensor.name, forms)});
  }
  return views;
}

}  // namespace

Result<checkpoint::State> state_tensors(core::State& state, const StoredForms& forms) {
  LOCKSTEP_CHECK_OK(state.fetch());
  return views_of<checkpoint::State>(state, forms);
}

checkpoint::StateBuffers state_buffers(core::State& state, const StoredForms& forms) {
  return views_of<checkpoint::StateBuffers>(state, forms);
}

}  // namespace lockstep::trainer
