#include "trainer/backend/cpu/tiled_convolution.h"

#include <algorithm>

namespace lockstep::trainer::backend::cpu {

namespace {

// Outputs of a slab, about, by measurement. More reuse weights that come from a cache farther away; with fewer the
// panel stays near.
constexpr size_t kSlabOutputs = 320;
// For weights' gradients, which are written once for each slab.
constexpr size_t kSlabGradients = 1024;
// Rows of a bias's gradient that are added in float32 before they meet the others.
constexpr size_t kBiasRows = 1024;

// A stride reads more pixels for each output.
size_t slab_gradients(const SlidImage& image) {
  return std::max<size_t>(1, kSlabGradients / image.stride);
}

size_t parts_of(size_t count, size_t size) {
  return (count + size - 1) / size;
}

// Rows or samples of a slab: `count` of them have `pixels` pixels together, and a slab wants `wanted` pixels.
size_t count_in_slab(size_t count, size_t pixels, size_t wanted) {
  return parts_of(count, std::clamp<size_t>((pixels + wanted / 2) / wanted, 1, count));
}

// All outputs of `samples` images in slabs of about `pixels` pixels, all about as large: some images, or some rows of
// one.
class Slabs {
 public:
  Slabs(const SlidImage& image, size_t samples, size_t pixels)
      : image_(image),
        samples_(samples),
        rows_(count_in_slab(image.out_height, image.out_height * image.out_width, pixels)),
        each_(rows_ == image.out_height ? count_in_slab(samples, samples * rows_ * image.out_width, pixels) : 1),
        parts_(parts_of(image.out_height, rows_)) {}

  size_t count() const { return parts_of(samples_, each_) * parts_; }
  // The first sample of slab `i`.
  size_t sample(size_t i) const { return i / parts_ * each_; }
  Slab at(size_t i) const {
    const size_t first = i % parts_ * rows_;
    return slab(std::min(each_, samples_ - sample(i)), first, std::min(rows_, image_.out_height - first));
  }
  // The pixels of the largest panel and the outputs of the largest slab.
  size_t panel_pixels() const {
    const Slab largest = slab(each_, 0, rows_);
    return largest.samples * largest.height * largest.width;
  }
  size_t outputs() const { return each_ * rows_ * image_.out_width; }
  // Elements before the first sample of slab `i`, in the images that it reads.
  size_t read_from(size_t i) const { return sample(i) * image_.height * image_.width * image_.channels; }
  // Pixels before its first, in those that it writes.
  size_t first_output(size_t i) const {
    return (sample(i) * image_.out_height + i % parts_ * rows_) * image_.out_width;
  }

