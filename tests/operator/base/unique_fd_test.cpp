#include "operator/base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace lockstep {
namespace {

int opened() {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_GE(fd, 0);
  return fd;
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

TEST(UniqueFd, a_descriptor_is_closed_with_its_owner) {
  const int fd = opened();
  {
    const UniqueFd owner(fd);
    EXPECT_TRUE(owner);
    EXPECT_EQ(owner.get(), fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, an_owner_without_a_descriptor_closes_nothing) {
  UniqueFd none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.get(), -1);
  EXPECT_EQ(none.release(), -1);
  none.reset();
}

TEST(UniqueFd, a_move_passes_the_descriptor_on_and_closes_the_one_that_was_there) {
  const int first = opened(), second = opened();
  UniqueFd from(first), to(second);
  to = std::move(from);
  EXPECT_EQ(to.get(), first);
  EXPECT_TRUE(is_open(first));
  EXPECT_FALSE(is_open(second));
  const UniqueFd last(std::move(to));
  EXPECT_EQ(last.get(), first);
  EXPECT_TRUE(is_open(first));
}

TEST(UniqueFd, release_leaves_the_descriptor_open_and_reset_closes_it) {
  UniqueFd owner(opened());
  const int fd = owner.release();
  EXPECT_FALSE(owner);
  ASSERT_TRUE(is_open(fd));
  owner.reset(fd);
  owner.reset();
  EXPECT_FALSE(is_open(fd));
}

}  // namespace
}  // namespace lockstep
