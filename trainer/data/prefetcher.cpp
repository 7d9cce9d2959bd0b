#include "trainer/data/prefetcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "operator/base/thread.h"
#include "trainer/data/attended.h"
#include "trainer/data/prefetch_depth.h"

namespace lockstep::trainer::data {

// What the threads use. A thread that is left behind owns it.
struct Prefetcher::Shared {
  Shared(std::shared_ptr<PartSource> source_, const PrefetchOptions& options_)
      : source(std::move(source_)), options(options_), depth(options_.batches) {}

  void run();

  // With the mutex held.
  bool has_room() const;
  bool has_work() const;
  std::shared_ptr<Read> first_with_rows() const;  // that no thread fills; null: none
  std::shared_ptr<Read> next();                   // adds what is read next to the window
  void skip();                                    // what is read next
  // Reads continue with this batch. False: the aim does not contain it, or the reads have passed it.
  bool skip_to(std::int64_t position, std::int64_t rows);
  void draft(Read& read);
  void ended(Read& read, const Part& part, const Status& filled);

  const std::shared_ptr<PartSource> source;
  const PrefetchOptions options;
  std::mutex mutex;
  std::condition_variable work;   // there is something to read, or the end has come
  std::condition_variable ready;  // a read or a thread has ended, or an `abort` has become true
  // Protected by the mutex:
  Reads window;                         // in the order of their use
  Reads urgent;                         // that a take() waits for and nothing announced
  core::Aim aim{.first = 0, .end = 0};  // its step and first are what is read next
  std::int64_t first = 0;               // micro-batch with which each step begins
  size_t batch_bytes = 0;               // of one batch of this aim; 0: not known yet
  PrefetchDepth depth;
  int running = 0;  // threads
  bool stopping = false;
};

int reader_threads(int cpus, int ranks, int threads) {
  return std::clamp(cpus / ranks - threads, 1, 8);
}

Prefetcher::Prefetcher(std::shared_ptr<PartSource> source, const PrefetchOptions& options)
    : source_(std::move(source)), parting_(options.parting), shared_(std::make_shared<Shared>(source_, options)) {}

Result<std::unique_ptr<Prefetcher>> Prefetcher::start(std::shared_ptr<PartSource> source,
                                                      const PrefetchOptions& options) {
  std::unique_ptr<Prefetcher> prefetcher(new Prefetcher(std::move(source), options));
  const std::lock_guard guard(prefetcher->shared_->mutex);
  try {
    for (int i = 0; i < options.threads; ++i) {
      prefetcher->threads_.push_back(start_without_signals([shared = prefetcher->shared_] { shared->run(); }));
      ++prefetcher->shared_->running;
    }
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kExhausted, fmt::format("cannot start a thread to load samples: {}", error.what()));
  }
  return prefetcher;
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard guard(shared_->mutex);
    shared_->stopping = true;
    cancel(shared_->window);
    cancel(shared_->urgent);
  }
  shared_->work.notify_all();
  source_->wake();
  std::unique_lock lock(shared_->mutex);
  const bool all = shared_->ready.wait_for(lock, parting_, [this] { return shared_->running == 0; });
  lock.unlock();
  for (std::thread& thread : threads_) {
    if (all) {
      thread.join();
    } else {
      thread.detach();
    }
  }
}

// Returns whether a thread still reads one of them; then the source has to be woken.
bool Prefetcher::cancel(const Reads& dropped) {
  bool reading = false;
  for (const auto& read : dropped) {
    read->cancelled.store(true);
    reading |= read->filling > 0;
  }
  return reading;
}

