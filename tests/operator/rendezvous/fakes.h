// A store and an authenticator in memory, for tests of the coordinator.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "operator/rendezvous/coordinator.h"

namespace lockstep::rendezvous {

class MemoryStore final : public GenerationStore {
 public:
  Result<Versioned> load(const std::string&, const std::string&, const std::string& uid) override {
    const std::lock_guard guard(mutex_);
    if (broken_) return fail(ErrorCode::kUnavailable, "the store is broken");
    return records_[uid];
  }
  Result<std::string> compare_and_set(const std::string&, const std::string&, const std::string& uid,
                                      const std::string& version, const Record& next) override {
    const std::lock_guard guard(mutex_);
    if (broken_) return fail(ErrorCode::kUnavailable, "the store is broken");
    Versioned& stored = records_[uid];
    if (stored.version != version) return fail(ErrorCode::kConflict, "another version");
    stored = {next, std::to_string(++writes_)};
    return stored.version;
  }

  void set_broken(bool broken) {
    const std::lock_guard guard(mutex_);
    broken_ = broken;
  }
  Record record(const std::string& uid) {
    const std::lock_guard guard(mutex_);
    return records_[uid].record;
  }
  int writes() {
    const std::lock_guard guard(mutex_);
    return writes_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Versioned> records_;  // protected by mutex_
  bool broken_ = false;                       // protected by mutex_
  int writes_ = 0;                            // protected by mutex_
};

// The token of pod p is "token-of-p".
class NameAuthenticator final : public MemberAuthenticator {
 public:
  Status check(const std::string& token, const std::string&, const std::string& pod_name, const std::string&) override {
    ++checks_;
    if (token == "token-of-" + pod_name) return {};
    return fail(ErrorCode::kUnauthorized, "the token is not of this pod");
  }
  int checks() const { return checks_; }

 private:
  std::atomic<int> checks_{0};
};

// Takes as long over each as an API server that is far away, or for ever over one pod, until it is let go on.
class SlowAuthenticator final : public MemberAuthenticator {
 public:
  explicit SlowAuthenticator(std::chrono::milliseconds each) : each_(each) {}
  ~SlowAuthenticator() override { go_on(); }

  Status check(const std::string&, const std::string&, const std::string& pod_name, const std::string&) override {
    ++checks_;
    std::unique_lock lock(mutex_);
    if (pod_name == held_) {
      change_.wait(lock, [this] { return held_.empty(); });
    } else {
      change_.wait_for(lock, each_, [] { return false; });
    }
    return {};
  }
  void hold(const std::string& pod_name) {
    const std::lock_guard guard(mutex_);
    held_ = pod_name;
  }
  void go_on() {
    const std::lock_guard guard(mutex_);
    held_.clear();
    change_.notify_all();
  }
  int checks() const { return checks_; }

 private:
  const std::chrono::milliseconds each_;
  std::mutex mutex_;
  std::condition_variable change_;
  std::string held_;
  std::atomic<int> checks_{0};
};

}  // namespace lockstep::rendezvous
