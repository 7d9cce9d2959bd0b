#include "trainer/backend/cpu/primitive.h"

#include <dnnl_debug.h>
#include <fmt/format.h>

#include <utility>

#include "trainer/core/tensor.h"

namespace lockstep::trainer::backend::cpu {

namespace {

bool has_room(const Operand& operand) {
  return operand.use == Operand::Use::kMayAdd || operand.here != operand.wanted;
}

size_t room_of(const dnnl::memory::desc& description) {
  return core::align_up(description.get_size(), core::kAlignment);
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

bool library_has(dnnl_cpu_isa_t instructions) {
  const auto wanted = static_cast<unsigned>(instructions);  // a set of bits
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & wanted) == wanted;
}

dnnl::primitive_attr Primitive::user() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Primitive::Primitive(const dnnl::primitive_desc_base& description, std::vector<Operand> operands)
    : description_(description),
      operands_(std::move(operands)),
      scratchpad_(description.query_md(dnnl::query::exec_arg_md, DNNL_ARG_SCRATCHPAD)),
      stream_(engine()) {}

size_t Primitive::scratch() const {
  size_t bytes = room_of(scratchpad_);
  for (const Operand& operand : operands_) bytes += has_room(operand) ? room_of(operand.wanted) : 0;
  return bytes / sizeof(float);
}

void Primitive::bind(const std::vector<Place>& places, void* scratch) {
  auto* at = static_cast<std::byte*>(scratch);
  Call call{.primitive = dnnl::primitive(description_.get())};
  call.arguments.push_back({DNNL_ARG_SCRATCHPAD, memory(scratchpad_, std::exchange(at, at + room_of(scratchpad_)))});
  std::vector<dnnl_memory_t> here, wanted;
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& operand = operands_[i];
    std::byte* room = has_room(operand) ? std::exchange(at, at + room_of(operand.wanted)) : nullptr;
    here.push_back(memory(operand.here, places[i].data));
    const bool apart = places[i].add || operand.here != operand.wanted;
    wanted.push_back(apart ? memory(operand.wanted, room) : here.back());
    call.arguments.push_back({operand.argument, wanted.back()});
    if (operand.use == Operand::Use::kRead && apart) reorder(here[i], operand.here, wanted[i], operand.wanted, false);
  }
  calls_.push_back(std::move(call));
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& operand = operands_[i];
    if (operand.use == Operand::Use::kRead || here[i] == wanted[i]) continue;
    reorder(wanted[i], operand.wanted, here[i], operand.here, places[i].add);
  }
}

dnnl_memory_t Primitive::memory(const dnnl::memory::desc& description, const void* data) {
  memories_.emplace_back(description, engine(), const_cast<void*>(data));
  return memories_.back().get();
}

void Primitive::reorder(dnnl_memory_t from, const dnnl::memory::desc& from_layout, dnnl_memory_t to,
                        const dnnl::memory::desc& to_layout, bool add) {
  dnnl::primitive_attr attributes;
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const dnnl::reorder::primitive_desc description(engine(), from_layout, engine(), to_layout, attributes);
  calls_.push_back({.primitive = dnnl::reorder(description), .arguments = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}});
}

Status Primitive::run(const core::Node& node) {
  for (const Call& call : calls_) {
    const dnnl_status_t status = dnnl_primitive_execute(call.primitive.get(), stream_.get(),
                                                        static_cast<int>(call.arguments.size()), call.arguments.data());
    if (status == dnnl_success) continue;
    return fail(status == dnnl_out_of_memory ? ErrorCode::kExhausted : ErrorCode::kInternal,
                fmt::format("layer '{}': oneDNN could not run a primitive ({})", node.name, dnnl_status2str(status)));
  }
  return {};
}

}  // namespace lockstep::trainer::backend::cpu
