#include "trainer/core/state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "trainer/core/digest.h"
#include "trainer/core/fixed_point.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/random.h"

namespace lockstep::trainer::core {

namespace {

template <typename Real>
void fill(const Tensor& tensor, std::uint64_t key, Real* data) {
  auto count = static_cast<std::uint64_t>(count_of(tensor.shape));
  for (std::uint64_t i = 0; i < count; ++i) {
    switch (tensor.fill) {
      case Fill::kZero:
        data[i] = 0;
        break;
      case Fill::kOne:
        data[i] = 1;
        break;
      // Rounded to float32 also where the backend is double, so that backends can be compared.
      case Fill::kNormal:
        data[i] = static_cast<float>(normal(key, i) * tensor.deviation);
        break;
    }
  }
}

}  // namespace

State::State(const Graph& graph, Backend& backend, const Layout& layout, std::vector<std::string> slot_names)
    : graph_(graph), backend_(backend), layout_(layout), real_(backend.real()), slot_names_(std::move(slot_names)) {}

Result<std::unique_ptr<State>> State::create(const Graph& graph, Backend& backend, const Layout& layout,
                                             const std::vector<std::string>& slots) {
  std::unique_ptr<State> state(new State(graph, backend, layout, slots));
  size_t bytes = layout.count * size_of(backend.real());
  LOCKSTEP_TRY(state->parameters, backend.allocate(bytes));
  for (size_t i = 0; i < slots.size(); ++i) {
    LOCKSTEP_TRY(auto memory, backend.allocate(bytes));
    state->slots.push_back(std::move(memory));
  }
  if (bytes > 0 && backend.host(state->parameters->data()) == nullptr) state->copy_.resize(state->arenas() * bytes);
  std::vector<TensorId> statistics = graph.with_role(Role::kStatistic);
  size_t count = 0;
  for (TensorId id : statistics) count += static_cast<size_t>(count_of(graph.tensor(id).shape));
  state->statistics.assign(count, 0.0);
  state->table.loss = layout.segments.size();
  state->table.statistics = state->table.loss + 1;
  state->table.count = state->table.statistics + statistics.size();
  state->exponents.assign(state->table.count, kFirstExponent);
  return state;
}

std::byte* State::view(size_t part) {
  return copy_.empty() ? backend_.host(arena(part)) : copy_.data() + part * arena_bytes();
}

Status State::fetch() {
  if (copy_.empty()) return {};
  for (size_t part = 0; part < arenas(); ++part) backend_.read(view(part), arena(part), arena_bytes());
  return settled();
}

Status State::written() {
  changed();
  if (copy_.empty()) return {};
  for (size_t part = 0; part < arenas(); ++part) backend_.write(arena(part), view(part), arena_bytes());
  return settled();
}

// No peer has a part in an error of the backend, and another generation cannot mend it.
Status State::settled() {
  const Status done = backend_.wait(backend_.mark());
  if (!done) return fail(ErrorCode::kInternal, done.error().message);
  return {};
}

void State::changed() {
  arenas_digest_.reset();
  ++changes_;
}

void State::digested(std::uint64_t digest) {
  arenas_digest_ = digest;
  ++changes_;
}

Status State::initialize(std::uint64_t seed) {
  std::uint64_t key = derive(seed, "initial parameters");
  for (const Segment& segment : layout_.segments) {
    const Tensor& tensor = graph_.tensor(segment.tensor);
    std::byte* data = view(0) + segment.offset * size_of(real_);
    if (real_ == ElementType::kFloat32) {
      fill(tensor, derive(key, tensor.name), reinterpret_cast<float*>(data));
    } else {
      fill(tensor, derive(key, tensor.name), reinterpret_cast<double*>(data));
    }
  }
  for (size_t part = 1; part < arenas(); ++part) std::fill_n(view(part), arena_bytes(), std::byte{0});
  size_t offset = 0;
  for (TensorId id : graph_.with_role(Role::kStatistic)) {
    fill(graph_.tensor(id), 0, statistics.data() + offset);
    offset += static_cast<size_t>(count_of(graph_.tensor(id).shape));
  }
  std::fill(exponents.begin(), exponents.end(), kFirstExponent);
  step = 0;
  samples = 0;
  committed_in = 0;
  return written();
}

std::vector<StateTensor> State::tensors() {
  changed();
  std::vector<StateTensor> list;
  auto add = [&](std::string name, ElementType type, Shape shape, void* data, bool optimizer) {
    size_t bytes = static_cast<size_t>(count_of(shape)) * size_of(type);
    list.push_back({std::move(name), type, std::move(shape), static_cast<std::byte*>(data), bytes, optimizer});
  };
  for (const Segment& segment : layout_.segments) {
    size_t offset = segment.offset * size_of(real_);
    add(segment.name, real_, segment.shape, view(0) + offset, false);
    for (size_t i = 0; i < slots.size(); ++i) {
      add(slot_names_[i] + "/" + segment.name, real_, segment.shape, view(i + 1) + offset, true);
    }
  }
  size_t offset = 0;
  for (TensorId id : graph_.with_role(Role::kStatistic)) {
    const Tensor& tensor = graph_.tensor(id);
    add(tensor.name, ElementType::kFloat64, tensor.shape, statistics.data() + offset, false);
    offset += static_cast<size_t>(count_of(tensor.shape));
  }
  add("exponents", ElementType::kInt32, {static_cast<std::int64_t>(exponents.size())}, exponents.data(), true);
  add("step", ElementType::kInt64, {1}, &step, true);
  return list;
}

Version State::version() {
  if (!arenas_digest_) {
    if (!fetch()) return {};
    std::uint64_t sum = 0;
    for (size_t part = 0; part < arenas(); ++part) sum += digest_of(part, view(part));
    arenas_digest_ = sum;
  }
  const std::vector<Block> blocks = image();
  std::uint64_t small = 0;
  for (size_t i = arenas(); i < blocks.size(); ++i) small += digest_of(i, blocks[i].data);
  return {committed_in, step, *arenas_digest_ + small};
}

std::vector<State::Block> State::image() {
  std::vector<Block> blocks;
  for (size_t part = 0; part < arenas(); ++part) blocks.push_back({view(part), arena_bytes()});
  const auto add = [&](void* data, size_t bytes) { blocks.push_back({static_cast<std::byte*>(data), bytes}); };
  add(statistics.data(), statistics.size() * sizeof(double));
  add(exponents.data(), exponents.size() * sizeof(std::int32_t));
  add(&step, sizeof step);
  add(&samples, sizeof samples);
  return blocks;
}

size_t State::bytes() {
  size_t sum = 0;
  for (const Block& block : image()) sum += block.bytes;
  return sum;
}

std::uint64_t State::digest_of(size_t index, const std::byte* data) {
  if (index < arenas()) {
    std::uint64_t sum = 0;
    for (size_t i = 0; i < layout_.segments.size(); ++i) {
      const Segment& segment = layout_.segments[i];
      sum += digest_of_array(array_of(i, index, slots.size()), data + segment.offset * size_of(real_), segment.count,
                             size_of(real_));
    }
    return sum;
  }
  const size_t bytes = image()[index].bytes;
  return digest_of_array(array_of(layout_.segments.size(), 0, slots.size()) + index, data, bytes, 1);
}

Status State::install(const std::byte* from, std::int64_t generation) {
  for (const Block& block : image()) {
    if (block.bytes > 0) std::memcpy(block.data, from, block.bytes);
    from += block.bytes;
  }
  committed_in = generation;
  return written();
}

}  // namespace lockstep::trainer::core
