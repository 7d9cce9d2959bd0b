// Primitives of oneDNN over tensors in the graph's own order. Where the library wants another layout, the operand is
// reordered through scratch.
#pragma once

#include <dnnl.hpp>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/core/graph.h"

namespace lockstep::trainer::backend::cpu {

const dnnl::engine& engine();
// Whether oneDNN computes with these instructions here. The environment can forbid it (DNNL_MAX_CPU_ISA).
bool library_has(dnnl_cpu_isa_t instructions);

// What a primitive reads or writes.
struct Operand {
  enum class Use { kRead, kWrite, kMayAdd };  // kMayAdd: whether it adds or overwrites is known when it is bound

  int argument;               // DNNL_ARG_SRC and others
  dnnl::memory::desc here;    // as the graph has it
  dnnl::memory::desc wanted;  // as the primitive has it
  Use use = Use::kRead;
};

// Where an operand lies. `add`: add to what is there, else overwrite it; only with Operand::Use::kMayAdd.
struct Place {
  const void* data = nullptr;
  bool add = false;
};

// One primitive with the reorders around it. What oneDNN refuses while it is planned or bound is a dnnl::error.
class Primitive {
 public:
  // `description` was made with user() for its attributes. All operands together need scratch() elements.
  Primitive(const dnnl::primitive_desc_base& description, std::vector<Operand> operands);

  // Elements of scratch, for the reordered operands and for the library.
  size_t scratch() const;
  // Makes it ready to run: one place for each operand, in their order. Compiles; never called twice.
  void bind(const std::vector<Place>& places, void* scratch);
  // Runs it and its reorders. Allocates nothing. The error names the node. Runs on the number of threads that was set
  // (Backend::enter) when it was planned and bound.
  Status run(const core::Node& node);

  // Attributes of a primitive whose scratch is planned.
  static dnnl::primitive_attr user();

 private:
  struct Call {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  dnnl_memory_t memory(const dnnl::memory::desc& description, const void* data);
  void reorder(dnnl_memory_t from, const dnnl::memory::desc& from_layout, dnnl_memory_t to,
               const dnnl::memory::desc& to_layout, bool add);

  const dnnl::primitive_desc_base description_;
  const std::vector<Operand> operands_;
  const dnnl::memory::desc scratchpad_;
  std::vector<dnnl::memory> memories_;
  std::vector<Call> calls_;  // in the order of a run
  dnnl::stream stream_;
};

}  // namespace lockstep::trainer::backend::cpu
