// lockstep-operator as a process of its own: started with the chart's flags, asked for its metrics and its memory.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "operator/base/result.h"
#include "tests/bench/process_figures.h"

namespace lockstep::bench {

// One owner, which ends and reaps the process.
class MeasuredOperator {
 public:
  // Waits until it listens. `folder` gets its kubeconfig and its log; the API server is at `url`.
  static Result<MeasuredOperator> start(const std::string& program, const std::string& folder, const std::string& url,
                                        const std::string& ca_pem);
  MeasuredOperator(MeasuredOperator&& other) noexcept;
  MeasuredOperator& operator=(MeasuredOperator&&) = delete;
  ~MeasuredOperator();

  ProcessFigures figures() const { return ProcessFigures(pid_); }
  // Of the line of /metrics that begins with this name and its labels; none if there is no such line.
  std::optional<double> metric(const std::string& name) const;
  bool ready() const;

 private:
  MeasuredOperator() = default;
  std::string get(const std::string& path) const;

  pid_t pid_ = -1;
  std::string metrics_port_;
};

}  // namespace lockstep::bench
