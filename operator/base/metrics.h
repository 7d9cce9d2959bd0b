// Metrics of the process, in Prometheus' data model. Names follow the ecosystem's where the meaning is equal
// (workqueue_depth, rest_client_requests_total, ...); labels are bounded, never the name of a job.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

using MetricLabels = std::map<std::string, std::string>;

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void increment(double by = 1.0) = 0;  // any thread
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void set(double value) = 0;  // any thread
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void observe(double value) = 0;  // any thread
};

// Hands out metrics; the same name and labels give the same metric. References are valid as long as the registry. Any
// thread.
class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  Counter& counter(const std::string& name, const std::string& help, const MetricLabels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const MetricLabels& labels = {});
  // `buckets`: upper bounds, rising; empty: 1 ms to 60 s, for durations in seconds.
  Histogram& histogram(const std::string& name, const std::string& help, const MetricLabels& labels = {},
                       const std::vector<double>& buckets = {});
  // Everything in the text exposition format, version 0.0.4.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
