// A test that starts a thread, in a file of ONE_THREAD: it must fail.
#include <gtest/gtest.h>

#include <thread>

TEST(BrokenRule, a_thread) {
  std::thread([] {}).join();
}
