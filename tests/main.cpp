// main() of the test programs of lockstep_test() (cmake/rooms.cmake). Of the tests in the files of ONE_THREAD, one that
// starts a thread fails in builds without a sanitizer: ThreadSanitizer's build leaves these files out.
//
// LOCKSTEP_TEST_FILES=one_thread runs the tests of these files alone, LOCKSTEP_TEST_FILES=threads the others. A
// program that has no such test ends with 2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "tests/threads_started.h"

// The names of the files, each between two commas; cmake/rooms.cmake writes it.
extern const char* const lockstep_one_thread_files;

namespace {

bool has_one_thread(const testing::TestInfo& test) {
  const std::string_view path = test.file();
  const std::string name = "," + std::string(path.substr(path.rfind('/') + 1)) + ",";
  return std::string_view(lockstep_one_thread_files).find(name) != std::string_view::npos;
}

class OneThread : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    const int started = lockstep::threads_started();
    if (started != before_ && has_one_thread(test)) {
      ADD_FAILURE() << "a thread was started, and " << test.file()
                    << " is in ONE_THREAD of its CMakeLists.txt: move it to SOURCES, so that ThreadSanitizer sees it";
    }
    before_ = started;
  }

  int before_ = lockstep::threads_started();
};

// Leaves out the tests of files with threads, or those of the others; whether any are left.
bool choose(bool one_thread) {
  std::string left_out;
  bool some = false;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const testing::TestInfo& test = *suite.GetTestInfo(k);
      if (has_one_thread(test) == one_thread) {
        some = true;
      } else {
        left_out += std::string(":") + suite.name() + "." + test.name();
      }
    }
  }
  std::string filter = testing::GTEST_FLAG(filter);
  if (filter.find('-') == filter.npos) filter += "-";
  testing::GTEST_FLAG(filter) = filter + left_out;
  return some;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new OneThread);  // the framework owns it
  if (const char* chosen = std::getenv("LOCKSTEP_TEST_FILES")) {
    const std::string_view word = chosen;
    if (word != "one_thread" && word != "threads") {
      std::cerr << "LOCKSTEP_TEST_FILES=" << word << ": it is one_thread or threads\n";
      return 2;
    }
    if (!choose(word == "one_thread")) {
      std::cerr << "LOCKSTEP_TEST_FILES=" << word << ": there is no such test\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
