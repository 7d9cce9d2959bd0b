// ResNet-18 on photographs, as ImageNet has them.
#include "trainer/models/resnet.h"

namespace lockstep::trainer::models {

Model resnet18_model() {
  return resnet_for_imagenet("resnet18", resnet18);
}

}  // namespace lockstep::trainer::models
