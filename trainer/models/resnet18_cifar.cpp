// ResNet-18 with the stem for small images, on CIFAR-10 in TFRecords.
#include "trainer/models/images.h"
#include "trainer/models/resnet.h"

namespace lockstep::trainer::models {

namespace {

constexpr ImageShape kCifar10{.pixels = 32, .classes = 10};

}  // namespace

Model resnet18_cifar_model() {
  return {.name = "resnet18-cifar",
          .help = "tells the ten kinds of CIFAR-10's images apart",
          .data = Model::Data::kImages,
          .options = {width(64)},
          .recipes = {{.optimizer = "sgd", .learning_rate = 0.1, .weight_decay = 5e-4},
                      {.optimizer = "adamw", .learning_rate = 1e-3, .weight_decay = 0.05}},
          .least_micro_batch = 2,
          .open = [](const Settings&, const DataOptions& options) { return open_images(options, kCifar10); },
          .graph =
              [](const Settings& settings, const Dataset&, std::int64_t batch) {
                return resnet18({.batch = batch,
                                 .pixels = kCifar10.pixels,
                                 .classes = kCifar10.classes,
                                 .width = settings.whole("width"),
                                 .stem = ResNetOptions::Stem::kCifar});
              }};
}

}  // namespace lockstep::trainer::models
