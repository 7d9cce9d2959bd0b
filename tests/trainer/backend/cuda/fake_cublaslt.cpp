// A fake of cuBLASLt for machines without a GPU, as a shared library (libfakecublaslt.so) with the names of the real
// one: trainer/backend/cuda/blas.h loads it unchanged. It is not NVIDIA's. A product is computed from what its
// descriptors hold, in the order of the stream of the fake runtime (tests/trainer/cuda/fake_cuda.h). It is computed in
// double, and rounded once to the result's type. Where the preference allows sums in that type, it is split, and each
// half rounded. Where the product's type of arithmetic allows TF32, both operands are rounded to it.
//
// As strict as the library may be:
//   * an attribute of another size, or a number that this fake does not know: kInvalidValue;
//   * sizes that do not fit each other, a stride shorter than a column: kInvalidValue;
//   * two operands of different types, a result that is less precise than they are, or TF32 of others than float32:
//     kNotSupported;
//   * an algorithm runs the product that it was found for, with the workspace that it asked for, on addresses aligned
//     as the preference promised; else kInvalidValue;
//   * an address or an extent that is not of the device ends the process with a sentence, as in the fake runtime.
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "tests/trainer/backend/cuda/fake_numbers.h"
#include "tests/trainer/cuda/fake_cuda.h"
#include "trainer/backend/cuda/blas.h"

namespace lockstep::trainer::cuda {

// What the program sees as opaque.
struct BlasHandle {
  int unused = 0;
};
struct BlasProduct {
  BlasCompute compute = BlasCompute::kFloat32;
  BlasOperation a_as = BlasOperation::kNone, b_as = BlasOperation::kNone;
  BlasEpilogue epilogue = BlasEpilogue::kDefault;
  const void* bias = nullptr;
};
struct BlasLayout {
  BlasType type = BlasType::kFloat32;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t stride = 0;

  bool operator==(const BlasLayout&) const = default;
};
struct BlasPreference {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reductions = 7;
  std::array<std::uint32_t, 4> alignment = {256, 256, 256, 256};  // of A, B, C, D
};

namespace {

// What a heuristic stands for, hidden in the words of its algorithm.
struct Planned {
  std::uint64_t magic;
  std::uint64_t problem;
  std::uint64_t workspace_bytes;
  std::array<std::uint32_t, 4> alignment;
  std::uint64_t splits;  // whether it sums each half of k in the result's type
};
constexpr std::uint64_t kMagic = 0x6c74;
static_assert(sizeof(Planned) <= sizeof(BlasAlgorithm));

// What a large product asks for, if it may.
constexpr std::uint64_t kWorkspaceBytes = 1 << 20;

template <typename Value>
BlasStatus take(Value& value, const void* from, size_t bytes) {
  if (from == nullptr || bytes != sizeof value) return BlasStatus::kInvalidValue;
  std::memcpy(&value, from, bytes);
  return BlasStatus::kSuccess;
}

struct Sizes {
  std::uint64_t m = 0, n = 0, k = 0;
};

// False: the layouts do not fit each other.
bool sizes_of(const BlasProduct& product, const BlasLayout& a, const BlasLayout& b, const BlasLayout& c,
              const BlasLayout& d, Sizes& sizes) {
  const bool a_is = product.a_as == BlasOperation::kNone, b_is = product.b_as == BlasOperation::kNone;
  sizes = {.m = a_is ? a.rows : a.columns, .n = b_is ? b.columns : b.rows, .k = a_is ? a.columns : a.rows};
  for (const BlasLayout* layout : {&a, &b, &c, &d}) {
    if (layout->rows == 0 || layout->columns == 0) return false;
    if (layout->stride < static_cast<std::int64_t>(layout->rows)) return false;
  }
  return (b_is ? b.rows : b.columns) == sizes.k && d.rows == sizes.m && d.columns == sizes.n && c == d;
}

std::uint64_t problem_of(const BlasProduct& product, const BlasLayout& a, const BlasLayout& b, const BlasLayout& d) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto add = [&](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3ULL; };
  add(static_cast<std::uint64_t>(product.compute));
  add(static_cast<std::uint64_t>(product.a_as));
  add(static_cast<std::uint64_t>(product.b_as));
  add(static_cast<std::uint64_t>(product.epilogue));
  for (const BlasLayout* layout : {&a, &b, &d}) {
    add(static_cast<std::uint64_t>(layout->type));
    add(layout->rows);
    add(layout->columns);
    add(static_cast<std::uint64_t>(layout->stride));
  }
  return hash;
}

bool is_bfloat16(const BlasLayout& layout) {
  return layout.type == BlasType::kBfloat16;
}

// Numbers from the first to the last.
size_t extent_of(const BlasLayout& layout) {
  return static_cast<size_t>(layout.stride) * (layout.columns - 1) + layout.rows;
}

// `count` numbers of the matrix's type.
void* numbers_at(const void* address, const BlasLayout& layout, size_t count) {
  return fake::inside(address, count * (is_bfloat16(layout) ? sizeof(std::uint16_t) : sizeof(float)));
}

fake::Numbers read(const void* address, const BlasLayout& layout, size_t count) {
  return {numbers_at(address, layout, count), is_bfloat16(layout), count};
}

// One product, with all that its work needs: the descriptors may be gone by then.
struct Work {
  BlasProduct product;
  Sizes sizes;
  BlasLayout a_layout, b_layout, d_layout;
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  float alpha = 1, beta = 0;
  bool splits = false;

