#include "operator/base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>

namespace lockstep {
namespace {

class PrometheusCounter final : public Counter {
 public:
  explicit PrometheusCounter(prometheus::Counter& counter) : counter_(counter) {}
  void increment(double by) override { counter_.Increment(by); }

 private:
  prometheus::Counter& counter_;
};

class PrometheusGauge final : public Gauge {
 public:
  explicit PrometheusGauge(prometheus::Gauge& gauge) : gauge_(gauge) {}
  void set(double value) override { gauge_.Set(value); }

 private:
  prometheus::Gauge& gauge_;
};

class PrometheusHistogram final : public Histogram {
 public:
  explicit PrometheusHistogram(prometheus::Histogram& histogram) : histogram_(histogram) {}
  void observe(double value) override { histogram_.Observe(value); }

 private:
  prometheus::Histogram& histogram_;
};

const std::vector<double> kSeconds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

}  // namespace

struct MetricsRegistry::State {
  using Key = std::pair<std::string, MetricLabels>;
  std::mutex mutex;  // protects the maps; the metrics have their own
  prometheus::Registry registry;
  std::map<Key, std::unique_ptr<Counter>> counters;
  std::map<Key, std::unique_ptr<Gauge>> gauges;
  std::map<Key, std::unique_ptr<Histogram>> histograms;
};

MetricsRegistry::MetricsRegistry() : state_(std::make_unique<State>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter& MetricsRegistry::counter(const std::string& name, const std::string& help, const MetricLabels& labels) {
  const std::lock_guard guard(state_->mutex);
  auto& slot = state_->counters[{name, labels}];
  if (!slot) {
    auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(state_->registry);
    slot = std::make_unique<PrometheusCounter>(family.Add(labels));
  }
  return *slot;
}

Gauge& MetricsRegistry::gauge(const std::string& name, const std::string& help, const MetricLabels& labels) {
  const std::lock_guard guard(state_->mutex);
  auto& slot = state_->gauges[{name, labels}];
  if (!slot) {
    auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(state_->registry);
    slot = std::make_unique<PrometheusGauge>(family.Add(labels));
  }
  return *slot;
}

Histogram& MetricsRegistry::histogram(const std::string& name, const std::string& help, const MetricLabels& labels,
                                      const std::vector<double>& buckets) {
  const std::lock_guard guard(state_->mutex);
  auto& slot = state_->histograms[{name, labels}];
  if (!slot) {
    auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(state_->registry);
    slot = std::make_unique<PrometheusHistogram>(
        family.Add(labels, prometheus::Histogram::BucketBoundaries(buckets.empty() ? kSeconds : buckets)));
  }
  return *slot;
}

std::string MetricsRegistry::text() const {
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

}  // namespace lockstep
