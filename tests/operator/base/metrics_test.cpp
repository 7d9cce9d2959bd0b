#include "operator/base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(Metrics, the_same_name_and_labels_give_the_same_counter) {
  MetricsRegistry registry;
  registry.counter("lockstep_events_total", "Events.", {{"kind", "pod"}}).increment();
  registry.counter("lockstep_events_total", "Events.", {{"kind", "pod"}}).increment(2);
  EXPECT_THAT(registry.text(), HasSubstr("lockstep_events_total{kind=\"pod\"} 3"));
}

TEST(Metrics, a_gauge_shows_its_last_value) {
  MetricsRegistry registry;
  registry.gauge("workqueue_depth", "Keys waiting.", {{"name", "jobs"}}).set(4);
  registry.gauge("workqueue_depth", "Keys waiting.", {{"name", "jobs"}}).set(1);
  EXPECT_THAT(registry.text(), HasSubstr("workqueue_depth{name=\"jobs\"} 1"));
}

TEST(Metrics, a_histogram_counts_into_its_buckets) {
  MetricsRegistry registry;
  auto& histogram = registry.histogram("reconcile_seconds", "Time.", {}, {0.1, 1});
  histogram.observe(0.05);
  histogram.observe(5);
  EXPECT_THAT(registry.text(), HasSubstr("reconcile_seconds_bucket{le=\"0.1\"} 1"));
  EXPECT_THAT(registry.text(), HasSubstr("reconcile_seconds_count 2"));
}

}  // namespace
}  // namespace lockstep
