#include "tests/trainer/comm/fake_nccl.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "tests/trainer/comm/fake_hub.h"
#include "tests/trainer/cuda/fake_cuda.h"

namespace lockstep::trainer::comm {

using fake::Message;
using fake::Parcel;

// A rank's end of one id.
struct NcclComm {
  int rank = 0, size = 0;
  std::mutex mutex;
  std::condition_variable changed;
  UniqueFd fd;  // to the hub
  std::thread reader;
  bool linked = false, aborted = false, finalizing = false, quiet = false;
  int looks = 0;                              // queries that still answer busy
  NcclResult error = NcclResult::kSuccess;    // the result of ncclCommGetAsyncError
  NcclResult trouble = NcclResult::kSuccess;  // the error of the next kernel
  std::deque<Parcel> results;                 // of collectives
  std::map<int, std::deque<Parcel>> from;     // of other ranks
  CudaStream* stream = nullptr;               // of `launch`
  std::function<void()> launch;               // a kernel on its way into the stream
  int kernels = 0;                            // launched and not ended
  unsigned launches = 0;

  bool busy() const { return !linked || looks > 0 || launch != nullptr || (finalizing && !quiet); }
};

namespace fake {
namespace {

constexpr int kVersion = 23003;
constexpr char kMark[8] = {'F', 'A', 'K', 'E', 'N', 'C', 'C', 'L'};
constexpr int kLooksWhileLinking = 3;
constexpr int kLooksWhileLaunching = 2;

struct Id {
  char mark[8];
  std::uint64_t nonce;
  std::uint16_t port;
};

struct Breakage {
  NcclResult result;
  bool early;
};

struct World {
  std::mutex mutex;
  std::map<NcclComm*, std::shared_ptr<NcclComm>> comms;
  std::map<std::uint64_t, std::unique_ptr<Hub>> hubs;
  std::set<std::pair<std::uint64_t, int>> used;  // ids with ranks that were linked with them in this process
  std::map<int, Breakage> breaks;                // by rank: what its next kernel meets
  int hang_one_in = 0;
  int misuses = 0;
  std::mt19937 random;

