// How checkpoints store the tensors of a model, so that PyTorch loads them into torchvision's networks. They have
// torchvision's names. Convolutions are O, I, H, W; the columns of a layer after a flattening are C, H, W. Training has
// them as O, H, W, I and H, W, C.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "trainer/checkpoint/stored_form.h"
#include "trainer/core/graph.h"

namespace lockstep::trainer {

// By the name of a parameter or statistic of the graph; one without an entry is stored as it is.
using StoredForms = std::map<std::string, checkpoint::StoredForm>;

// `layer_name`: the name that torchvision gives a layer (Model::torch_layer); null: the layer's own.
StoredForms torch_forms(const core::Graph& graph, const std::function<std::string(const std::string&)>& layer_name);

}  // namespace lockstep::trainer