void Prefetcher::aim(const core::Aim& next) {
  Reads dropped;  // freed without the lock
  bool reading = false;
  {
    const std::lock_guard guard(shared_->mutex);
    core::Aim continued = shared_->aim;
    continued.step = next.step;
    continued.first = shared_->first;
    const Reads& window = shared_->window;
    const std::int64_t expected =
        window.empty() ? shared_->aim.position(shared_->aim.step, shared_->aim.first) : window.front()->position;
    if (continued == next && expected == next.position(next.step, next.first)) return;
    dropped.swap(shared_->window);
    shared_->depth.dropped();
    reading = cancel(dropped);
    if (next.rows != shared_->aim.rows) shared_->batch_bytes = 0;
    const std::int64_t parts = (next.rows + kRowsOfPart - 1) / kRowsOfPart;  // of a batch, for a thread each
    if (parts > 0) shared_->depth.at_least(static_cast<size_t>((shared_->options.threads + parts - 1) / parts));
    shared_->aim = next;
    shared_->first = next.first;
  }
  shared_->work.notify_all();
  if (reading) source_->wake();
  source_->aim(next);
}

Result<core::Batch> Prefetcher::take(std::int64_t position, std::int64_t rows, const std::atomic<bool>& abort) {
  Reads dropped;
  std::shared_ptr<Read> read;
  bool reading = false;
  {
    const std::lock_guard guard(shared_->mutex);
    Reads& window = shared_->window;
    const auto found = std::find_if(window.begin(), window.end(),
                                    [&](const auto& each) { return each->position == position && each->rows == rows; });
    if (found != window.end()) {
      read = *found;
      if (!read->result) shared_->depth.late();
      dropped.assign(window.begin(), found);
      window.erase(window.begin(), found + 1);
      if (!read->result && !read->failed && read->next_row < rows) shared_->urgent.push_back(read);
    } else if (shared_->skip_to(position, rows)) {
      dropped.swap(window);
      shared_->skip();
    }
    reading = cancel(dropped);
  }
  shared_->work.notify_all();
  if (reading) source_->wake();
  return read ? await(read, abort) : read_at_once(false, position, rows, abort);
}

std::optional<core::Batch> Prefetcher::peek(std::int64_t position, std::int64_t rows) {
  const std::lock_guard guard(shared_->mutex);
  for (const auto& read : shared_->window) {
    if (read->position == position && read->rows == rows && read->result && read->result->ok()) return **read->result;
  }
  return std::nullopt;
}

Result<core::Batch> Prefetcher::take_held_out(std::int64_t first, std::int64_t rows, const std::atomic<bool>& abort) {
  {
    const std::lock_guard guard(shared_->mutex);
    shared_->depth.dropped();
  }
  return read_at_once(true, first, rows, abort);
}

Result<core::Batch> Prefetcher::read_at_once(bool held_out, std::int64_t position, std::int64_t rows,
                                             const std::atomic<bool>& abort) {
  const auto read = std::make_shared<Read>();
  read->held_out = held_out;
  read->position = position;
  read->rows = rows;
  {
    const std::lock_guard guard(shared_->mutex);
    shared_->urgent.push_back(read);
  }
  shared_->work.notify_all();
  return await(read, abort);
}

Result<core::Batch> Prefetcher::await(const std::shared_ptr<Read>& read, const std::atomic<bool>& abort) {
  Status waiting;
  std::unique_lock lock(shared_->mutex);
  while (!shared_->ready.wait_for(lock, kLookEvery, [&] { return read->result.has_value() || abort.load(); })) {
    waiting = source_->answers();
    if (!waiting) break;
  }
  std::erase(shared_->urgent, read);
  if (read->result) return std::move(*read->result);
  read->cancelled.store(true);
  lock.unlock();
  source_->wake();
  if (!waiting) return waiting.error();
  return fail(ErrorCode::kCancelled, "loading samples was aborted");
}

void Prefetcher::wake() {
  // With the lock, no call is between its look at `abort` and its wait.
  { const std::lock_guard guard(shared_->mutex); }
  shared_->ready.notify_all();
  source_->wake();
}

bool Prefetcher::Shared::has_room() const {
  if (aim.first >= aim.end) return false;
  // One batch tells how large all of them are.
  if (batch_bytes == 0) return window.empty();
  const size_t fit = std::max<size_t>(options.bytes / batch_bytes, 1);
  return window.size() < std::min(fit, depth.batches());
}

