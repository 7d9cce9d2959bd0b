// Which backend computes, by --backend.
#pragma once

#include <memory>
#include <string>

#include "operator/base/result.h"
#include "trainer/core/backend.h"
#include "trainer/core/graph.h"
#include "trainer/flags.h"

namespace lockstep::trainer {

class BackendChoice {
 public:
  // For --backend=auto `cuda` if there is a GPU that it can use, else `cpu`, which has --precision=fp32 alone. Errors
  // are those of make_backend().
  // `local_rank`: of this process, whose number its GPU has.
  static Result<BackendChoice> make(const Flags& flags, int local_rank);

  core::Backend& backend() { return *backend_; }
  // --backend=auto computes with `cpu` if `cuda` lacks an op of the graph. Errors are those of make_backend(), and with
  // another --precision than fp32 those of Backend::lower().
  Status suit(const Flags& flags, const core::Graph& graph);
  // One sentence for --backend=auto, that says what computes and why; else empty.
  std::string sentence() const;
  std::unique_ptr<core::Backend> take() { return std::move(backend_); }

 private:
  BackendChoice(std::unique_ptr<core::Backend> backend, bool automatic, std::string why_not)
      : backend_(std::move(backend)), automatic_(automatic), why_not_(std::move(why_not)) {}

  std::unique_ptr<core::Backend> backend_;
  bool automatic_;
  std::string why_not_;  // no GPU computes; empty: one does
};

}  // namespace lockstep::trainer
