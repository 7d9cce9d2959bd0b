#include "trainer/backend/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>
#include <variant>

#include "trainer/backend/cuda/blas.h"
#include "trainer/backend/cuda/convolution.h"
#include "trainer/backend/cuda/copies.h"
#include "trainer/backend/cuda/device_memory.h"
#include "trainer/backend/cuda/device_queue.h"
#include "trainer/backend/cuda/error_code.h"
#include "trainer/backend/cuda/fusion.h"
#include "trainer/backend/cuda/image_ring.h"
#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/attention.h"
#include "trainer/backend/cuda/kernels/fixed_point.h"
#include "trainer/backend/cuda/kernels/norm.h"
#include "trainer/backend/cuda/update.h"
#include "trainer/cuda/mutation.h"
#include "trainer/cuda/runtime.h"

namespace lockstep::trainer::backend {

namespace {

using trainer::cuda::Blas;
using trainer::cuda::BlasHandle;
using trainer::cuda::BlasPlace;
using trainer::cuda::BlasStatus;
using trainer::cuda::CudaAttribute;
using trainer::cuda::CudaRuntime;
using trainer::cuda::DeviceMemory;
using trainer::cuda::DeviceQueue;
using trainer::cuda::DeviceScratch;
using trainer::cuda::Dnn;
using trainer::cuda::DnnPlace;
using trainer::cuda::DnnStatus;
using trainer::cuda::ImageRing;

// Part of the numerics. It grows with each change of the kernels that changes a bit of their results.
constexpr int kKernelsRevision = 2;

// Of the compute capability: the oldest machine that cmake/cuda.cmake compiles the kernels for.
constexpr int kLeastMajor = 8;

// What NVIDIA's manual advises for its newest GPUs.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// The driver may free the memory of a process that was killed some seconds after its end.
constexpr std::chrono::seconds kPatience{20};

// Single numbers in memory of the device. Work that uses one is enqueued before the next that does.
struct Cells {
  std::int64_t flags[2];
  std::uint64_t largest;
  double norm;
  double norms[2];
  std::uint64_t digest;
  std::uint64_t bad_index;
};

// 13020 is 13.2.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

class CudaBackend final : public core::Backend {
 public:
  CudaBackend(const CudaRuntime& runtime, const Blas& blas, const Result<Dnn>& dnn, int device, Precision precision)
      : runtime_(runtime), blas_(blas), dnn_(dnn), device_(device), precision_(precision) {}
  ~CudaBackend() override {
    if (queue_) static_cast<void>(queue_->wait(queue_->mark()));
    if (queue_ && queue_->hangs()) return;
    if (queue_) queue_->enter();
    if (place_.handle != nullptr) blas_.destroy(place_.handle);
    if (dnn_place_) dnn_->destroy(dnn_place_->handle);
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  Status set_up() {
    LOCKSTEP_TRY(queue_, DeviceQueue::create(runtime_, device_));
    LOCKSTEP_CHECK_OK(name_numerics());
    scratch_.emplace(*queue_);
    images_.emplace(*queue_);
    LOCKSTEP_TRY(cell_memory_, DeviceMemory::allocate(*queue_, sizeof(Cells), kPatience));
    LOCKSTEP_CHECK_OK(launch_one());
    LOCKSTEP_TRY(workspace_, DeviceMemory::allocate(*queue_, kWorkspaceBytes, kPatience));
    if (const BlasStatus status = blas_.create(&place_.handle); status != BlasStatus::kSuccess) {
      return fail(trainer::cuda::code_of(status),
                  fmt::format("cuBLASLt cannot be used on GPU {}: {}", device_, blas_.status_string(status)));
    }
    place_.workspace = workspace_->data();
    place_.workspace_bytes = kWorkspaceBytes;
    return {};
  }

  const char* name() const override { return "cuda"; }
  core::ElementType real() const override { return core::ElementType::kFloat32; }
  int threads() const override { return 1; }
  std::string numerics() const override { return numerics_; }

  Result<std::unique_ptr<core::Memory>> allocate(size_t bytes) override {
    LOCKSTEP_TRY(auto memory, DeviceMemory::allocate(*queue_, bytes, kPatience));
    return std::unique_ptr<core::Memory>(std::move(memory));
  }
  Result<core::Lowered> lower(const core::Graph& graph, bool trains) override {
    for (const core::Node& node : graph.nodes) LOCKSTEP_CHECK_OK(get_ready(graph, node));
    core::Lowered lowered = lower_nodes(graph, trains, real(), cuda::runs_of(graph, rounds()), [&](const Run& run) {
      const Needs needs = needs_of(graph, run);
      return takes_copies(run) ? cuda::with_copies(graph, graph.nodes[run.first], needs) : needs;
    });
    if (rounds()) narrow(graph, lowered);
    return lowered;
  }
  Result<std::unique_ptr<core::Executable>> bind(const core::Graph& graph, const core::Lowered& lowered,
                                                 const core::Addresses& addresses) override {
    queue_->enter();
    LOCKSTEP_CHECK_OK(images_->reserve(pixels_of(graph)));
    Status status;
    auto executable = bind_nodes(graph, lowered, addresses, [&](const Run& run, Bindings bindings) {
      const core::Node& node = graph.nodes[run.first];
      cuda::Site site{.at = {.graph = graph, .node = node, .bindings = std::move(bindings)},
                      .queue = *queue_,
                      .blas = place_,
                      .dnn = dnn_place_ ? &*dnn_place_ : nullptr,
                      .scratch = *scratch_,
                      .bad_index = &cells()->bad_index,
                      .precision = precision_};
      const auto make = [&](cuda::Site of_kernel) {
        if (run.count > 1) return cuda::make_kernel(norm_block_of(graph, run), std::move(of_kernel));
        return std::visit([&](const auto& op) { return cuda::make_kernel(op, std::move(of_kernel)); }, node.op);
      };
      auto kernel =
          takes_copies(run) ? cuda::make_on_copies(std::move(site), needs_of(graph, run), make) : make(std::move(site));
      if (kernel) return std::move(*kernel);
      if (status) status = kernel.error();
      return std::unique_ptr<Kernel>();
    });
    LOCKSTEP_CHECK_OK(status);
    return executable;
  }
  void enter() override { queue_->enter(); }

  std::byte* host(std::byte*) override { return nullptr; }
  void clear(std::byte* to, size_t bytes) override { queue_->fill(to, 0, bytes); }
  void write(std::byte* to, const void* from, size_t bytes) override { queue_->write(to, from, bytes); }
  void read(void* to, const std::byte* from, size_t bytes) override { queue_->read(to, from, bytes); }
  void write_pixels(std::byte* to, const std::uint8_t* from, size_t count, const core::PixelValues& values) override {
    images_->write(reinterpret_cast<float*>(to), from, count, values);
  }
  core::Mark mark() override { return queue_->mark(); }
  bool reached(core::Mark mark) override { return queue_->reached(mark); }
  Status wait(core::Mark mark) override { return queue_->wait(mark); }

  int gpu() const override { return device_; }
  trainer::cuda::CudaEvent* event(core::Mark mark) override { return queue_->event(mark); }

  void round_and_clear(std::byte* values, size_t count, int exponent, bool add, std::byte* sums,
                       core::RoundingFlags* flags) override {
    queue_->fill(&cells()->flags, 0, sizeof cells()->flags);
    queue_->keep(trainer::cuda::round_and_clear(queue_->stream(), reinterpret_cast<float*>(values),
                                                reinterpret_cast<std::int64_t*>(sums), static_cast<std::int64_t>(count),
                                                exponent, add, cells()->flags));
    queue_->gather(flags, cells()->flags);
  }
  void unround(const std::byte* sums, size_t count, int exponent, std::byte* values, std::uint64_t* largest) override {
    queue_->fill(&cells()->largest, 0, sizeof cells()->largest);
    queue_->keep(trainer::cuda::unround(queue_->stream(), reinterpret_cast<const std::int64_t*>(sums),
                                        reinterpret_cast<float*>(values), static_cast<std::int64_t>(count), exponent,
                                        &cells()->largest));
    queue_->read(largest, &cells()->largest, sizeof *largest);
  }
  void norm(const std::byte* values, size_t count, double* norm) override {
    const auto elements = static_cast<std::int64_t>(count);
    queue_->enter();
    if (!reserve(trainer::cuda::norm_scratch(elements))) return;
    queue_->keep(trainer::cuda::norm(queue_->stream(), reinterpret_cast<const float*>(values), elements, &cells()->norm,
                                     scratch_->data()));
    queue_->read(norm, &cells()->norm, sizeof *norm);
  }

  std::uint64_t update(const core::Optimizer& optimizer, const core::Update& update) override {
    if (const Status done = try_update(optimizer, update); !done) end_process(done.error());
    return digest_;
  }

 private:
  bool rounds() const { return precision_ == Precision::kBfloat16; }

  // Runs of several nodes are chosen so that they need none.
  bool takes_copies(const Run& run) const { return rounds() && run.count == 1; }

  static Needs needs_of(const core::Graph& graph, const Run& run) {
    const core::Node& first = graph.nodes[run.first];
    const Dimensions d = dimensions_of(graph, first);
    if (run.count > 1) return cuda::needs_of(norm_block_of(graph, run), d);
    return std::visit([&](const auto& op) { return cuda::needs_of(op, d); }, first.op);
  }

  // Of a micro-batch of images, which the loader may write as bytes; 0: the graph reads none.
  static size_t pixels_of(const core::Graph& graph) {
    const auto inputs = graph.with_role(core::Role::kInput);
    const core::Tensor* const first = inputs.empty() ? nullptr : &graph.tensor(inputs.front());
    const bool images = first != nullptr && first->number == core::Number::kReal && first->shape.size() == 4 &&
                        first->shape.back() == std::int64_t{core::kColours};
    return images ? static_cast<size_t>(core::count_of(first->shape)) : 0;
  }

  // Activations and their gradients take half the bytes.
  static void narrow(const core::Graph& graph, core::Lowered& lowered) {
    static_assert(2 * sizeof(trainer::cuda::Bfloat16) == sizeof(float));
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      if (graph.tensors[i].role != core::Role::kActivation) continue;
      lowered.gradient_bytes[i] /= 2;
      if (!cuda::is_float(graph, static_cast<core::TensorId>(i))) lowered.value_bytes[i] /= 2;
    }
  }

