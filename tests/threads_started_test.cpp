#include "tests/threads_started.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace lockstep {
namespace {

TEST(ThreadsStarted, a_thread_counts) {
  const int before = threads_started();
  std::thread([] {}).join();
  EXPECT_EQ(threads_started(), before + 1);
}

TEST(ThreadsStarted, an_asynchronous_task_counts) {
  const int before = threads_started();
  std::async(std::launch::async, [] {}).get();
  EXPECT_EQ(threads_started(), before + 1);
}

TEST(ThreadsStarted, the_pool_of_openmp_does_not_count) {
  const int before = threads_started();
  int ran = 0;
#pragma omp parallel num_threads(3) reduction(+ : ran)
  ran += 1;
  EXPECT_EQ(ran, 3);
  EXPECT_EQ(threads_started(), before);
}

}  // namespace
}  // namespace lockstep
