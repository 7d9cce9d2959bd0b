// Byte streams over shared memory between ranks of one machine. Each rank owns one segment, which it alone writes. The
// segment has the ring of bytes for the next rank. It also says how far its rank has written, how far it has read the
// previous rank's ring, and whether it sleeps. Neighbours map it read-only, so a rank of an older generation that still
// runs can spoil only its own.
//
// Nothing here blocks. A rank that finds neither bytes nor room makes `naps` odd, looks once more and sleeps in poll()
// on its control links. A neighbour that moves a counter then rings there. So one wait ends on bytes, an abort, the
// death of a neighbour and the deadline, which a futex on this memory could not do.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "operator/base/result.h"
#include "trainer/comm/stream.h"

namespace lockstep::trainer::comm {

// The first bytes of a segment.
struct SegmentHeader {
  static constexpr std::uint64_t kMagic = 0x314d48534b4c;  // "LKSHM1"
  std::uint64_t magic = kMagic;
  std::uint64_t generation = 0;
  std::uint64_t capacity = 0;  // bytes of the ring, a power of two; 0: no ring
  std::uint32_t rank = 0;
  alignas(64) std::atomic<std::uint64_t> written{0};   // bytes put into the ring since the start
  alignas(64) std::atomic<std::uint64_t> consumed{0};  // bytes taken from the previous rank's ring
  alignas(64) std::atomic<std::uint32_t> naps{0};      // odd while this rank sleeps
};

// Identifies the memory behind the folder `dir`: two processes get equal ids if one can map a file that the other
// creates there. A hash of the machine's boot id and of the mounted file system's number, as pods of one machine may
// each have a /dev/shm. An id of 0 is unknown, and equal to none.
std::uint64_t memory_id(const std::string& dir);

// A mapping of a segment: the owner's, or a neighbour's read-only view.
class Segment {
 public:
  // Creates "<dir>/lockstep-<tag>-g<generation>-r<rank>" with room for the ring (reserved, so that writing cannot
  // fault) and maps it. Removes left-overs with this tag of older generations, and of this rank. kExhausted: no room.
  static Result<std::unique_ptr<Segment>> create(const std::string& dir, const std::string& tag,
                                                 std::uint64_t generation, std::uint32_t rank, size_t capacity);
  // Maps a neighbour's segment read-only after checking its header. `name` is a file name in `dir`; anything with a
  // slash is refused. kCorrupt: it is no such segment.
  static Result<std::unique_ptr<Segment>> open(const std::string& dir, const std::string& name,
                                               std::uint64_t generation, std::uint32_t rank);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const std::string& name() const { return name_; }
  // Unlinks the name (owner); the mappings stay. Any number of times.
  void unlink();

  SegmentHeader& header() { return *static_cast<SegmentHeader*>(memory_); }
  const SegmentHeader& header() const { return *static_cast<const SegmentHeader*>(memory_); }
  std::byte* ring() { return static_cast<std::byte*>(memory_) + kRingOffset; }
  const std::byte* ring() const { return static_cast<const std::byte*>(memory_) + kRingOffset; }
  size_t capacity() const { return capacity_; }  // as checked at mapping; the header could change

 private:
  static constexpr size_t kRingOffset = 4096;
  Segment(std::string dir, std::string name, void* memory, size_t bytes, size_t capacity, bool owner);

  std::string dir_;
  std::string name_;
  void* memory_;
  size_t bytes_;
  size_t capacity_;
  bool owner_;
  bool linked_;
};

// Writes into the ring of `own` for the next rank, whose segment is `next`.
class SharedSink final : public ByteSink {
 public:
  SharedSink(Segment& own, const Segment& next) : own_(own), next_(next) {}
  IoResult write(std::span<const iovec> pieces) override;
  int poll_fd() const override { return -1; }
  // False when the next rank's counter is impossible: it is broken.
  bool sane() const { return sane_; }

 private:
  Segment& own_;
  const Segment& next_;
  bool sane_ = true;
};

// Reads the ring of `previous`, the previous rank's segment; says in `own` how far.
class SharedSource final : public ByteSource {
 public:
  SharedSource(Segment& own, const Segment& previous) : own_(own), previous_(previous) {}
  IoResult read(std::span<std::byte> to) override;
  IoResult peek(std::span<const std::byte>& out) override;
  void consume(size_t bytes) override;
  int poll_fd() const override { return -1; }

 private:
  Segment& own_;
  const Segment& previous_;
};

}  // namespace lockstep::trainer::comm