  // Starts what the node needs. kInvalid: this backend cannot compute the node. kNotFound: cuDNN is missing.
  // kExhausted: cuDNN cannot start.
  Status get_ready(const core::Graph& graph, const core::Node& node) {
    if (const auto* op = std::get_if<core::ops::Conv2d>(&node.op)) {
      if (!cuda::needs_dnn(*op, dimensions_of(graph, node))) return {};
      const Status started = start_dnn();
      if (!started) return started.error().in(fmt::format("layer '{}'", node.name));
      return {};
    }
    if (!std::holds_alternative<core::ops::CausalAttention>(node.op)) return {};
    const size_t positions = dimensions_of(graph, node).positions;
    if (positions <= static_cast<size_t>(trainer::cuda::kMaxPositions)) return {};
    return fail(ErrorCode::kInvalid, fmt::format("layer '{}': --backend=cuda computes attention over at most {} "
                                                 "positions, and this has {}",
                                                 node.name, trainer::cuda::kMaxPositions, positions));
  }

  Status start_dnn() {
    if (dnn_place_) return {};
    if (!dnn_) return dnn_.error();
    queue_->enter();
    DnnPlace place{.dnn = *dnn_};
    if (const DnnStatus status = dnn_->create(&place.handle); status != DnnStatus::kSuccess) {
      return fail(trainer::cuda::code_of(status),
                  fmt::format("cuDNN cannot be used on GPU {}: {}", device_, dnn_->status_string(status)));
    }
    dnn_place_.emplace(place);
    return {};
  }

