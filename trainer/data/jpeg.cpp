#include "trainer/data/jpeg.h"

#include <fmt/format.h>
#include <turbojpeg.h>

#include <string_view>

namespace lockstep::trainer::data {

namespace {

const unsigned char* bytes_of(std::span<const std::byte> encoded) {
  return reinterpret_cast<const unsigned char*>(encoded.data());
}

}  // namespace

struct JpegDecoder::Handle {
  std::unique_ptr<void, decltype(&tjDestroy)> turbo{tjInitDecompress(), &tjDestroy};

  Error refuse() {
    const std::string_view why = tjGetErrorStr2(turbo.get());
    const bool no_memory = why.find("nsufficient memory") != std::string_view::npos;  // which is no damage
    Error error = fail(no_memory ? ErrorCode::kExhausted : ErrorCode::kCorrupt,
                       fmt::format("the JPEG cannot be decoded: {}", why));
    turbo.reset(tjInitDecompress());  // the old one may still be inside the damaged header
    return error;
  }
};

JpegDecoder::JpegDecoder() : handle_(std::make_unique<Handle>()) {}
JpegDecoder::~JpegDecoder() = default;

Status JpegDecoder::decode(std::span<const std::byte> encoded, const ImageSize& most, Image& image) {
  void* turbo = handle_->turbo.get();
  if (turbo == nullptr) return fail(ErrorCode::kExhausted, "no memory to decode a JPEG with");
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (tjDecompressHeader3(turbo, bytes_of(encoded), encoded.size(), &width, &height, &subsampling, &colours) != 0) {
    return handle_->refuse();
  }
  image.width = width;
  image.height = height;
  if (width > most.width || height > most.height) {
    return fail(ErrorCode::kInvalid, fmt::format("the JPEG of {} x {} pixels is larger than {} x {}", width, height,
                                                 most.width, most.height));
  }
  image.pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  // The exact transform is bitwise identical with and without vector instructions.
  constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  if (tjDecompress2(turbo, bytes_of(encoded), encoded.size(), image.pixels.data(), width, 0, height, TJPF_RGB,
                    kFlags) != 0) {
    return handle_->refuse();
  }
  return {};
}

Result<std::string> encode_jpeg(const Image& image, int quality) {
  const std::unique_ptr<void, decltype(&tjDestroy)> turbo(tjInitCompress(), &tjDestroy);
  unsigned char* made = nullptr;
  unsigned long bytes = 0;
  const bool failed = !turbo || tjCompress2(turbo.get(), image.pixels.data(), static_cast<int>(image.width), 0,
                                            static_cast<int>(image.height), TJPF_RGB, &made, &bytes, TJSAMP_444,
                                            quality, TJFLAG_ACCURATEDCT) != 0;
  const std::unique_ptr<unsigned char, decltype(&tjFree)> owner(made, &tjFree);
  if (failed) {
    return fail(ErrorCode::kInvalid, fmt::format("the image cannot be encoded: {}", tjGetErrorStr2(turbo.get())));
  }
  return std::string(reinterpret_cast<const char*>(made), bytes);
}

}  // namespace lockstep::trainer::data
