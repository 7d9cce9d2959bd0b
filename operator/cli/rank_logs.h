// The lines that the agents tag with a rank ("[3] step 10 ..."), in one file per rank. From rank 0's come the lines
// about the whole run (losses on held-out data, the sample of text).
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/cli/loss_curve.h"

namespace lockstep::cli {

// The rank in front of a line and the rest of it; empty if the line has none (it is the agent's own).
struct TaggedLine {
  int rank = 0;
  std::string_view text;
};
std::optional<TaggedLine> parse_tagged(std::string_view line);

// One thread at a time.
class RankLogs {
 public:
  // Files are `folder`/rank-<N>.log, made with their first line.
  explicit RankLogs(std::string folder) : folder_(std::move(folder)) {}

  void add(std::string_view line);

  const std::vector<LossPoint>& held_out() const { return held_out_; }
  // The last complete sample of text; "" if there was none.
  const std::string& sample() const { return sample_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void listen_to_rank_0(std::string_view text);

  const std::string folder_;
  std::map<int, std::unique_ptr<std::FILE, Close>> files_;
  std::vector<LossPoint> held_out_;
  std::string sample_, growing_;
  bool in_sample_ = false;
};

}  // namespace lockstep::cli
