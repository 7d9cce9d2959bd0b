// ResNet-50 v1.5 on photographs, as ImageNet has them.
#include "trainer/models/resnet.h"

namespace lockstep::trainer::models {

Model resnet50_model() {
  return resnet_for_imagenet("resnet50", resnet50);
}

}  // namespace lockstep::trainer::models