  World() {
    const char* n = std::getenv("FAKE_NCCL_HANG_ABORTS");
    const char* seed = std::getenv("FAKE_NCCL_SEED");
    hang_one_in = n != nullptr ? std::atoi(n) : 0;
    random.seed(seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : 1);
  }
};

// Never destroyed: kernels may run when the process ends. Only the hubs' threads are joined then.
World& world() {
  static auto* const instance = new World();
  return *instance;
}

struct Farewell {
  ~Farewell() {
    const std::lock_guard guard(world().mutex);
    world().hubs.clear();
  }
} farewell;

std::shared_ptr<NcclComm> known(NcclComm* comm) {
  const std::lock_guard guard(world().mutex);
  const auto found = world().comms.find(comm);
  return found == world().comms.end() ? nullptr : found->second;
}

void count_misuse(const char* what) {
  std::fprintf(stderr, "libfakenccl: %s\n", what);
  const std::lock_guard guard(world().mutex);
  ++world().misuses;
}

// --- Linking -------------------------------------------------------------------------------------------------------

void read(const std::shared_ptr<NcclComm>& comm) {
  Parcel parcel;
  while (receive_parcel(comm->fd.get(), parcel)) {
    const std::lock_guard guard(comm->mutex);
    const Message& message = parcel.message;
    switch (message.kind) {
      case Message::kGo:
        comm->linked = true;
        comm->looks = kLooksWhileLinking;
        break;
      case Message::kAllReduce:
      case Message::kBroadcast:
        comm->results.push_back(std::move(parcel));
        break;
      case Message::kPeer:
        comm->from[message.peer].push_back(std::move(parcel));
        break;
      case Message::kError:
        comm->trouble = message.result;
        break;
      case Message::kQuiet:
        comm->quiet = true;
        break;
      default:
        break;
    }
    if (!comm->linked && comm->trouble != NcclResult::kSuccess) comm->error = comm->trouble;
    comm->changed.notify_all();
  }
  const std::lock_guard guard(comm->mutex);
  if (comm->trouble == NcclResult::kSuccess && !comm->quiet) comm->trouble = NcclResult::kRemoteError;
  if (!comm->linked && comm->error == NcclResult::kSuccess) comm->error = comm->trouble;
  comm->changed.notify_all();
}

bool connect_to(const Id& id, NcclComm& comm) {
  comm.fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(id.port);
  const int on = 1;
  ::setsockopt(comm.fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return ::connect(comm.fd.get(), static_cast<const sockaddr*>(static_cast<const void*>(&address)), sizeof address) ==
             0 &&
         send_parcel(comm.fd.get(), {.kind = Message::kHello, .peer = comm.rank, .size = comm.size, .count = id.nonce},
                     nullptr);
}

// --- Kernels -------------------------------------------------------------------------------------------------------

struct Exchange {  // of one kernel: its message, and the buffers that it fills in order
  struct Out {
    Message message;
    const void* bytes = nullptr;
  };
  struct In {
    int peer = -1;  // -1: the result of a collective
    void* to = nullptr;
    size_t bytes = 0;
  };
  std::vector<Out> out;
  std::vector<In> in;
};

void leave_garbage(const Exchange& exchange) {
  for (const Exchange::In& in : exchange.in) std::memset(in.to, 0xff, in.bytes);
}

// Whether the process dies in this all-reduce.
bool dies_in_sum_of(std::uint64_t elements) {
  static const char* const given = std::getenv("FAKE_NCCL_KILL");
  static const char* const colon = given == nullptr ? nullptr : std::strchr(given, ':');
  if (colon == nullptr || elements < std::strtoull(given, nullptr, 10)) return false;
  static std::atomic<long> left{std::atol(colon + 1)};
  return left > 0 && --left == 0;
}

// Runs in a stream. False: it ended early.
bool move_bytes(NcclComm& comm, const Exchange& exchange) {
  std::optional<Breakage> breakage;
  {
    const std::lock_guard guard(world().mutex);
    if (const auto found = world().breaks.find(comm.rank); found != world().breaks.end()) {
      breakage = found->second;
      world().breaks.erase(found);
    }
  }
  std::unique_lock lock(comm.mutex);
  const auto broken = [&](NcclResult result, bool early) {
    comm.error = result;
    comm.changed.notify_all();
    if (!early) comm.changed.wait(lock, [&] { return comm.aborted; });
    return false;
  };
  if (comm.aborted) return false;
  if (breakage) return broken(breakage->result, breakage->early);
  for (const Exchange::Out& out : exchange.out) {
    if (out.message.kind == Message::kAllReduce && dies_in_sum_of(out.message.count)) {
      cuda::fake::kill_process("an all-reduce of " + std::to_string(out.message.count) + " elements");
    }
    lock.unlock();
    const bool sent = send_parcel(comm.fd.get(), out.message, out.bytes);
    lock.lock();
    if (comm.aborted) return false;
    if (!sent) return broken(NcclResult::kRemoteError, false);
  }
  for (const Exchange::In& in : exchange.in) {
    auto& box = in.peer < 0 ? comm.results : comm.from[in.peer];
    comm.changed.wait(lock, [&] { return comm.aborted || !box.empty() || comm.trouble != NcclResult::kSuccess; });
    if (comm.aborted) return false;
    if (box.empty()) return broken(comm.trouble, false);
    const std::string bytes = std::move(box.front().bytes);
    box.pop_front();
    if (bytes.size() != in.bytes) return broken(NcclResult::kInternalError, false);
    if (!bytes.empty()) std::memcpy(in.to, bytes.data(), bytes.size());
  }
  return true;
}

NcclResult launch(const std::shared_ptr<NcclComm>& comm, CudaStream* stream, Exchange exchange) {
  for (Exchange::Out& out : exchange.out) out.bytes = cuda::fake::inside(out.bytes, out.message.bytes);
  for (Exchange::In& in : exchange.in) in.to = cuda::fake::inside(in.to, in.bytes);
  auto kernel = [comm, exchange = std::move(exchange)] {
    if (!move_bytes(*comm, exchange)) leave_garbage(exchange);
    const std::lock_guard guard(comm->mutex);
    --comm->kernels;
    comm->changed.notify_all();
  };
  const std::lock_guard guard(comm->mutex);
  if (comm->error != NcclResult::kSuccess) return comm->error;
  if (comm->busy()) {
    count_misuse("work for a communicator that is still busy");
    return comm->error = NcclResult::kInvalidUsage;
  }
  ++comm->kernels;
  if (++comm->launches % 2 == 0) {  // sometimes at once, sometimes later
    cuda::fake::put(stream, std::move(kernel));
    return NcclResult::kSuccess;
  }
  comm->stream = stream;
  comm->launch = std::move(kernel);
  comm->looks = kLooksWhileLaunching;
  return NcclResult::kInProgress;
}

struct Group {
  int depth = 0;
  std::shared_ptr<NcclComm> comm;
  CudaStream* stream = nullptr;
  Exchange exchange;
};
thread_local Group group;

bool is_type(NcclType type) {
  switch (type) {
    case NcclType::kUint8:
    case NcclType::kUint32:
    case NcclType::kInt64:
    case NcclType::kUint64:
    case NcclType::kFloat32:
    case NcclType::kFloat64:
      return true;
  }
  return false;
}

// Checks the arguments alone; errors here have no effect.
std::shared_ptr<NcclComm> accepted(NcclComm* comm, const void* memory, size_t count, NcclType type, int peer) {
  auto found = known(comm);
  if (!found || !is_type(type) || peer < 0 || peer >= found->size) return nullptr;
  if (!cuda::fake::on_device(memory, count * bytes_of(type))) {
    count_misuse("a collective on memory that is not the GPU's");
    return nullptr;
  }
  return found;
}

// Ends the communicator's threads, and forgets it.
void forget(const std::shared_ptr<NcclComm>& comm) {
  {
    std::unique_lock lock(comm->mutex);
    comm->aborted = true;
    if (comm->launch) {  // never came into its stream
      comm->launch = nullptr;
      --comm->kernels;
    }
    ::shutdown(comm->fd.get(), SHUT_RDWR);
    comm->changed.notify_all();
    comm->changed.wait(lock, [&] { return comm->kernels == 0; });
  }
  if (comm->reader.joinable()) comm->reader.join();
  comm->fd.reset();
  const std::lock_guard guard(world().mutex);
  world().comms.erase(comm.get());
}

}  // namespace
}  // namespace fake
}  // namespace lockstep::trainer::comm

using namespace lockstep::trainer;
using namespace lockstep::trainer::comm;
using comm::fake::world;

extern "C" {

void fake_nccl_hang_aborts(int n, unsigned seed) {
  const std::lock_guard guard(world().mutex);
  world().hang_one_in = n;
  world().random.seed(seed);
}

void fake_nccl_break_next(int rank, int result, bool early) {
  const std::lock_guard guard(world().mutex);
  world().breaks[rank] = {static_cast<NcclResult>(result), early};
}

void fake_nccl_release() {
  fake_nccl_hang_aborts(0, 0);
  fake_cuda_release();
}

int fake_nccl_misuses() {
  const std::lock_guard guard(world().mutex);
  return world().misuses;
}

int fake_nccl_communicators() {
  const std::lock_guard guard(world().mutex);
  return static_cast<int>(world().comms.size());
}

NcclResult ncclGetVersion(int* version) {
  const char* given = std::getenv("FAKE_NCCL_VERSION");
  *version = given != nullptr ? std::atoi(given) : fake::kVersion;
  return NcclResult::kSuccess;
}

NcclResult ncclGetUniqueId(NcclUniqueId* id) {
  std::vector<std::unique_ptr<fake::Hub>> over;  // destroyed without the lock, because that joins threads
  const std::lock_guard guard(world().mutex);
  for (auto at = world().hubs.begin(); at != world().hubs.end();) {
    if (at->second->finished()) {
      over.push_back(std::move(at->second));
      at = world().hubs.erase(at);
    } else {
      ++at;
    }
  }
  auto hub = std::make_unique<fake::Hub>();
  fake::Id made{};
  std::memcpy(made.mark, fake::kMark, sizeof made.mark);
  made.nonce = hub->nonce();
  made.port = hub->port();
  world().hubs[made.nonce] = std::move(hub);
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &made, sizeof made);
  return NcclResult::kSuccess;
}

NcclResult ncclCommInitRankConfig(NcclComm** comm, int ranks, NcclUniqueId id, int rank, NcclConfig* config) {
  fake::Id meeting{};
  std::memcpy(&meeting, id.internal, sizeof meeting);
  if (comm == nullptr || config == nullptr || config->magic != 0xcafebeef || config->size < 24 ||
      config->blocking != 0 || rank < 0 || rank >= ranks ||
      std::memcmp(meeting.mark, fake::kMark, sizeof meeting.mark) != 0) {
    return NcclResult::kInvalidArgument;
  }
  auto made = std::make_shared<NcclComm>();
  made->rank = rank;
  made->size = ranks;
  {
    const std::lock_guard guard(world().mutex);
    if (!world().used.insert({meeting.nonce, rank}).second) return NcclResult::kInvalidUsage;
    world().comms[made.get()] = made;
  }
  *comm = made.get();
  if (!fake::connect_to(meeting, *made)) {
    const std::lock_guard guard(made->mutex);
    made->error = NcclResult::kSystemError;
    return NcclResult::kInProgress;
  }
  made->reader = std::thread([made] { fake::read(made); });
  return NcclResult::kInProgress;
}

NcclResult ncclCommGetAsyncError(NcclComm* comm, NcclResult* error) {
  const auto found = fake::known(comm);
  if (!found) return NcclResult::kInvalidArgument;
  const std::lock_guard guard(found->mutex);
  if (found->error == NcclResult::kSuccess && found->linked && found->looks > 0 && --found->looks == 0 &&
      found->launch) {
    cuda::fake::put(found->stream, std::exchange(found->launch, nullptr));
  }
  *error = found->error != NcclResult::kSuccess ? found->error
           : found->busy()                      ? NcclResult::kInProgress
                                                : NcclResult::kSuccess;
  return NcclResult::kSuccess;
}

NcclResult ncclCommFinalize(NcclComm* comm) {
  const auto found = fake::known(comm);
  if (!found) return NcclResult::kInvalidArgument;
  const std::lock_guard guard(found->mutex);
  if (found->error != NcclResult::kSuccess || found->busy() || found->kernels > 0) {
    fake::count_misuse("a communicator finalized that is broken or at work");
    return NcclResult::kInvalidUsage;
  }
  found->finalizing = true;
  fake::send_parcel(found->fd.get(), {.kind = Message::kBye}, nullptr);
  return NcclResult::kInProgress;
}

NcclResult ncclCommDestroy(NcclComm* comm) {
  const auto found = fake::known(comm);
  if (!found) return NcclResult::kInvalidArgument;
  bool good = false;
  {
    const std::lock_guard guard(found->mutex);
    good = found->error == NcclResult::kSuccess && !found->busy() && found->kernels == 0;
  }
  if (!good) fake::count_misuse("a communicator destroyed that is broken or at work");
  fake::forget(found);
  return NcclResult::kSuccess;
}

NcclResult ncclCommAbort(NcclComm* comm) {
  const auto found = fake::known(comm);
  if (!found) return NcclResult::kInvalidArgument;
  bool hangs = false;
  {
    const std::lock_guard guard(world().mutex);
    hangs = world().hang_one_in > 0 && world().random() % static_cast<unsigned>(world().hang_one_in) == 0;
  }
  {
    const std::lock_guard guard(found->mutex);
    found->aborted = true;
    found->changed.notify_all();
  }
  if (hangs) cuda::fake::hang();
  fake::forget(found);
  return NcclResult::kSuccess;
}

NcclResult ncclAllReduce(const void* from, void* to, size_t count, NcclType type, NcclOperation operation,
                         NcclComm* comm, CudaStream* stream) {
  const auto found = fake::accepted(comm, to, count, type, 0);
  if (!found || !cuda::fake::on_device(from, count * fake::bytes_of(type))) return NcclResult::kInvalidArgument;
  const size_t bytes = count * fake::bytes_of(type);
  fake::Exchange exchange;
  exchange.out.push_back(
      {{.kind = Message::kAllReduce, .type = type, .operation = operation, .count = count, .bytes = bytes}, from});
  exchange.in.push_back({-1, to, bytes});
  return fake::launch(found, stream, std::move(exchange));
}

NcclResult ncclBroadcast(const void* from, void* to, size_t count, NcclType type, int root, NcclComm* comm,
                         CudaStream* stream) {
  const auto found = fake::accepted(comm, to, count, type, root);
  if (!found) return NcclResult::kInvalidArgument;
  const size_t bytes = count * fake::bytes_of(type);
  fake::Exchange exchange;
  exchange.out.push_back({{.kind = Message::kBroadcast,
                           .peer = root,
                           .type = type,
                           .count = count,
                           .bytes = found->rank == root ? bytes : 0},
                          from});
  exchange.in.push_back({-1, to, bytes});
  return fake::launch(found, stream, std::move(exchange));
}

NcclResult ncclGroupStart() {
  ++fake::group.depth;
  return NcclResult::kSuccess;
}

NcclResult ncclGroupEnd() {
  if (fake::group.depth == 0) return NcclResult::kInvalidUsage;
  if (--fake::group.depth > 0 || !fake::group.comm) return NcclResult::kSuccess;
  fake::Group ended = std::exchange(fake::group, {});
  return fake::launch(ended.comm, ended.stream, std::move(ended.exchange));
}

NcclResult ncclSend(const void* from, size_t count, NcclType type, int peer, NcclComm* comm, CudaStream* stream) {
  const auto found = fake::accepted(comm, from, count, type, peer);
  if (!found) return NcclResult::kInvalidArgument;
  ncclGroupStart();
  fake::group.comm = found;
  fake::group.stream = stream;
  fake::group.exchange.out.push_back(
      {{.kind = Message::kPeer, .peer = peer, .type = type, .count = count, .bytes = count * fake::bytes_of(type)},
       from});
  return ncclGroupEnd();
}

NcclResult ncclRecv(void* to, size_t count, NcclType type, int peer, NcclComm* comm, CudaStream* stream) {
  const auto found = fake::accepted(comm, to, count, type, peer);
  if (!found) return NcclResult::kInvalidArgument;
  ncclGroupStart();
  fake::group.comm = found;
  fake::group.stream = stream;
  fake::group.exchange.in.push_back({peer, to, count * fake::bytes_of(type)});
  return ncclGroupEnd();
}

const char* ncclGetErrorString(NcclResult result) {
  switch (result) {
    case NcclResult::kSuccess:
      return "no error";
    case NcclResult::kUnhandledCudaError:
      return "unhandled cuda error";
    case NcclResult::kSystemError:
      return "unhandled system error";
    case NcclResult::kInternalError:
      return "internal error";
    case NcclResult::kInvalidArgument:
      return "invalid argument";
    case NcclResult::kInvalidUsage:
      return "invalid usage";
    case NcclResult::kRemoteError:
      return "a remote process exited or there was a network error";
    case NcclResult::kInProgress:
      return "in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(NcclComm*) {
  return "";
}
}
