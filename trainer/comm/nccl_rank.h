// One rank over NCCL: the thread that moves everything, and the calls of its owner. Belongs to NcclCommunicator, whose
// header has the guarantees.
//
// Only this thread calls NCCL and CUDA (nccl_channel.h) and reads the control links. It may hang in a library; then a
// waiting caller abandons it. After each library call the thread checks whether it was abandoned, before it touches
// memory of the caller. So an abandoned thread has no effect. A sum of GPU memory that NCCL has already may still
// write: abort() returns false until it cannot.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "trainer/comm/communicator.h"
#include "trainer/comm/device_reducer.h"
#include "trainer/comm/links.h"
#include "trainer/comm/nccl_channel.h"
#include "trainer/comm/nccl_plan.h"
#include "trainer/comm/ring_communicator.h"
#include "trainer/comm/wire.h"

namespace lockstep::trainer::comm {

class NcclRank {
 public:
  using Operation = std::variant<AllReduce, Broadcast, HandOn, DeviceSum>;

  // Starts the thread, which connects over NCCL by `linked_by`. `links` are connected; `wake` is an eventfd.
  NcclRank(const RingOptions& options, Links links, UniqueFd wake, MonotonicTime linked_by);
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;
  ~NcclRank();  // once ended() is true; joins the thread

  // Returns when all ranks are connected over NCCL, or with the reason why they are not. To be called once.
  Status up();
  // Tells the thread to leave in order, or to abort if something is in flight. True: it has ended.
  bool close(Duration deadline);
  bool ended();

  // As comm::Communicator says.
  Result<Ticket> submit(const Operation& operation);
  Status wait(Ticket ticket);
  bool abort(Duration deadline);
  int rank() const { return rank_; }
  int size() const { return size_; }
  int gpu() const { return setup_.device; }
  int suspect() const { return suspect_.load(); }
  Activity activity() const { return activity_.read(); }

 private:
  enum class Phase {
    kCompare,   // with what the rank before has submitted
    kBegin,     // the next step
    kLaunched,  // NCCL has been told
    kInFlight,  // the way down is in the stream too
  };

  void wake();
  void interrupt();
  // With mutex_ held. From here on the thread touches no memory of the caller.
  void abandon(const std::string& why, ErrorCode code);
  void give_up_a_stuck_thread();  // with mutex_ held

  // The thread. Each bool function returns false when the communicator has died.
  void run();
  bool turn();
  void announce();
  NcclPlan plan_of(const Operation& operation, std::uint64_t sequence) const;
  bool begin_next();
  std::optional<bool> advance();
  bool launch();
  std::optional<bool> look_at_own_work();
  bool same();
  void complete();
  void publish(bool in_vain);
  bool check_departed();
  bool check_stall();
  bool heed_owner();

  // How the rank connects, and what its neighbours report (nccl_rank_links.cpp).
  bool link_over_nccl();
  std::optional<NcclInvitation> invitation();
  bool fits(const NcclInvitation& invitation);
  bool look(std::optional<MonotonicTime> until);
  bool hear();
  bool understand(ControlLink& link, const Frame& frame);

  // Ends. All return false.
  bool broken(const Error& error);
  bool unusable(const Error& error);
  bool not_linked(const std::string& why);
  bool lost(const ControlLink& link, const std::string& why);
  bool departed(const ControlLink& link);
  bool aborted_by_peer(const AbortCause& cause, const ControlLink& from);
  bool end(ErrorCode code, AbortCause::Kind kind, const std::string& text);
  bool die(Error error, int suspect);

  // Calls NCCL or CUDA, where the thread may hang. Nothing: it did, and was abandoned meanwhile.
  template <typename Call>
  auto in_library(Call call) -> std::optional<decltype(call())> {
    {
      const std::lock_guard guard(mutex_);
      in_library_since_ = std::chrono::steady_clock::now();
    }
    auto result = call();
    const std::lock_guard guard(mutex_);
    in_library_since_.reset();
    if (abandoned_) return std::nullopt;
    return result;
  }
  // Whether such a call returned with success.
  template <typename Answer>
  bool stands(const std::optional<Answer>& answer) {
    return answer && (answer->ok() || broken(answer->error()));
  }

  const int rank_;
  const int size_;
  const std::uint64_t generation_;
  const NcclSetup setup_;
  const Duration init_deadline_;
  const MonotonicTime linked_by_;
  const Duration stall_deadline_;
  const int cancel_fd_;  // polled until up() has returned
  UniqueFd wake_;
  std::atomic<bool> interrupted_{false};
  std::atomic<int> suspect_{-1};
  std::atomic<bool> up_{false};  // written with mutex_ held
  PublishedActivity activity_;

  // Used by the thread alone.
  Links links_;
  NcclChannel channel_;
  std::optional<NcclInvitation> invitation_;
  std::deque<NcclAnnouncement> theirs_;  // of the previous rank, from the operation under way on
  std::uint64_t announced_ = 0;          // to the next rank
  std::optional<NcclPlan> plan_;         // of the operation under way
  Phase phase_ = Phase::kCompare;
  NcclStep step_;
  bool computes_ = false;  // its own GPU has not reached the event that the step waits for
  std::uint64_t sent_ = 0, received_ = 0, travelling_ns_ = 0;
  std::optional<MonotonicTime> travels_since_;  // of the operation under way: this rank's GPU has its own part
  MonotonicTime last_moved_{};
  int idle_turns_ = 0;
  bool clean_ = false;  // it leaves in order

  std::mutex mutex_;
  std::condition_variable changed_;
  // Protected by mutex_.
  std::deque<Operation> queue_;
  std::uint64_t submitted_ = 0;
  std::uint64_t completed_ = 0;
  bool aborting_ = false;
  bool closing_ = false;
  bool abandoned_ = false;  // the thread was abandoned in a call that had not returned
  bool ended_ = false;      // the thread is done, and NCCL and the GPU with it
  std::optional<MonotonicTime> in_library_since_;
  std::optional<Error> dead_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::trainer::comm