  void run() const {
    const fake::Numbers a_numbers = read(a, a_layout, extent_of(a_layout));
    const fake::Numbers b_numbers = read(b, b_layout, extent_of(b_layout));
    const fake::Numbers c_numbers = read(c, d_layout, extent_of(d_layout));
    const bool biased = product.epilogue == BlasEpilogue::kBias;
    const fake::Numbers bias_numbers = read(biased ? product.bias : d, d_layout, biased ? sizes.m : 1);
    const float *left = a_numbers.data(), *right = b_numbers.data(), *before = c_numbers.data();
    const float* added = bias_numbers.data();
    void* const result = numbers_at(d, d_layout, extent_of(d_layout));
    // Partial sums of an algorithm that splits k lie there: whatever it held is gone.
    if (workspace_bytes > 0) std::memset(fake::inside(workspace, workspace_bytes), 0xff, workspace_bytes);
    const bool a_is = product.a_as == BlasOperation::kNone, b_is = product.b_as == BlasOperation::kNone;
    const bool tf32 = product.compute == BlasCompute::kTf32;
    const auto operand = [tf32](float value) { return static_cast<double>(tf32 ? fake::to_tf32(value) : value); };
    const auto a_stride = static_cast<size_t>(a_layout.stride), b_stride = static_cast<size_t>(b_layout.stride);
    const auto d_stride = static_cast<size_t>(d_layout.stride);
    std::vector<double> column(sizes.m);
    for (size_t j = 0; j < sizes.n; ++j) {
      for (size_t i = 0; i < sizes.m; ++i) column[i] = biased ? added[i] : 0;
      for (size_t l = 0; l < sizes.k; ++l) {
        const double factor = static_cast<double>(alpha) * operand(right[b_is ? l + j * b_stride : j + l * b_stride]);
        const float* values = left + (a_is ? l * a_stride : l);
        const size_t step = a_is ? 1 : a_stride;
        for (size_t i = 0; i < sizes.m; ++i) column[i] += factor * operand(values[i * step]);
        if (!splits || l != sizes.k / 2 || !is_bfloat16(d_layout)) continue;
        for (double& sum : column) sum = fake::from_bfloat16(fake::to_bfloat16(static_cast<float>(sum)));
      }
      for (size_t i = 0; i < sizes.m; ++i) {
        const size_t at = i + j * d_stride;
        const double old = beta == 0 ? 0.0 : static_cast<double>(beta) * before[at];  // what is not read may be NaN
        fake::put(result, is_bfloat16(d_layout), at, column[i] + old);
      }
    }
  }
};

bool aligned(const void* address, std::uint32_t to) {
  return reinterpret_cast<std::uintptr_t>(address) % to == 0;
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() {
  return 130401;
}

BlasStatus cublasLtCreate(BlasHandle** handle) {
  *handle = new BlasHandle;
  return BlasStatus::kSuccess;
}

BlasStatus cublasLtDestroy(BlasHandle* handle) {
  delete handle;
  return BlasStatus::kSuccess;
}

const char* cublasLtGetStatusString(BlasStatus status) {
  static const std::map<BlasStatus, const char*> texts = {
      {BlasStatus::kSuccess, "the call succeeded"},
      {BlasStatus::kNotInitialized, "the library is not initialised"},
      {BlasStatus::kAllocFailed, "there is not enough memory"},
      {BlasStatus::kInvalidValue, "an argument has a value that is not valid"},
      {BlasStatus::kExecutionFailed, "the work could not be started"},
      {BlasStatus::kNotSupported, "no algorithm computes this"}};
  const auto text = texts.find(status);
  return text == texts.end() ? "unknown" : text->second;
}

BlasStatus cublasLtMatmulDescCreate(BlasProduct** product, BlasCompute compute, BlasType scale) {
  if (compute != BlasCompute::kFloat32 && compute != BlasCompute::kTf32) return BlasStatus::kInvalidValue;
  if (scale != BlasType::kFloat32) return BlasStatus::kInvalidValue;
  *product = new BlasProduct{.compute = compute};
  return BlasStatus::kSuccess;
}

BlasStatus cublasLtMatmulDescDestroy(BlasProduct* product) {
  delete product;
  return BlasStatus::kSuccess;
}

BlasStatus cublasLtMatmulDescSetAttribute(BlasProduct* product, BlasProductAttribute attribute, const void* value,
                                          size_t bytes) {
  switch (attribute) {
    case BlasProductAttribute::kTransposeA:
      return take(product->a_as, value, bytes);
    case BlasProductAttribute::kTransposeB:
      return take(product->b_as, value, bytes);
    case BlasProductAttribute::kEpilogue:
      return take(product->epilogue, value, bytes);
    case BlasProductAttribute::kBiasPointer:
      return take(product->bias, value, bytes);
  }
  return BlasStatus::kInvalidValue;
}

BlasStatus cublasLtMatrixLayoutCreate(BlasLayout** layout, BlasType type, std::uint64_t rows, std::uint64_t columns,
                                      std::int64_t stride) {
  if (type != BlasType::kFloat32 && type != BlasType::kBfloat16) return BlasStatus::kInvalidValue;
  *layout = new BlasLayout{.type = type, .rows = rows, .columns = columns, .stride = stride};
  return BlasStatus::kSuccess;
}

BlasStatus cublasLtMatrixLayoutDestroy(BlasLayout* layout) {
  delete layout;
  return BlasStatus::kSuccess;
}

BlasStatus cublasLtMatmulPreferenceCreate(BlasPreference** preference) {
  *preference = new BlasPreference;
  return BlasStatus::kSuccess;
}

BlasStatus cublasLtMatmulPreferenceDestroy(BlasPreference* preference) {
  delete preference;
  return BlasStatus::kSuccess;
}

BlasStatus cublasLtMatmulPreferenceSetAttribute(BlasPreference* preference, BlasPreferenceAttribute attribute,
                                                const void* value, size_t bytes) {
  switch (attribute) {
    case BlasPreferenceAttribute::kMaxWorkspaceBytes:
      return take(preference->workspace_bytes, value, bytes);
    case BlasPreferenceAttribute::kReductions:
      return take(preference->reductions, value, bytes);
    case BlasPreferenceAttribute::kMinAlignmentA:
    case BlasPreferenceAttribute::kMinAlignmentB:
    case BlasPreferenceAttribute::kMinAlignmentC:
    case BlasPreferenceAttribute::kMinAlignmentD:
      return take(preference->alignment[static_cast<size_t>(attribute) -
                                        static_cast<size_t>(BlasPreferenceAttribute::kMinAlignmentA)],
                  value, bytes);
  }
  return BlasStatus::kInvalidValue;
}

BlasStatus cublasLtMatmulAlgoGetHeuristic(BlasHandle* handle, BlasProduct* product, BlasLayout* a, BlasLayout* b,
                                          BlasLayout* c, BlasLayout* d, BlasPreference* preference, int wanted,
                                          BlasHeuristic* results, int* found) {
  *found = 0;
  Sizes sizes;
  if (handle == nullptr || wanted < 1) return BlasStatus::kInvalidValue;
  if (!sizes_of(*product, *a, *b, *c, *d, sizes)) return BlasStatus::kInvalidValue;
  if (a->type != b->type || (is_bfloat16(*d) && !is_bfloat16(*a))) return BlasStatus::kNotSupported;
  if (product->compute == BlasCompute::kTf32 && is_bfloat16(*a)) return BlasStatus::kNotSupported;
  const bool biased = product->epilogue == BlasEpilogue::kBias;
  if (!biased && product->epilogue != BlasEpilogue::kDefault) return BlasStatus::kNotSupported;
  if (biased && product->bias == nullptr) return BlasStatus::kInvalidValue;
  const Planned planned{.magic = kMagic,
                        .problem = problem_of(*product, *a, *b, *d),
                        .workspace_bytes = preference->workspace_bytes >= kWorkspaceBytes ? kWorkspaceBytes : 0,
                        .alignment = preference->alignment,
                        .splits = (preference->reductions & ~kBlasReductionOfSums) != 0 ? 1U : 0U};
  results[0] = {.workspace_bytes = planned.workspace_bytes, .state = BlasStatus::kSuccess, .waves = 1};
  std::memcpy(&results[0].algorithm, &planned, sizeof planned);
  *found = 1;
  return BlasStatus::kSuccess;
}

BlasStatus cublasLtMatmul(BlasHandle* handle, BlasProduct* product, const void* alpha, const void* a,
                          BlasLayout* a_layout, const void* b, BlasLayout* b_layout, const void* beta, const void* c,
                          BlasLayout* c_layout, void* d, BlasLayout* d_layout, const BlasAlgorithm* algorithm,
                          void* workspace, size_t workspace_bytes, CudaStream* stream) {
  Work work{.product = *product,
            .a_layout = *a_layout,
            .b_layout = *b_layout,
            .d_layout = *d_layout,
            .a = a,
            .b = b,
            .c = c,
            .d = d,
            .workspace = workspace};
  if (handle == nullptr || algorithm == nullptr) return BlasStatus::kInvalidValue;
  if (!sizes_of(*product, *a_layout, *b_layout, *c_layout, *d_layout, work.sizes)) return BlasStatus::kInvalidValue;
  Planned planned{};
  std::memcpy(&planned, algorithm, sizeof planned);
  if (planned.magic != kMagic) return BlasStatus::kInvalidValue;
  if (planned.problem != problem_of(*product, *a_layout, *b_layout, *d_layout)) return BlasStatus::kInvalidValue;
  if (workspace_bytes < planned.workspace_bytes) return BlasStatus::kInvalidValue;
  if (planned.workspace_bytes > 0 && !aligned(workspace, 256)) return BlasStatus::kInvalidValue;
  const std::array<const void*, 4> operands = {a, b, c, d};
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!aligned(operands[i], planned.alignment[i])) return BlasStatus::kInvalidValue;
  }
  work.workspace_bytes = planned.workspace_bytes;
  work.splits = planned.splits != 0;
  std::memcpy(&work.alpha, alpha, sizeof work.alpha);
  std::memcpy(&work.beta, beta, sizeof work.beta);
  const CudaError error = fake::launch(stream, [work] { work.run(); });
  return error == CudaError::kSuccess ? BlasStatus::kSuccess : BlasStatus::kExecutionFailed;
}

}  // extern "C"

}  // namespace lockstep::trainer::cuda
