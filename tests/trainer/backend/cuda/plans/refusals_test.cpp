// What cuDNN refuses of descriptors, as one suite for the fake of cuDNN and for the library itself. So a mistake that
// the library would refuse is found where there is only the fake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/plans/real_cudnn.h"

namespace lockstep::trainer::cuda {
namespace {

using Numbers = std::vector<std::int64_t>;
using Made = std::unique_ptr<DnnDescriptor, DnnStatus (*)(DnnDescriptor*)>;

// Makes descriptors; what it is not asked to leave out or spoil is that of a convolution of 3 x 3.
class Maker {
 public:
  explicit Maker(const Dnn& dnn) : dnn_(dnn) {}

  Made create(DnnKind kind) const {
    DnnDescriptor* made = nullptr;
    EXPECT_EQ(dnn_.create_descriptor(kind, &made), DnnStatus::kSuccess);
    return {made, dnn_.destroy_descriptor};
  }
  template <typename Element>
  DnnStatus set(const Made& of, DnnAttribute attribute, DnnType type, const std::vector<Element>& elements) const {
    return dnn_.set(of.get(), attribute, type, static_cast<std::int64_t>(elements.size()), elements.data());
  }
  DnnStatus set(const Made& of, DnnAttribute attribute, const Numbers& numbers) const {
    return set(of, attribute, DnnType::kInt64, numbers);
  }
  DnnStatus finalize(const Made& of) const { return dnn_.finalize(of.get()); }
  DnnStatus read(const Made& of, DnnAttribute attribute) const {
    std::int64_t count = 0;
    std::array<std::int64_t, 8> numbers{};
    return dnn_.get(of.get(), attribute, DnnType::kInt64, numbers.size(), &count, numbers.data());
  }

  Made tensor(std::int64_t id, const Numbers& dimensions, const Numbers& strides, std::int64_t alignment = 64) const {
    Made made = create(DnnKind::kTensor);
    set(made, DnnAttribute::kTensorType, DnnType::kDataType, std::vector{DnnDataType::kFloat32});
    set(made, DnnAttribute::kTensorId, Numbers{id});
    if (alignment != 0) set(made, DnnAttribute::kTensorAlignment, Numbers{alignment});
    if (!dimensions.empty()) set(made, DnnAttribute::kTensorDimensions, dimensions);
    if (!strides.empty()) set(made, DnnAttribute::kTensorStrides, strides);
    return made;
  }
  // Of images (n, h, w, c), or of weights.
  Made images(std::int64_t id, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) const {
    Made made = tensor(id, {n, c, h, w}, {h * w * c, 1, w * c, c});
    EXPECT_EQ(finalize(made), DnnStatus::kSuccess);
    return made;
  }
  Made x() const { return images(1, 2, 4, 5, 3); }
  Made weight() const { return images(2, 6, 3, 3, 3); }
  Made y() const { return images(3, 2, 4, 5, 6); }

  // An empty list leaves the attribute out.
  Made convolution(const Numbers& strides = {1, 1}, const Numbers& padding = {1, 1}, const Numbers& dilations = {1, 1},
                   const Numbers& dimensions = {2}) const {
    Made made = create(DnnKind::kConvolution);
    set(made, DnnAttribute::kConvolutionType, DnnType::kDataType, std::vector{DnnDataType::kFloat32});
    set(made, DnnAttribute::kConvolutionMode, DnnType::kMode, std::vector{DnnConvolutionMode::kCrossCorrelation});
    if (!dimensions.empty()) set(made, DnnAttribute::kConvolutionSpatial, dimensions);
    if (!dilations.empty()) set(made, DnnAttribute::kConvolutionDilations, dilations);
    if (!strides.empty()) set(made, DnnAttribute::kConvolutionStrides, strides);
    set(made, DnnAttribute::kConvolutionPrePaddings, padding);
    set(made, DnnAttribute::kConvolutionPostPaddings, padding);
    return made;
  }
  // The status of the operation with these parts; a null part is left out.
  DnnStatus operation(DnnKind kind, const Made& how, const Made& x, const Made& weight, const Made& y) const {
    // alpha, beta, convolution, weight, x, y follow each other in cuDNN's numbers.
    const DnnAttribute alpha = kind == DnnKind::kForward        ? DnnAttribute::kForwardAlpha
                               : kind == DnnKind::kDataGradient ? DnnAttribute::kDataGradientAlpha
                                                                : DnnAttribute::kFilterGradientAlpha;
    const auto attribute = [alpha](int i) { return static_cast<DnnAttribute>(static_cast<int>(alpha) + i); };
    const Made made = create(kind);
    set(made, attribute(0), DnnType::kFloat, std::vector{1.0F});
    set(made, attribute(1), DnnType::kFloat, std::vector{0.0F});
    int next = 2;
    for (const Made* part : {&how, &weight, &x, &y}) {
      if (*part != nullptr) set(made, attribute(next), DnnType::kDescriptor, std::vector{part->get()});
      ++next;
    }
    return finalize(made);
  }
  Made finalized(Made made) const {
    EXPECT_EQ(finalize(made), DnnStatus::kSuccess);
    return made;
  }
  static Made nothing() { return {nullptr, nullptr}; }

