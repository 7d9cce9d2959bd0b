// Since when nodes have been sick, and how many became so together. When many do at once, the signs are more likely to
// be wrong than the nodes. The tool that sets them may have a new version, say.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "operator/base/clock.h"

namespace lockstep::job {

class SicknessWatch {
 public:
  // Nodes that became sick within this time became so together.
  static constexpr Duration kTogether = std::chrono::minutes(1);
  // Together they are many from this number on, if they are more than one node in kOneIn.
  static constexpr std::size_t kFewest = 3;
  static constexpr std::size_t kOneIn = 5;

  struct Seen {
    Duration age{};     // since the node has been sick
    bool many = false;  // many became sick together with it
  };

  explicit SicknessWatch(Clock& clock) : clock_(clock) {}

  // `source`, the node or one of its pods by a unique name, says whether the node is sick. Any thread.
  void note(const std::string& node, const std::string& source, bool sick);
  // Empty where no source says that the node is sick. `nodes`: how many the cluster has. Any thread.
  std::optional<Seen> find(const std::string& node, std::size_t nodes) const;

 private:
  struct Sick {
    std::set<std::string> sources;
    MonotonicTime since{};
    std::size_t together = 1;  // the most nodes, with this one, that became sick within kTogether, well again or not
  };

  Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, Sick> nodes_;  // by node; protected by mutex_
  // When nodes became sick, of those that did within kTogether before the last that did. A node whose sick pod has left
  // is well, but counts. Protected by mutex_.
  std::map<std::string, MonotonicTime> recent_;
};

}  // namespace lockstep::job
