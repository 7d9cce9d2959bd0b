#include "tests/trainer/backend/late_backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/core/optimizer.h"

namespace lockstep::trainer::testing {

namespace {

// Where the late thread sees memory that the others see as inaccessible. Any thread.
class Aliases {
 public:
  void add(std::byte* outside, std::byte* inside, size_t bytes) {
    std::lock_guard lock(mutex_);
    regions_[outside] = {inside, bytes};
  }
  void remove(std::byte* outside) {
    std::lock_guard lock(mutex_);
    regions_.erase(outside);
  }
  template <typename T>
  T* inside(T* outside) const {
    if (outside == nullptr) return nullptr;
    auto* address = reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(outside));
    std::lock_guard lock(mutex_);
    auto region = regions_.upper_bound(address);
    if (region == regions_.begin()) std::abort();  // not memory of this backend
    --region;
    const auto offset = static_cast<size_t>(address - region->first);
    if (offset > region->second.bytes) std::abort();
    return reinterpret_cast<T*>(region->second.inside + offset);
  }

 private:
  struct Region {
    std::byte* inside = nullptr;
    size_t bytes = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::byte*, Region> regions_;  // by the address outside
};

class LateMemory final : public core::Memory {
 public:
  static Result<std::unique_ptr<core::Memory>> allocate(const std::shared_ptr<Aliases>& aliases, size_t bytes) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t mapped = core::align_up(bytes + 1, page);
    void* inside = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void* outside =
        inside == MAP_FAILED ? inside : ::mremap(inside, 0, mapped, MREMAP_MAYMOVE);  // the same pages again
    if (outside == MAP_FAILED || ::mprotect(outside, mapped, PROT_NONE) != 0) {
      return fail(ErrorCode::kExhausted, "there is not enough memory for " + std::to_string(bytes) + " bytes");
    }
    return std::unique_ptr<core::Memory>(
        new LateMemory(aliases, static_cast<std::byte*>(outside), static_cast<std::byte*>(inside), mapped, bytes));
  }
  ~LateMemory() override {
    aliases_->remove(outside_);
    ::munmap(outside_, mapped_);
    ::munmap(inside_, mapped_);
  }
  LateMemory(const LateMemory&) = delete;
  LateMemory& operator=(const LateMemory&) = delete;
  std::byte* data() const override { return outside_; }
  size_t bytes() const override { return bytes_; }

 private:
  LateMemory(const std::shared_ptr<Aliases>& aliases, std::byte* outside, std::byte* inside, size_t mapped,
             size_t bytes)
      : aliases_(aliases), outside_(outside), inside_(inside), mapped_(mapped), bytes_(bytes) {
    aliases_->add(outside_, inside_, mapped_);
  }

  std::shared_ptr<Aliases> aliases_;
  std::byte* const outside_;
  std::byte* const inside_;
  const size_t mapped_;
  const size_t bytes_;
};

// Runs work in order on one thread, and holds back the newest as long as nobody waits for it.
class LateThread {
 public:
  using Work = std::function<Status()>;

  LateThread() : thread_([this] { run(); }) {}
  ~LateThread() {
    {
      std::lock_guard lock(mutex_);
      wanted_ = enqueued_;
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  LateThread(const LateThread&) = delete;
  LateThread& operator=(const LateThread&) = delete;

  void enqueue(Work work) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
      ++enqueued_;
      if (queue_.size() > kHeldBack) wanted_ = std::max(wanted_, enqueued_ - kHeldBack);
    }
    changed_.notify_all();
  }
  core::Mark mark() const {
    std::lock_guard lock(mutex_);
    return {enqueued_};
  }
  bool reached(core::Mark mark) const {
    std::lock_guard lock(mutex_);
    return done_ >= mark.number;
  }
  Status wait(core::Mark mark) {
    std::unique_lock lock(mutex_);
    wanted_ = std::max(wanted_, mark.number);
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_ >= mark.number; });
    if (std::optional<Error> error = std::exchange(error_, std::nullopt)) return *error;
    return {};
  }

 private:
  static constexpr std::uint64_t kHeldBack = 5;

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return done_ < wanted_ || (ended_ && queue_.empty()); });
      if (queue_.empty()) return;
      Work work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      Status status = work();
      lock.lock();
      if (!status && !error_) error_ = status.error();
      ++done_;
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::uint64_t enqueued_ = 0, wanted_ = 0, done_ = 0;
  std::optional<Error> error_;  // the first that no wait() has returned
  bool ended_ = false;
  std::thread thread_;  // last: it uses the others
};

class LateExecutable final : public core::Executable {
 public:
  LateExecutable(std::unique_ptr<core::Executable> inner, core::Backend& computes, LateThread& thread)
      : inner_(std::move(inner)), computes_(computes), thread_(thread) {}
  ~LateExecutable() override { static_cast<void>(thread_.wait(thread_.mark())); }
  LateExecutable(const LateExecutable&) = delete;
  LateExecutable& operator=(const LateExecutable&) = delete;