 private:
  const Dnn& dnn_;
};

struct Refusal {
  std::string what;
  DnnStatus status;
  std::function<DnnStatus(const Maker&)> attempt;
};

const std::vector<Refusal>& refusals_of_parts() {
  constexpr auto kBad = DnnStatus::kBadParam;
  static const std::vector<Refusal> all = {
      {"a tensor without dimensions", kBad,
       [](const Maker& m) {
         return m.finalize(m.tensor(1, {}, {60, 1, 15, 3}));
       }},
      {"a tensor without strides", kBad,
       [](const Maker& m) {
         return m.finalize(m.tensor(1, {2, 3, 4, 5}, {}));
       }},
      {"three strides for four dimensions", kBad,
       [](const Maker& m) {
         return m.finalize(m.tensor(1, {2, 3, 4, 5}, {60, 1, 15}));
       }},
      {"a tensor without an alignment", kBad,
       [](const Maker& m) {
         return m.finalize(m.tensor(1, {2, 3, 4, 5}, {60, 1, 15, 3}, 0));
       }},
      {"an alignment of 6 bytes", kBad,
       [](const Maker& m) {
         return m.finalize(m.tensor(1, {2, 3, 4, 5}, {60, 1, 15, 3}, 6));
       }},
      {"an attribute set once finalized", kBad,
       [](const Maker& m) { return m.set(m.x(), DnnAttribute::kTensorId, Numbers{7}); }},
      {"finalized twice", kBad, [](const Maker& m) { return m.finalize(m.x()); }},
      {"read before it is finalized", DnnStatus::kNotInitialized,
       [](const Maker& m) { return m.read(m.convolution(), DnnAttribute::kConvolutionStrides); }},
      {"strides that are floats", DnnStatus::kAttributeType,
       [](const Maker& m) {
         return m.set(m.convolution(), DnnAttribute::kConvolutionStrides, DnnType::kFloat, std::vector{1.0F, 1.0F});
       }},
      {"an attribute of another kind", kBad,
       [](const Maker& m) { return m.set(m.convolution(), DnnAttribute::kTensorId, Numbers{1}); }},
      {"two ids", kBad,
       [](const Maker& m) {
         return m.set(m.create(DnnKind::kTensor), DnnAttribute::kTensorId, Numbers{1, 2});
       }},
      {"a convolution without its number of dimensions", kBad,
       [](const Maker& m) {
         return m.finalize(m.convolution({1, 1}, {1, 1}, {1, 1}, {}));
       }},
      {"a convolution without strides", kBad, [](const Maker& m) { return m.finalize(m.convolution({})); }},
      {"a convolution without dilations", kBad,
       [](const Maker& m) {
         return m.finalize(m.convolution({1, 1}, {1, 1}, {}));
       }},
      {"a stride of 0", kBad,
       [](const Maker& m) {
         return m.finalize(m.convolution({0, 1}));
       }},
      {"a padding of -1", kBad,
       [](const Maker& m) {
         return m.finalize(m.convolution({1, 1}, {1, -1}));
       }},
      {"two ids and one pointer", kBad, [](const Maker& m) {
         const Made pack = m.create(DnnKind::kVariantPack);
         m.set(pack, DnnAttribute::kPackIds, Numbers{1, 2});
         m.set(pack, DnnAttribute::kPackPointers, DnnType::kVoidPointer, std::vector<void*>{nullptr});
         return m.finalize(pack);
       }}};
  return all;
}

struct Misfit {
  std::string what;
  std::function<DnnStatus(const Maker&, DnnKind)> attempt;  // for each kind of operation
};

const std::vector<Misfit>& misfits() {
  static const std::vector<Misfit> all = {
      {"a convolution that is not finalized",
       [](const Maker& m, DnnKind kind) { return m.operation(kind, m.convolution(), m.x(), m.weight(), m.y()); }},
      {"no convolution",
       [](const Maker& m, DnnKind kind) { return m.operation(kind, Maker::nothing(), m.x(), m.weight(), m.y()); }},
      {"no images",
       [](const Maker& m, DnnKind kind) {
         return m.operation(kind, m.finalized(m.convolution()), Maker::nothing(), m.weight(), m.y());
       }},
      {"no weights",
       [](const Maker& m, DnnKind kind) {
         return m.operation(kind, m.finalized(m.convolution()), m.x(), Maker::nothing(), m.y());
       }},
      {"no result",
       [](const Maker& m, DnnKind kind) {
         return m.operation(kind, m.finalized(m.convolution()), m.x(), m.weight(), Maker::nothing());
       }},
      {"sizes of another stride",
       [](const Maker& m, DnnKind kind) {
         return m.operation(kind, m.finalized(m.convolution({2, 1})), m.x(), m.weight(), m.y());
       }},
      {"sizes of another padding",
       [](const Maker& m, DnnKind kind) {
         return m.operation(kind, m.finalized(m.convolution({1, 1}, {1, 0})), m.x(), m.weight(), m.y());
       }},
      {"rows for columns",
       [](const Maker& m, DnnKind kind) {
         return m.operation(kind, m.finalized(m.convolution()), m.x(), m.weight(), m.images(3, 2, 5, 4, 6));
       }},
      {"images for weights",
       [](const Maker& m, DnnKind kind) {
         return m.operation(kind, m.finalized(m.convolution()), m.weight(), m.x(), m.y());
       }},
      {"3 channels in groups of 2", [](const Maker& m, DnnKind kind) {
         return m.operation(kind, m.finalized(m.convolution()), m.x(), m.images(2, 6, 3, 3, 2), m.y());
       }}};
  return all;
}

enum class Which : std::uint8_t { kFake, kReal };

class Refusals : public ::testing::TestWithParam<Which> {
 protected:
  void SetUp() override {
    const std::string why_not = GetParam() == Which::kReal ? testing::why_no_cudnn(CUDNN_LIBRARIES) : "";
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    auto opened = GetParam() == Which::kFake ? open_dnn(FAKE_CUDNN_LIBRARY) : testing::open_real_dnn(CUDNN_LIBRARIES);
    ASSERT_TRUE(opened) << opened.error().message;
    dnn_ = *opened;
  }

  Dnn dnn_;
};

TEST_P(Refusals, of_parts) {
  const Maker maker(dnn_);
  EXPECT_EQ(maker.finalize(maker.convolution()), DnnStatus::kSuccess);
  for (const Refusal& refusal : refusals_of_parts()) {
    EXPECT_EQ(refusal.attempt(maker), refusal.status) << refusal.what;
  }
}

TEST_P(Refusals, of_operations) {
  const Maker maker(dnn_);
  for (const DnnKind kind : {DnnKind::kForward, DnnKind::kDataGradient, DnnKind::kFilterGradient}) {
    EXPECT_EQ(maker.operation(kind, maker.finalized(maker.convolution()), maker.x(), maker.weight(), maker.y()),
              DnnStatus::kSuccess);
    for (const auto& [what, attempt] : misfits()) {
      EXPECT_EQ(attempt(maker, kind), DnnStatus::kBadParam) << what << ", kind " << static_cast<int>(kind);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfCudnn, Refusals, ::testing::Values(Which::kFake, Which::kReal),
                         [](const auto& given) { return given.param == Which::kFake ? "fake" : "real"; });

}  // namespace
}  // namespace lockstep::trainer::cuda