  // kNotFound: the kernels are not compiled for this GPU.
  Status name_numerics() {
    int driver = 0, runtime = 0, major = 0, minor = 0;
    const std::string where = fmt::format("GPU {} does not say what it is", device_);
    LOCKSTEP_CHECK_OK(queue_->status_of(runtime_.driver_get_version(&driver), where));
    LOCKSTEP_CHECK_OK(queue_->status_of(runtime_.runtime_get_version(&runtime), where));
    LOCKSTEP_CHECK_OK(queue_->status_of(
        runtime_.device_get_attribute(&major, CudaAttribute::kComputeCapabilityMajor, device_), where));
    LOCKSTEP_CHECK_OK(queue_->status_of(
        runtime_.device_get_attribute(&minor, CudaAttribute::kComputeCapabilityMinor, device_), where));
    if (major < kLeastMajor) {
      return fail(ErrorCode::kNotFound,
                  fmt::format("GPU {} ({}) has compute capability {}.{}, and this program's kernels need {}.0 or later",
                              device_, queue_->device_name(), major, minor, kLeastMajor));
    }
    numerics_ =
        fmt::format("cuda/{}/{}/sm-{}{}/driver-{}/runtime-{}/cublaslt-{}/cudnn-{}/kernels-{}", name_of(precision_),
                    queue_->device_name(), major, minor, version_text(driver), version_text(runtime),
                    blas_.get_version(), dnn_ ? std::to_string(dnn_->get_version()) : "none", kKernelsRevision);
    return {};
  }

