// The ops of the graph, one line each. An op's header (ops/) holds its attributes and the function that adds
// it to a graph with the shapes checked. Each backend has one file for each op.
#pragma once

#include <variant>

#include "trainer/core/ops/add.h"
#include "trainer/core/ops/batch_norm.h"
#include "trainer/core/ops/causal_attention.h"
#include "trainer/core/ops/conv2d.h"
#include "trainer/core/ops/dropout.h"
#include "trainer/core/ops/embedding.h"
#include "trainer/core/ops/flatten.h"
#include "trainer/core/ops/gelu.h"
#include "trainer/core/ops/global_average_pool.h"
#include "trainer/core/ops/layer_norm.h"
#include "trainer/core/ops/linear.h"
#include "trainer/core/ops/max_pool2d.h"
#include "trainer/core/ops/mean_squared_error.h"
#include "trainer/core/ops/relu.h"
#include "trainer/core/ops/relu6.h"
#include "trainer/core/ops/softmax_cross_entropy.h"

// Calls EACH(name) for every op; what a backend declares for each op is written once with it.
#define LOCKSTEP_OPS(EACH)  \
  EACH(Linear)              \
  EACH(Relu)                \
  EACH(Relu6)               \
  EACH(Gelu)                \
  EACH(Embedding)           \
  EACH(Add)                 \
  EACH(LayerNorm)           \
  EACH(BatchNorm)           \
  EACH(Dropout)             \
  EACH(CausalAttention)     \
  EACH(Conv2d)              \
  EACH(MaxPool2d)           \
  EACH(GlobalAveragePool)   \
  EACH(Flatten)             \
  EACH(SoftmaxCrossEntropy) \
  EACH(MeanSquaredError)

namespace lockstep::trainer::core {

namespace ops_list {
struct End {};
template <typename, typename... Ops>
struct Listed {
  using Type = std::variant<Ops...>;
};
#define LOCKSTEP_LISTED(name) , ops::name
using Op = Listed<End LOCKSTEP_OPS(LOCKSTEP_LISTED)>::Type;
#undef LOCKSTEP_LISTED
}  // namespace ops_list

// A node's kind with its attributes.
using Op = ops_list::Op;

// Its backward pass starts at RunContext::loss_scale times the weight of the loss and reads no gradient of its output.
// An op says so by kIsLoss.
bool is_loss(const Op& op);

}  // namespace lockstep::trainer::core
