// The operator's coordinator in a process of its own, with one job, as this benchmark starts it: `coordinator_bench
// serve FOLDER PORT TERM MEMBERS`. Its memory and time can then be measured apart.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "operator/base/result.h"
#include "tests/bench/process_figures.h"

namespace lockstep::bench {

inline constexpr const char* kNamespace = "ns";
inline constexpr const char* kJob = "gang";

// The name of a slot's pod, which is also its uid and its token.
std::string pod_of(int slot, std::int64_t incarnation);

// Runs the coordinator of a job with one rank a member, until its input ends. Reads serving.pem and key.pem in `folder`
// and keeps the record there. Plays the controller: lets a failed gang continue, and replaces the pod of each slot in a
// line of its input. Prints "address IP:PORT" first, then a line "view PHASE GENERATION CONNECTED REPLACED" whenever it
// may have changed; REPLACED is the slot that got a new pod last, or -1.
int serve(const std::string& folder, int port, std::int64_t term, int members);

// That process, as the benchmark sees it. One owner, which ends and reaps it.
class ServedCoordinator {
 public:
  struct View {
    int phase = -1;
    std::int64_t generation = 0;
    int connected = 0;
    int replaced = -1;
    std::string message;  // why it waits
  };

  static Result<ServedCoordinator> start(const std::string& folder, int port, std::int64_t term, int members);
  ServedCoordinator(ServedCoordinator&& other) noexcept;
  ServedCoordinator& operator=(ServedCoordinator&& other) noexcept;
  ~ServedCoordinator() { kill(); }

  int port() const { return port_; }
  // The newest line; if there is none so far, waits for one at most `within` seconds. False: its output has ended.
  bool read(View& view, double within);
  // As the controller does once a pod is deleted: expects another one, with the next incarnation, in that slot.
  void replace_pod(int slot);
  ProcessFigures figures() const { return ProcessFigures(pid_); }
  void kill();

 private:
  ServedCoordinator() = default;
  bool next_line(std::string& line, double within);

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  int port_ = 0;
  std::string text_;
};

}  // namespace lockstep::bench
