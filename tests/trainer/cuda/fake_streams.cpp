#include "tests/trainer/cuda/fake_streams.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace lockstep::trainer::cuda::fake {

CudaStream* Streams::make(int device) {
  auto made = std::make_shared<CudaStream>();
  made->device = device;
  made->thread = std::thread([this, &stream = *made] { work(stream); });
  const std::lock_guard guard(mutex_);
  streams_[made.get()] = made;
  return made.get();
}

void Streams::work(CudaStream& stream) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stream.done < stream.wanted || stream.closing; });
    if (stream.queue.empty()) return;
    auto next = std::move(stream.queue.front());
    stream.queue.pop_front();
    const bool runs = lost_[stream.device] == CudaError::kSuccess;
    lock.unlock();
    if (runs) next();
    next = nullptr;
    lock.lock();
    ++stream.done;
    changed_.notify_all();
  }
}

std::shared_ptr<CudaStream> Streams::known(CudaStream* stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : found->second;
}

CudaEvent* Streams::known(CudaEvent* event) const {
  return events_.contains(event) ? event : nullptr;
}

void Streams::want(CudaStream& stream, std::uint64_t number) {
  if (number <= stream.wanted) return;
  stream.wanted = number;
  changed_.notify_all();
}

bool Streams::end(CudaStream* stream) {
  std::shared_ptr<CudaStream> ending;
  {
    const std::lock_guard guard(mutex_);
    ending = known(stream);
    if (!ending) return false;
    streams_.erase(stream);
    ending->wanted = ending->enqueued;
    ending->closing = true;
    changed_.notify_all();
  }
  ending->thread.join();
  return true;
}

bool Streams::put(CudaStream* stream, std::function<void()> work, Hold hold) {
  const std::lock_guard guard(mutex_);
  const std::shared_ptr<CudaStream> to = known(stream);
  if (!to) return false;
  to->queue.push_back(std::move(work));
  ++to->enqueued;
  if (hold == Hold::kNot || to->queue.size() > most_held_back_) want(*to, to->enqueued);
  return true;
}

std::optional<int> Streams::device_of(CudaStream* stream) const {
  const std::lock_guard guard(mutex_);
  const std::shared_ptr<CudaStream> found = known(stream);
  if (!found) return std::nullopt;
  return found->device;
}

void Streams::wait(const CudaEvent::Record& record) {
  std::unique_lock lock(mutex_);
  want(*record.stream, record.number);
  changed_.wait(lock, [&] { return record.stream->done >= record.number; });
}

bool Streams::wait(CudaStream* stream) {
  CudaEvent::Record last;
  {
    const std::lock_guard guard(mutex_);
    last.stream = known(stream);
    if (!last.stream) return false;
    last.number = last.stream->enqueued;
  }
  wait(last);
  return true;
}

void Streams::wait_for_device(int device) {
  std::vector<CudaEvent::Record> all;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [_, stream] : streams_) {
      if (stream->device == device) all.push_back({stream, stream->enqueued});
    }
  }
  for (const CudaEvent::Record& last : all) wait(last);
}

std::optional<bool> Streams::query(CudaStream* stream) {
  const std::lock_guard guard(mutex_);
  const std::shared_ptr<CudaStream> asked = known(stream);
  if (!asked) return std::nullopt;
  want(*asked, asked->enqueued);
  return asked->done == asked->enqueued;
}

CudaEvent* Streams::make_event() {
  auto made = std::make_unique<CudaEvent>();
  CudaEvent* const event = made.get();
  const std::lock_guard guard(mutex_);
  events_[event] = std::move(made);
  return event;
}

bool Streams::end(CudaEvent* event) {
  const std::lock_guard guard(mutex_);
  return events_.erase(event) > 0;
}

bool Streams::record(CudaEvent* event, CudaStream* stream) {
  const std::lock_guard guard(mutex_);
  const std::shared_ptr<CudaStream> in = known(stream);
  if (!in || known(event) == nullptr) return false;
  event->latest = {in, in->enqueued};
  return true;
}

bool Streams::make_wait(CudaStream* stream, CudaEvent* event) {
  std::optional<CudaEvent::Record> record;
  {
    const std::lock_guard guard(mutex_);
    if (!known(stream) || known(event) == nullptr) return false;
    record = event->latest;
  }
  if (!record) return true;
  return put(
      stream, [this, record] { wait(*record); }, Hold::kBack);
}

bool Streams::wait(CudaEvent* event) {
  std::optional<CudaEvent::Record> record;
  {
    const std::lock_guard guard(mutex_);
    if (known(event) == nullptr) return false;
    record = event->latest;
  }
  if (record) wait(*record);
  return true;
}

std::optional<bool> Streams::query(CudaEvent* event) {
  const std::lock_guard guard(mutex_);
  if (known(event) == nullptr) return std::nullopt;
  if (!event->latest) return true;
  want(*event->latest->stream, event->latest->number);
  return event->latest->stream->done >= event->latest->number;
}

CudaError Streams::lost(int device) const {
  const std::lock_guard guard(mutex_);
  return lost_[device];
}

void Streams::lose(int device, CudaError error) {
  const std::lock_guard guard(mutex_);
  lost_[device] = error;
}

void Streams::mend() {
  const std::lock_guard guard(mutex_);
  std::fill(std::begin(lost_), std::end(lost_), CudaError::kSuccess);
}

}  // namespace lockstep::trainer::cuda::fake