 private:
  Slab slab(size_t samples, size_t first, size_t rows) const {
    return {.samples = samples,
            .first = first,
            .rows = rows,
            .height = (rows - 1) * image_.stride + image_.kernel,
            .width = image_.width + 2 * image_.padding};
  }
  const SlidImage image_;
  const size_t samples_, rows_, each_, parts_;
};

// A convolution of the output's gradient by the rotated weights gives that of the input.
SlidImage backward_image(const SlidImage& forward, size_t outputs) {
  return {.height = forward.out_height,
          .width = forward.out_width,
          .channels = outputs,
          .out_height = forward.height,
          .out_width = forward.width,
          .kernel = forward.kernel,
          .stride = 1,
          .padding = forward.kernel - 1 - forward.padding};
}

size_t outputs_of(const Slab& slab, const SlidImage& image) {
  return slab.samples * slab.rows * image.out_width;
}

}  // namespace

bool TiledConvolution::fits(const core::ops::Conv2d& op, const Dimensions& d, const Team& team) {
  return team.kernels.tiles != nullptr && op.groups == 1 && op.kernel > 1 && d.in % kTileChannels == 0 &&
         d.out % kTileChannels == 0;
}

TiledConvolution::TiledConvolution(const core::ops::Conv2d& op, const Dimensions& d, const Team& team)
    : team_(team),
      kernels_(*team.kernels.tiles),
      image_(windows_of(op, d)),
      samples_(d.samples),
      outputs_(d.out),
      places_(image_.kernel * image_.kernel),
      forward_{.image = image_, .columns = d.out, .rotated = false},
      backward_{.image = backward_image(image_, d.out), .columns = d.in, .rotated = true},
      zeros_(std::max(d.in, d.out)) {}

// Packed weights for all, and a panel for each thread.
size_t TiledConvolution::scratch_of(const Pass& pass) const {
  const Slabs slabs(pass.image, samples_, kSlabOutputs);
  return weights_of(pass) + team_.threads * slabs.panel_pixels() * std::min(kChunk, pass.image.channels);
}

size_t TiledConvolution::output_scratch() const {
  return scratch_of(forward_);
}

size_t TiledConvolution::input_gradient_scratch() const {
  return scratch_of(backward_);
}

void TiledConvolution::output(const float* x, const float* weight, const float* bias, float* scratch, float* y) const {
  run(forward_, x, weight, bias == nullptr ? zeros_.data() : bias, scratch, y);
}

void TiledConvolution::input_gradient(const float* dy, const float* weight, bool accumulate, float* scratch,
                                      float* dx) const {
  run(backward_, dy, weight, accumulate ? nullptr : zeros_.data(), scratch, dx);
}

// By tiles of columns, then chunks of channels.
void TiledConvolution::pack_weights(const Pass& pass, const float* weight, float* to) const {
  const size_t channels = pass.image.channels, columns = pass.columns;
  team_.share(columns / kTileChannels, 1, [&](size_t begin, size_t end) {
    for (size_t tile = begin; tile < end; ++tile) {
      float* at = to + tile * places_ * channels * kTileChannels;
      for (size_t c = 0; c < channels; c += kChunk) {
        const size_t count = std::min(kChunk, channels - c);
        if (pass.rotated) {
          kernels_.pack_rotated_weights(weight + c * places_ * columns + tile * kTileChannels, places_, count,
                                        places_ * columns, columns, at);
        } else {
          kernels_.pack_weights(weight + tile * kTileChannels * places_ * channels + c, places_, count,
                                places_ * channels, channels, at);
        }
        at += places_ * count * kTileChannels;
      }
    }
  });
}

void TiledConvolution::run(const Pass& pass, const float* x, const float* weight, const float* start, float* scratch,
                           float* y) const {
  const Slabs slabs(pass.image, samples_, kSlabOutputs);
  const size_t channels = pass.image.channels, columns = pass.columns;
  float* const weights = scratch;
  pack_weights(pass, weight, weights);
  const size_t part = team_.share_of(slabs.count(), 1), panel_size = slabs.panel_pixels() * std::min(kChunk, channels);
  team_.share(slabs.count(), 1, [&](size_t begin, size_t end) {
    float* const panel = scratch + weights_of(pass) + begin / part * panel_size;
    for (size_t i = begin; i < end; ++i) {
      const Slab slab = slabs.at(i);
      float* const to = y + slabs.first_output(i) * columns;
      for (size_t c = 0; c < channels; c += kChunk) {
        const size_t count = std::min(kChunk, channels - c);
        kernels_.pack_panel(x + slabs.read_from(i), pass.image, slab, c, count, panel);
        for (size_t o = 0; o < columns; o += kTileChannels) {
          kernels_.add_outputs(panel, pass.image, slab, count, weights + places_ * (o * channels + c * kTileChannels),
                               c == 0 && start != nullptr ? start + o : nullptr, columns, to + o);
        }
      }
    }
  });
}

// Panels of the whole input, and tiles of the whole gradient of the output, of one slab.
size_t TiledConvolution::parameter_gradients_scratch() const {
  const Slabs slabs(image_, samples_, slab_gradients(image_));
  return slabs.panel_pixels() * image_.channels + slabs.outputs() * parts_of(outputs_, kTileGradients) * kTileGradients;
}

void TiledConvolution::parameter_gradients(const float* x, const float* dy, float* scratch, float* dweight,
                                           float* dbias) const {
  const Slabs slabs(image_, samples_, slab_gradients(image_));
  const size_t in = image_.channels, panels = in / kTileChannels, tiles = parts_of(outputs_, kTileGradients);
  const size_t panel_size = slabs.panel_pixels() * kTileChannels, tile_size = slabs.outputs() * kTileGradients;
  float* const gradients = scratch + panels * panel_size;
  for (size_t i = 0; i < slabs.count(); ++i) {
    const Slab slab = slabs.at(i);
    team_.share(panels + tiles, 1, [&](size_t begin, size_t end) {
      for (size_t j = begin; j < std::min(end, panels); ++j) {
        kernels_.pack_panel(x + slabs.read_from(i), image_, slab, j * kTileChannels, kTileChannels,
                            scratch + j * panel_size);
      }
      for (size_t j = std::max(begin, panels); j < end; ++j) {
        kernels_.pack_gradients(dy + slabs.first_output(i) * outputs_, outputs_of(slab, image_), outputs_,
                                (j - panels) * kTileGradients, gradients + (j - panels) * tile_size);
      }
    });
    team_.share(panels * tiles, 1, [&](size_t begin, size_t end) {
      for (size_t j = begin; j < end; ++j) {
        const size_t panel = j / tiles, tile = j % tiles, first = tile * kTileGradients;
        kernels_.add_weights(scratch + panel * panel_size, gradients + tile * tile_size, image_, slab,
                             std::min(kTileGradients, outputs_ - first), places_ * in, in,
                             dweight + first * places_ * in + panel * kTileChannels);
      }
    });
  }
  if (dbias == nullptr) return;
  const size_t rows = samples_ * image_.out_height * image_.out_width;
  team_.share(outputs_, kTileChannels, [&](size_t begin, size_t end) {
    for (size_t r = 0; r < rows; r += kBiasRows) {
      team_.kernels.add_column_sums(dy + r * outputs_, std::min(kBiasRows, rows - r), outputs_, begin, end, dbias);
    }
  });
}

}  // namespace lockstep::trainer::backend::cpu
