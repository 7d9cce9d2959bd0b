#include "trainer/comm/transfer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "trainer/comm/reduce.h"

namespace lockstep::trainer::comm {
namespace {

constexpr size_t kMostPerPump = size_t{1} << 20;

size_t padded(size_t bytes) {
  return (bytes + 7) & ~size_t{7};
}

std::byte* bytes_of(void* data) {
  return static_cast<std::byte*>(data);
}

size_t sum_of(const std::vector<Piece>& pieces) {
  size_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.bytes;
  return sum;
}

Schedule totalled(Schedule schedule) {
  schedule.send_bytes = sum_of(schedule.send);
  schedule.receive_bytes = sum_of(schedule.receive);
  return schedule;
}

}  // namespace

bool takes_small_way(size_t bytes, int size) {
  return bytes <= kSmallAllReduceBytes && bytes * static_cast<size_t>(size) <= kSmallAllReduceScratch;
}

Schedule schedule_segments(std::byte* data, size_t count, size_t element_bytes, int rank, int size) {
  const auto n = static_cast<size_t>(size);
  // Segment i, taken modulo n; the first count % n of them are one element longer.
  const auto segment = [&](int i, bool reduce) {
    const auto index = static_cast<size_t>((i % size + size) % size);
    const size_t begin = index * (count / n) + std::min(index, count % n);
    const size_t length = count / n + (index < count % n ? 1 : 0);
    // An empty buffer may be a null pointer, to which nothing can be added.
    return Piece{length == 0 ? data : data + begin * element_bytes, length * element_bytes, reduce};
  };
  Schedule schedule;
  for (int k = 0; k < size - 1; ++k) {  // reduce-scatter
    schedule.send.push_back(segment(rank - k, false));
    schedule.receive.push_back(segment(rank - k - 1, true));
  }
  for (int k = 0; k < size - 1; ++k) {  // all-gather
    schedule.send.push_back(segment(rank + 1 - k, false));
    schedule.receive.push_back(segment(rank - k, false));
  }
  schedule.head_start = schedule.send.front().bytes;
  return totalled(std::move(schedule));
}

Schedule schedule_blocks(std::byte* blocks, size_t bytes, int rank, int size) {
  const auto block = [&](int i) {
    return Piece{blocks + static_cast<size_t>((i % size + size) % size) * bytes, bytes, false};
  };
  Schedule schedule;
  for (int k = 0; k < size - 1; ++k) {
    schedule.send.push_back(block(rank - k));
    schedule.receive.push_back(block(rank - k - 1));
  }
  schedule.head_start = bytes;
  return totalled(std::move(schedule));
}

Schedule schedule_chain(std::byte* data, size_t bytes, int root, int rank, int size) {
  Schedule schedule;
  if (rank != root) schedule.receive.push_back({data, bytes, false});
  if ((rank + 1) % size != root) schedule.send.push_back({data, bytes, false});
  schedule.head_start = rank == root ? bytes : 0;
  return totalled(std::move(schedule));
}

Schedule schedule_link(const HandOn& operation) {
  const Piece piece{bytes_of(operation.data), operation.bytes, false};
  Schedule schedule;
  if (operation.receives) schedule.receive.push_back(piece);
  if (operation.sends) schedule.send.push_back(piece);
  schedule.head_start = operation.receives ? 0 : operation.bytes;
  return totalled(std::move(schedule));
}

Transfer::Transfer(const AllReduce& operation, std::uint64_t sequence, int rank, int size)
    : header_{OperationKind::kAllReduce, operation.type, operation.reduction, 0, sequence, operation.count},
      size_(size) {
  const size_t bytes = operation.count * size_of(operation.type);
  if (takes_small_way(bytes, size)) {
    small_ = operation;
    block_bytes_ = bytes;
    // Blocks lie end to end on 8-byte steps, so that each is aligned for its type.
    const size_t step = padded(bytes);
    scratch_.resize(step / 8 * static_cast<size_t>(size));
    auto* blocks = bytes_of(scratch_.data());
    if (bytes > 0) std::memcpy(blocks + static_cast<size_t>(rank) * step, operation.data, bytes);
    start(schedule_blocks(blocks, step, rank, size));
  } else {
    start(schedule_segments(bytes_of(operation.data), operation.count, size_of(operation.type), rank, size));
  }
}

Transfer::Transfer(const Broadcast& operation, std::uint64_t sequence, int rank, int size)
    : header_{OperationKind::kBroadcast, DataType::kUint8, Reduction::kSum, operation.root, sequence, operation.bytes},
      size_(size) {
  start(schedule_chain(bytes_of(operation.data), operation.bytes, operation.root, rank, size));
}

Transfer::Transfer(const HandOn& operation, std::uint64_t sequence, int, int size)
    : header_{OperationKind::kHandOn, DataType::kUint8, Reduction::kSum, 0, sequence, operation.bytes}, size_(size) {
  start(schedule_link(operation));
}

void Transfer::start(Schedule schedule) {
  header_bytes_ = encode(header_);
  schedule_ = std::move(schedule);
  send_total_ = kOperationHeaderBytes + padded(schedule_.send_bytes);
  receive_total_ = kOperationHeaderBytes + padded(schedule_.receive_bytes);
}

// Bytes on the wire that may be sent so far.
size_t Transfer::sendable() const {
  const size_t payload_here =
      std::min(received_ > kOperationHeaderBytes ? received_ - kOperationHeaderBytes : 0, schedule_.receive_bytes);
  const size_t payload = std::min(schedule_.head_start + payload_here, schedule_.send_bytes);
  return payload == schedule_.send_bytes ? send_total_ : kOperationHeaderBytes + payload;
}

Transfer::Moved Transfer::pump(ByteSource& from, ByteSink& to) {
  const Moved sent = send(to);
  if (sent.problem != Problem::kNone) return sent;
  Moved received = receive(from);
  received.bytes += sent.bytes;
  return received;
}

Transfer::Moved Transfer::send(ByteSink& to) {
  static constexpr std::array<std::byte, 8> kZeros{};
  Moved moved;
  while (has_bytes_to_send() && moved.bytes < kMostPerPump) {
    std::array<iovec, 8> list;
    size_t used = 0;
    size_t left = sendable() - sent_;
    const auto add = [&](const std::byte* data, size_t bytes) {
      const size_t n = std::min(bytes, left);
      if (n > 0) list[used++] = {const_cast<std::byte*>(data), n};
      left -= n;
    };
    if (sent_ < kOperationHeaderBytes) add(header_bytes_.data() + sent_, kOperationHeaderBytes - sent_);
    size_t skip = send_piece_done_;
    for (size_t i = send_piece_; i < schedule_.send.size() && used + 1 < list.size() && left > 0; ++i) {
      add(schedule_.send[i].data + skip, schedule_.send[i].bytes - skip);
      skip = 0;
    }
    const size_t payload_end = kOperationHeaderBytes + schedule_.send_bytes;
    if (left > 0 && sent_ + (sendable() - sent_ - left) >= payload_end) add(kZeros.data(), left);

    const IoResult result = to.write({list.data(), used});
    if (result.ended) return {moved.bytes, Problem::kSinkEnded, result.error};
    if (result.bytes == 0) break;
    moved.bytes += result.bytes;
    // Splits it into payload, by pieces.
    size_t payload = std::min(sent_ + result.bytes, payload_end);
    payload -= std::min(payload, std::max(sent_, kOperationHeaderBytes));
    sent_ += result.bytes;
    while (payload > 0) {
      const size_t n = std::min(payload, schedule_.send[send_piece_].bytes - send_piece_done_);
      payload -= n;
      send_piece_done_ += n;
      if (send_piece_done_ == schedule_.send[send_piece_].bytes) {
        ++send_piece_;
        send_piece_done_ = 0;
      }
    }
  }
  return moved;
}

bool Transfer::check_header() {
  const auto header = decode_operation_header(their_bytes_);
  if (!header) return false;
  theirs_ = *header;
  return true;
}

Transfer::Moved Transfer::receive(ByteSource& from) {
  Moved moved;
  const auto ended = [&](const IoResult& result) { return Moved{moved.bytes, Problem::kSourceEnded, result.error}; };
  while (received_ < kOperationHeaderBytes) {
    std::span<const std::byte> there;
    const IoResult result = from.peek(there);
    const size_t n = std::min(there.size(), kOperationHeaderBytes - received_);
    if (n > 0) std::memcpy(their_bytes_.data() + received_, there.data(), n);
    from.consume(n);
    received_ += n;
    moved.bytes += n;
    if (received_ == kOperationHeaderBytes) {
      if (!check_header()) return {moved.bytes, Problem::kGarbage, 0};
      if (theirs_ != header_) return {moved.bytes, Problem::kMismatch, 0};
    } else if (result.ended) {
      return ended(result);
    } else if (n == 0) {
      return moved;
    }
  }
  const size_t element = size_of(header_.type);
  while (receive_piece_ < schedule_.receive.size() && moved.bytes < kMostPerPump) {
    const Piece& piece = schedule_.receive[receive_piece_];
    const size_t left = piece.bytes - receive_piece_done_;
    std::byte* const into = piece.data + receive_piece_done_;
    size_t n = 0;
    if (left > 0 && piece.reduce) {
      std::span<const std::byte> there;
      const IoResult result = from.peek(there);
      n = std::min(there.size(), left) / element * element;
      if (n == 0) return result.ended ? ended(result) : moved;
      reduce(into, there.data(), n / element, header_.type, header_.reduction);
      from.consume(n);
    } else if (left > 0) {
      const IoResult result = from.read({into, left});
      n = result.bytes;
      if (n == 0) return result.ended ? ended(result) : moved;
    }
    received_ += n;
    moved.bytes += n;
    receive_piece_done_ += n;
    if (receive_piece_done_ == piece.bytes) {
      ++receive_piece_;
      receive_piece_done_ = 0;
    }
  }
  while (receive_piece_ == schedule_.receive.size() && received_ < receive_total_) {  // the zeros at the end
    std::array<std::byte, 8> zeros;
    const IoResult result = from.read({zeros.data(), receive_total_ - received_});
    if (result.bytes == 0) return result.ended ? ended(result) : moved;
    received_ += result.bytes;
    moved.bytes += result.bytes;
  }
  return moved;
}

Stage Transfer::stage() const {
  if (header_.kind != OperationKind::kAllReduce) return Stage::kBroadcast;
  if (block_bytes_ > 0) return Stage::kExchange;
  return receive_piece_ < schedule_.receive.size() / 2 ? Stage::kReduceScatter : Stage::kAllGather;
}

void Transfer::finish() {
  if (block_bytes_ == 0) return;
  const auto* blocks = static_cast<const std::byte*>(static_cast<const void*>(scratch_.data()));
  const size_t step = padded(block_bytes_);
  auto* into = bytes_of(small_.data);
  std::memcpy(into, blocks, block_bytes_);
  for (int i = 1; i < size_; ++i) {
    reduce(into, blocks + static_cast<size_t>(i) * step, small_.count, small_.type, small_.reduction);
  }
}

}  // namespace lockstep::trainer::comm
