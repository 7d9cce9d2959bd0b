// A shared library that is opened at run time, because a machine without a GPU lacks it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::trainer::cuda {

// One thread. The library stays loaded until the process ends: NVIDIA's have threads of their own.
class Library {
 public:
  // Opens the first of `names` that can be: a name as the dynamic linker finds it, or a path. Errors name `package`
  // ("NCCL") and `flag`, the flag of the program that gives another path. kNotFound: none can be opened.
  static Result<Library> open(const std::vector<std::string>& names, const std::string& package,
                              const std::string& flag);

  const std::string& name() const { return name_; }

  // Sets `function` to the symbol's address, unless a symbol before it was missing. status() tells.
  template <typename Function>
  void find(Function*& function, const char* symbol) {
    if (void* address = address_of(symbol)) function = reinterpret_cast<Function*>(address);
  }
  // kNotFound: the library lacks a symbol; the sentence names the first.
  Status status() const { return status_; }

 private:
  Library(void* handle, std::string name, std::string flag)
      : handle_(handle), name_(std::move(name)), flag_(std::move(flag)) {}
  void* address_of(const char* symbol);

  void* handle_;
  std::string name_;
  std::string flag_;
  Status status_;
};

}  // namespace lockstep::trainer::cuda
