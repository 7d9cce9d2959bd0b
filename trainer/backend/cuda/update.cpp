#include "trainer/backend/cuda/update.h"

#include <algorithm>
#include <string>
#include <variant>

#include "trainer/backend/cuda/kernels/norm.h"
#include "trainer/backend/cuda/kernels/optimizer.h"
#include "trainer/core/power.h"

namespace lockstep::trainer::cuda {

namespace {

// One segment of the arenas, and how it is updated.
struct Piece {
  Piece(const core::Optimizer& optimizer, const core::Update& update, size_t segment)
      : number(static_cast<std::int64_t>(segment)),
        place(update.layout->segments[segment]),
        group(core::group_of(optimizer, place)),
        rate(core::learning_rate(optimizer, group, update.step)),
        count(static_cast<std::int64_t>(place.count)),
        parameters(static_cast<float*>(update.parameters) + place.offset),
        gradients(static_cast<const float*>(update.gradients) + place.offset) {}

  float* slot(const core::Update& update, size_t i) const {
    return static_cast<float*>(update.slots[i]) + place.offset;
  }

  std::int64_t number;
  const core::Segment& place;
  const core::Group& group;
  double rate;
  std::int64_t count;      // elements
  float* parameters;       // (count)
  const float* gradients;  // (count)
};

CudaError apply(CudaStream* stream, const core::Sgd& rule, const Piece& piece, const core::Update& update,
                const UpdateMemory& memory) {
  const SgdScalars scalars{.momentum = static_cast<float>(rule.momentum),
                           .rate = static_cast<float>(piece.rate),
                           .decay = static_cast<float>(piece.group.weight_decay),
                           .scale = static_cast<float>(update.gradient_scale),
                           .nesterov = rule.nesterov};
  return sgd_update(stream, scalars, piece.number, piece.parameters, piece.gradients, piece.slot(update, 0),
                    piece.count, memory.digest);
}

CudaError apply(CudaStream* stream, const core::AdamW& rule, const Piece& piece, const core::Update& update,
                const UpdateMemory& memory) {
  const double correction1 = 1 / (1 - core::power(rule.beta1, update.step + 1));
  const double correction2 = 1 / (1 - core::power(rule.beta2, update.step + 1));
  const AdamWScalars scalars{.beta1 = static_cast<float>(rule.beta1),
                             .beta2 = static_cast<float>(rule.beta2),
                             .epsilon = static_cast<float>(rule.epsilon),
                             .rate = static_cast<float>(piece.rate * correction1),
                             .correction2 = static_cast<float>(correction2),
                             .keep = static_cast<float>(1 - piece.rate * piece.group.weight_decay),
                             .scale = static_cast<float>(update.gradient_scale)};
  return adamw_update(stream, scalars, piece.number, piece.parameters, piece.gradients, piece.slot(update, 0),
                      piece.slot(update, 1), piece.count, memory.digest);
}

CudaError apply(CudaStream* stream, const core::Lars& rule, const Piece& piece, const core::Update& update,
                const UpdateMemory& memory) {
  const LarsScalars scalars{.momentum = rule.momentum,
                            .rate = piece.rate,
                            .decay = piece.group.weight_decay,
                            .scale = update.gradient_scale,
                            .trust_coefficient = rule.trust_coefficient,
                            .trust_ratio = piece.group.trust_ratio};
  if (scalars.trust_ratio) {
    CudaError error = norm(stream, piece.parameters, piece.count, memory.norms, memory.scratch);
    if (error == CudaError::kSuccess) {
      error = norm(stream, piece.gradients, piece.count, memory.norms + 1, memory.scratch);
    }
    if (error != CudaError::kSuccess) return error;
  }
  return lars_update(stream, scalars, piece.number, memory.norms, piece.parameters, piece.gradients,
                     piece.slot(update, 0), piece.count, memory.digest);
}

}  // namespace

size_t update_scratch(const core::Optimizer& optimizer, const core::Layout& layout) {
  size_t bytes = 0;
  if (!std::holds_alternative<core::Lars>(optimizer.rule)) return bytes;
  for (const core::Segment& segment : layout.segments) {
    bytes = std::max(bytes, norm_scratch(static_cast<std::int64_t>(segment.count)));
  }
  return bytes;
}

Status enqueue_update(DeviceQueue& queue, const core::Optimizer& optimizer, const core::Update& update,
                      const UpdateMemory& memory) {
  queue.fill(memory.digest, 0, sizeof *memory.digest);
  for (size_t i = 0; i < update.layout->segments.size(); ++i) {
    const Piece piece(optimizer, update, i);
    const CudaError error = std::visit(
        [&](const auto& rule) { return apply(queue.stream(), rule, piece, update, memory); }, optimizer.rule);
    LOCKSTEP_CHECK_OK(queue.status_of(error, "the update of '" + piece.place.name + "'"));
  }
  return {};
}

}  // namespace lockstep::trainer::cuda