  // The runtime in the program starts with the first kernel. kNotFound: it or the kernels do not suit the driver.
  Status launch_one() {
    return queue_->status_of(
        trainer::cuda::norm(queue_->stream(), nullptr, 0, &cells()->norm, nullptr),
        fmt::format("GPU {} ({}) cannot run this program's kernels", device_, queue_->device_name()));
  }

  Cells* cells() const { return reinterpret_cast<Cells*>(cell_memory_->data()); }  // an address of the device

  // Scratch of so many bytes. False: there is not enough memory, which the next wait says.
  bool reserve(size_t bytes) {
    const bool reserved = scratch_->reserve(bytes).ok();
    if (!reserved) queue_->keep(trainer::cuda::CudaError::kMemoryAllocation);
    return reserved;
  }

  Status try_update(const core::Optimizer& optimizer, const core::Update& update) {
    if (reserve(trainer::cuda::update_scratch(optimizer, *update.layout))) {
      LOCKSTEP_CHECK_OK(
          enqueue_update(*queue_, optimizer, update,
                         {.digest = &cells()->digest, .norms = cells()->norms, .scratch = scratch_->data()}));
      queue_->read(&digest_, &cells()->digest, sizeof digest_);
    }
    if (trainer::cuda::mutation() == trainer::cuda::Mutation::kCommitEarly) return {};
    return queue_->wait(queue_->mark());
  }

  // Half an update leaves no state to continue from.
  [[noreturn]] static void end_process(const Error& error) {
    std::fprintf(stderr, "lockstep-trainer: the optimizer's update did not end: %s\n", error.message.c_str());
    std::fflush(stderr);
    std::_Exit(kExitDeviceLost);
  }

  const CudaRuntime& runtime_;
  const Blas blas_;
  const Result<Dnn> dnn_;
  const int device_;
  const Precision precision_;
  std::string numerics_;
  std::unique_ptr<DeviceQueue> queue_;
  std::unique_ptr<DeviceMemory> cell_memory_, workspace_;
  std::optional<DeviceScratch> scratch_;
  std::optional<ImageRing> images_;
  BlasPlace place_{.blas = blas_};
  std::optional<DnnPlace> dnn_place_;  // once a graph needs it
  std::uint64_t digest_ = 0;           // of the latest update
};

Result<Dnn> open_dnn_beside(const Blas& blas, const std::string& library) {
  LOCKSTEP_TRY(const Dnn dnn, trainer::cuda::open_dnn(library));
  const size_t of_dnn = dnn.get_cudart_version() / 1000, of_blas = blas.get_version() / 10000;
  if (of_dnn != of_blas) {
    return fail(ErrorCode::kNotFound,
                fmt::format("cuDNN is built for CUDA {}, and cuBLASLt is of CUDA {}; give the paths of two that belong "
                            "together with --cudnn-library and --cublaslt-library",
                            of_dnn, of_blas));
  }
  return dnn;
}

}  // namespace

Result<std::unique_ptr<core::Backend>> make_cuda_backend(const CudaOptions& options) {
  LOCKSTEP_TRY(const CudaRuntime* const runtime, trainer::cuda::load_cuda_runtime(options.cudart));
  LOCKSTEP_TRY(const int gpus, trainer::cuda::count_gpus(*runtime));
  LOCKSTEP_TRY(const Blas blas, trainer::cuda::open_blas(options.cublaslt));
  auto backend = std::make_unique<CudaBackend>(*runtime, blas, open_dnn_beside(blas, options.cudnn),
                                               options.local_rank % gpus, options.precision);
  LOCKSTEP_CHECK_OK(backend->set_up());
  return std::unique_ptr<core::Backend>(std::move(backend));
}

}  // namespace lockstep::trainer::backend