std::shared_ptr<Prefetcher::Read> Prefetcher::Shared::first_with_rows() const {
  for (const Reads* reads : {&urgent, &window}) {
    for (const auto& read : *reads) {
      if (!read->result && !read->failed && read->next_row < read->rows) return read;
    }
  }
  return nullptr;
}

bool Prefetcher::Shared::has_work() const {
  return first_with_rows() != nullptr || has_room();
}

bool Prefetcher::Shared::skip_to(std::int64_t position, std::int64_t rows) {
  const std::int64_t place = position - aim.offset;
  if (rows != aim.rows || place % rows != 0 || position < aim.position(aim.step, aim.first)) return false;
  const std::int64_t step = place / rows / aim.micro_batches, index = place / rows % aim.micro_batches;
  if (index < first || index >= aim.end || (index - first) % aim.stride != 0) return false;
  aim.step = step;
  aim.first = index;
  return true;
}

void Prefetcher::Shared::skip() {
  aim.first += aim.stride;
  if (aim.first < aim.end) return;
  aim.first = first;
  aim.step += 1;
}

std::shared_ptr<Prefetcher::Read> Prefetcher::Shared::next() {
  auto read = std::make_shared<Read>();
  read->position = aim.position(aim.step, aim.first);
  read->rows = aim.rows;
  window.push_back(read);
  skip();
  return read;
}

// Before its first part: gets the memory of the batch, or fails.
void Prefetcher::Shared::draft(Read& read) {
  try {
    read.draft = source->draft(read.rows);
  } catch (const std::exception&) {
    read.result = fail(ErrorCode::kExhausted, fmt::format("no memory for a batch of {} samples", read.rows));
    return;
  }
  if (read.held_out || read.rows != aim.rows) return;
  batch_bytes = 0;
  for (const auto& input : read.draft->inputs) batch_bytes += input.size();
}

void Prefetcher::Shared::ended(Read& read, const Part& part, const Status& filled) {
  --read.filling;
  if (!filled && (!read.failed || part.first < read.failed->first)) read.failed = {part.first, filled.error()};
  // Parts begin in the order of rows, so the error of the lowest part is among those that have begun.
  if (read.filling > 0 || (read.next_row < read.rows && !read.failed)) return;
  if (read.failed) {
    read.result = read.failed->second;
    read.draft.reset();
  } else {
    read.result = std::move(*read.draft).finish();
  }
  const bool whole = window.size() >= depth.batches();  // where the bytes allow fewer, it never is
  if (whole && std::all_of(window.begin(), window.end(), [](const auto& each) { return each->result.has_value(); })) {
    depth.full();
  }
}

void Prefetcher::Shared::run() {
  std::unique_lock lock(mutex);
  while (true) {
    work.wait(lock, [this] { return stopping || has_work(); });
    if (stopping) break;
    std::shared_ptr<Read> read = first_with_rows();
    if (!read) read = next();
    if (!read->draft) draft(*read);
    if (!read->result) {
      const Part part{.held_out = read->held_out,
                      .position = read->position,
                      .first = read->next_row,
                      .rows = std::min(kRowsOfPart, read->rows - read->next_row)};
      read->next_row += part.rows;
      ++read->filling;
      const DraftBatch to = *read->draft;
      work.notify_all();  // other threads can fill the rest, and the size of the first batch lets them read more
      lock.unlock();
      Status filled;
      try {
        filled = source->fill(to, part, read->cancelled);
      } catch (const std::exception& error) {
        filled = fail(ErrorCode::kExhausted, fmt::format("cannot load samples: {}", error.what()));
      }
      lock.lock();
      ended(*read, part, filled);
    }
    ready.notify_all();
  }
  --running;
  ready.notify_all();
}

}  // namespace lockstep::trainer::data
