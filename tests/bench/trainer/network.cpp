#include "tests/bench/trainer/network.h"

#include "trainer/backend/make_backend.h"
#include "trainer/core/random.h"
#include "trainer/models/char_transformer.h"
#include "trainer/models/mlp.h"
#include "trainer/models/mobilenet_v2.h"
#include "trainer/models/resnet.h"
#include "trainer/models/vgg_a.h"
#include "trainer/optim/make_optimizer.h"

namespace lockstep::bench {

namespace core = trainer::core;
namespace models = trainer::models;

namespace {

core::Graph graph_of(const std::string& name, std::int64_t batch) {
  if (name == "resnet50") return models::resnet50({.batch = batch});
  if (name == "mobilenet-v2") return models::mobilenet_v2({.batch = batch});
  if (name == "vgg-a") return models::vgg_a({.batch = batch});
  if (name == "mlp") return models::mlp({.batch = batch, .features = 784, .width = 512, .layers = 2});
  if (name == "char-transformer") {
    return models::char_transformer({.batch = batch, .vocabulary = 65, .context = 128, .layers = 4, .width = 128});
  }
  return models::resnet18({.batch = batch, .pixels = 32, .classes = 10, .stem = models::ResNetOptions::Stem::kCifar});
}

#define LOCKSTEP_NAME(name)                     \
  const char* name_of(const core::ops::name&) { \
    return #name;                               \
  }
LOCKSTEP_OPS(LOCKSTEP_NAME)
#undef LOCKSTEP_NAME

}  // namespace

const std::vector<std::string>& network_names() {
  static const std::vector<std::string> names = {"resnet18-cifar", "resnet50", "mobilenet-v2",
                                                 "vgg-a",          "mlp",      "char-transformer"};
  return names;
}

std::int64_t usual_batch(const std::string& name) {
  if (name == "mlp") return 128;
  if (name == "char-transformer") return 32;
  return name == "resnet18-cifar" ? 64 : name == "vgg-a" ? 8 : 16;
}

Result<std::unique_ptr<Network>> Network::make(const std::string& name, std::int64_t batch, int threads,
                                               core::Recompute recompute) {
  std::unique_ptr<Network> made(new Network);
  made->graph_ = graph_of(name, batch);
  made->layout_ = core::lay_out(made->graph_);
  LOCKSTEP_TRY(made->optimizer_,
               trainer::optim::make_optimizer({.rule = "sgd", .learning_rate = 1e-3, .schedule = "constant"}));
  LOCKSTEP_TRY(made->backend_, trainer::backend::make_backend("cpu", threads));
  LOCKSTEP_TRY(made->state_, core::State::create(made->graph_, *made->backend_, made->layout_,
                                                 core::slots_of(made->optimizer_.rule)));
  LOCKSTEP_CHECK_OK(made->state_->initialize(1));
  LOCKSTEP_TRY(made->gradients_, made->backend_->allocate(made->layout_.count * sizeof(float)));
  made->staged_.resize(made->state_->statistics.size());
  LOCKSTEP_TRY(made->program_, core::Program::compile(made->graph_, *made->backend_,
                                                      {.layout = &made->layout_,
                                                       .parameters = made->state_->parameters->data(),
                                                       .gradients = made->gradients_->data(),
                                                       .statistics = made->state_->statistics.data(),
                                                       .staged_statistics = made->staged_.data()},
                                                      {.recompute = recompute}));
  made->draw_inputs();
  return made;
}

void Network::draw_inputs() {
  for (core::TensorId id : graph_.with_role(core::Role::kInput)) {
    const auto count = static_cast<size_t>(core::count_of(graph_.tensor(id).shape));
    for (size_t i = 0; i < count; ++i) {
      if (graph_.tensor(id).number == core::Number::kIndex) {
        static_cast<std::int32_t*>(program_->data(id))[i] = static_cast<std::int32_t>(core::derive(3, i) % 10);
      } else {
        static_cast<float*>(program_->data(id))[i] = static_cast<float>(core::normal(5, i));
      }
    }
  }
}

std::string Network::kind_of(size_t step) const {
  std::string kinds;
  for (size_t node = step == 0 ? 0 : program_->last_node(step - 1) + 1; node <= program_->last_node(step); ++node) {
    if (!kinds.empty()) kinds += '+';
    kinds += std::visit([](const auto& op) { return name_of(op); }, graph_.nodes[node].op);
    const auto* convolution = std::get_if<core::ops::Conv2d>(&graph_.nodes[node].op);
    if (convolution != nullptr && convolution->groups > 1) kinds += " in groups";
  }
  return kinds;
}

void Network::update() {
  std::vector<void*> slots;
  for (const auto& slot : state_->slots) slots.push_back(slot->data());
  backend_->update(optimizer_, {.layout = &layout_,
                                .parameters = state_->parameters->data(),
                                .gradients = gradients_->data(),
                                .slots = slots,
                                .step = context_.step++});
  program_->clear_added();
}

Status Network::train() {
  for (size_t step = 0; step < steps(); ++step) LOCKSTEP_CHECK_OK(forward(step));
  for (size_t step = steps(); step-- > 0;) LOCKSTEP_CHECK_OK(backward(step));
  update();
  return {};
}

}  // namespace lockstep::bench