  Status forward(size_t step, const core::RunContext& context) override {
    thread_.enqueue([this, step, context] {
      computes_.enter();
      return inner_->forward(step, context);
    });
    return {};
  }
  Status recompute(size_t step, const core::RunContext& context) override {
    thread_.enqueue([this, step, context] {
      computes_.enter();
      return inner_->recompute(step, context);
    });
    return {};
  }
  Status backward(size_t step, const core::RunContext& context) override {
    thread_.enqueue([this, step, context] {
      computes_.enter();
      return inner_->backward(step, context);
    });
    return {};
  }

 private:
  std::unique_ptr<core::Executable> inner_;
  core::Backend& computes_;
  LateThread& thread_;
};

class LateBackend final : public core::Backend {
 public:
  explicit LateBackend(std::unique_ptr<core::Backend> computes) : computes_(std::move(computes)) {}

  const char* name() const override { return "late"; }
  core::ElementType real() const override { return computes_->real(); }
  int threads() const override { return computes_->threads(); }
  std::string numerics() const override { return computes_->numerics(); }
  Result<std::unique_ptr<core::Memory>> allocate(size_t bytes) override {
    return LateMemory::allocate(aliases_, bytes);
  }
  Result<core::Lowered> lower(const core::Graph& graph, bool trains) override {
    return computes_->lower(graph, trains);
  }
  Result<std::unique_ptr<core::Executable>> bind(const core::Graph& graph, const core::Lowered& lowered,
                                                 const core::Addresses& addresses) override {
    core::Addresses inside = addresses;
    auto move_inside = [&](auto& list) {
      for (auto& address : list) address = aliases_->inside(address);
    };
    for (auto* list : {&inside.values, &inside.gradients}) {
      for (void*& address : *list) address = inside_of(address);
    }
    move_inside(inside.statistics);
    move_inside(inside.staged_statistics);
    for (core::StepMemory& step : inside.steps) {
      for (void*& keep : step.keeps) keep = inside_of(keep);
      step.forward_scratch = inside_of(step.forward_scratch);
      step.backward_scratch = inside_of(step.backward_scratch);
    }
    LOCKSTEP_TRY(auto executable, computes_->bind(graph, lowered, inside));
    return std::unique_ptr<core::Executable>(
        std::make_unique<LateExecutable>(std::move(executable), *computes_, thread_));
  }
  void enter() override {}

  std::byte* host(std::byte*) override { return nullptr; }
  void clear(std::byte* to, size_t bytes) override {
    enqueue([=, this] { computes_->clear(aliases_->inside(to), bytes); });
  }
  void write(std::byte* to, const void* from, size_t bytes) override {
    enqueue([=, this] { computes_->write(aliases_->inside(to), from, bytes); });
  }
  void read(void* to, const std::byte* from, size_t bytes) override {
    enqueue([=, this] { computes_->read(to, aliases_->inside(from), bytes); });
  }
  void write_pixels(std::byte* to, const std::uint8_t* from, size_t count, const core::PixelValues& values) override {
    enqueue([=, this, &values] { computes_->write_pixels(aliases_->inside(to), from, count, values); });
  }
  core::Mark mark() override { return thread_.mark(); }
  bool reached(core::Mark mark) override { return thread_.reached(mark); }
  Status wait(core::Mark mark) override { return thread_.wait(mark); }

  void round_and_clear(std::byte* values, size_t count, int exponent, bool add, std::byte* sums,
                       core::RoundingFlags* flags) override {
    enqueue([=, this] {
      computes_->round_and_clear(aliases_->inside(values), count, exponent, add, aliases_->inside(sums), flags);
    });
  }
  void unround(const std::byte* sums, size_t count, int exponent, std::byte* values, std::uint64_t* largest) override {
    enqueue(
        [=, this] { computes_->unround(aliases_->inside(sums), count, exponent, aliases_->inside(values), largest); });
  }
  void norm(const std::byte* values, size_t count, double* norm) override {
    enqueue([=, this] { computes_->norm(aliases_->inside(values), count, norm); });
  }
  std::uint64_t update(const core::Optimizer& optimizer, const core::Update& update) override {
    core::Update inside = update;
    std::vector<void*> slots;
    for (void* slot : update.slots) slots.push_back(inside_of(slot));
    inside.slots = slots;
    inside.parameters = inside_of(update.parameters);
    inside.gradients = inside_of(const_cast<void*>(update.gradients));
    std::uint64_t digest = 0;
    enqueue([&] { digest = computes_->update(optimizer, inside); });
    if (!thread_.wait(thread_.mark())) std::abort();  // all work before an update was waited for
    return digest;
  }

 private:
  void* inside_of(void* address) const { return aliases_->inside(static_cast<std::byte*>(address)); }
  template <typename Body>
  void enqueue(Body body) {
    thread_.enqueue([this, body] {
      computes_->enter();
      body();
      return Status();
    });
  }

  std::shared_ptr<Aliases> aliases_ = std::make_shared<Aliases>();
  std::unique_ptr<core::Backend> computes_;
  LateThread thread_;  // last: its work uses the others
};

}  // namespace

Result<std::unique_ptr<core::Backend>> make_late_backend(int threads) {
  LOCKSTEP_TRY(auto computes, backend::make_cpu_backend(threads));
  return std::unique_ptr<core::Backend>(std::make_unique<LateBackend>(std::move(computes)));
}

}  // namespace lockstep::trainer::testing
