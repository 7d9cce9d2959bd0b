// What a leader's Secret shall hold: terms that never fall, and an authority that changes without cutting anybody off.
#include "operator/job/coordinator_authority.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::job::coordinator_authority_test {
namespace {

using rendezvous::KeyPair;

constexpr const char* kNamespace = "lockstep-system";

KeyPair pair(std::chrono::seconds valid = rendezvous::kAuthorityValid) {
  auto made = rendezvous::make_authority(valid);
  EXPECT_TRUE(made);
  return made.value_or({});
}

AuthorityView view(std::optional<Authority> stored, std::int64_t lease_term = 1) {
  AuthorityView view;
  view.stored = std::move(stored);
  view.lease_term = lease_term;
  view.now = std::chrono::system_clock::now();
  return view;
}

Authority decide(const AuthorityView& view) {
  auto wanted = decide_authority(view, [] { return rendezvous::make_authority(); });
  EXPECT_TRUE(wanted) << wanted.error().message;
  return wanted.value_or({});
}

TEST(CoordinatorAuthority, the_term_is_above_whatever_lease_and_secret_say) {
  const KeyPair ours = pair();
  EXPECT_EQ(decide(view(std::nullopt, 1)).term, 1);
  EXPECT_EQ(decide(view(Authority{.current = ours, .term = 7}, 8)).term, 8);    // the usual: one leader after another
  EXPECT_EQ(decide(view(Authority{.current = ours, .term = 7}, 1)).term, 8);    // somebody deleted the Lease
  EXPECT_EQ(decide(view(Authority{.current = ours, .term = 0}, 40)).term, 40);  // somebody deleted the Secret
  EXPECT_EQ(decide(view(Authority{.current = ours, .term = 7}, 0)).term, 8);    // no election
}

TEST(CoordinatorAuthority, a_claimed_term_stays_and_is_never_lowered) {
  const KeyPair ours = pair();
  auto looking = view(Authority{.current = ours, .term = 3});
  looking.held = Authority{.current = ours, .term = 9};
  looking.claimed = 9;
  EXPECT_EQ(decide(looking).term, 9);
  looking.stored->term = 12;  // a successor's, which the fence will have noticed
  EXPECT_EQ(decide(looking).term, 12);
}

TEST(CoordinatorAuthority, a_term_that_is_no_term_counts_as_none) {
  const Authority authority{.current = pair(), .term = 5};
  auto secret = authority_secret(kNamespace, authority, std::nullopt);
  for (const char* text : {"", "many", "-4", "9223372036854775807", "2147483647", "7 "}) {
    secret["metadata"]["annotations"][kTermAnnotation] = text;
    const auto read = parse_authority(secret);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->term, 0) << text;
  }
}

TEST(CoordinatorAuthority, a_secret_says_what_was_written_and_keeps_what_others_added) {
  const Authority authority{.current = pair(), .next = pair(), .term = 5};
  auto secret = authority_secret(kNamespace, authority, std::nullopt);
  secret["metadata"]["labels"]["team"] = "x";
  secret["metadata"]["annotations"]["note"] = "y";
  secret["data"]["other"] = "eg==";
  EXPECT_EQ(parse_authority(secret).value_or({}), authority);
  Authority single = authority;
  single.next.reset();
  const auto later = authority_secret(kNamespace, single, secret);
  EXPECT_EQ(parse_authority(later).value_or({}), single);
  EXPECT_EQ(later["metadata"]["labels"]["team"], "x");
  EXPECT_EQ(later["metadata"]["annotations"]["note"], "y");
  EXPECT_EQ(later["data"]["other"], "eg==");
}

TEST(CoordinatorAuthority, a_damaged_secret_is_named) {
  const auto whole = authority_secret(kNamespace, {.current = pair()}, std::nullopt);
  const auto other = authority_secret(kNamespace, {.current = pair()}, std::nullopt);
  auto damaged = whole;
  const std::vector<std::string> values{"", "%%%", "Y2VydA==", other["data"]["tls.crt"].get<std::string>()};
  for (const std::string& value : values) {
    damaged["data"]["tls.crt"] = value;
    const auto read = parse_authority(damaged);
    ASSERT_FALSE(read) << value;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(read.error().message.find(kAuthoritySecret), std::string::npos);
  }
}

TEST(CoordinatorAuthority, the_served_authority_comes_back_after_its_secret_is_gone) {
  const Authority held{.current = pair(), .next = pair(), .term = 4};
  auto looking = view(std::nullopt);
  looking.held = held;
  looking.claimed = 4;
  EXPECT_EQ(decide(looking), held);
}

TEST(CoordinatorAuthority, a_pair_that_somebody_put_in_place_becomes_the_next_one) {
  const KeyPair ours = pair(), theirs = pair();
  auto looking = view(Authority{.current = theirs, .term = 4});
  looking.held = Authority{.current = ours, .term = 4};
  looking.claimed = 4;
  const auto wanted = decide(looking);
  EXPECT_EQ(wanted.current, ours);
  EXPECT_EQ(wanted.next, theirs);
}

TEST(CoordinatorAuthority, it_rotates_when_asked_or_when_little_time_is_left) {
  const KeyPair fresh = pair(), old = pair(std::chrono::hours(24 * 364));
  EXPECT_FALSE(decide(view(Authority{.current = fresh})).next);
  const auto asked = decide(view(Authority{.current = fresh, .rotate = true}));
  EXPECT_TRUE(asked.next);
  EXPECT_FALSE(asked.rotate);
  EXPECT_EQ(asked.current, fresh);
  EXPECT_TRUE(decide(view(Authority{.current = old})).next);
}

TEST(CoordinatorAuthority, the_old_one_is_served_until_every_pod_trusts_the_next) {
  const Authority rotating{.current = pair(), .next = pair(), .term = 4};
  auto looking = view(rotating);
  looking.claimed = 4;
  EXPECT_EQ(decide(looking), rotating);  // a new leader, which has looked at no pod
  looking.held = rotating;
  EXPECT_EQ(decide(looking), rotating);
  looking.everyone_trusts_next = true;
  const auto switched = decide(looking);
  EXPECT_EQ(switched.current, *rotating.next);
  EXPECT_FALSE(switched.next);
  looking.stored->next = pair();  // not the one that was asked about
  EXPECT_EQ(decide(looking).current, rotating.current);
}

TEST(CoordinatorAuthority, a_switch_whose_answer_was_lost_has_happened) {
  const Authority rotating{.current = pair(), .next = pair(), .term = 4};
  auto looking = view(Authority{.current = *rotating.next, .term = 4});
  looking.held = rotating;
  looking.claimed = 4;
  EXPECT_EQ(decide(looking), *looking.stored);
}

TEST(CoordinatorAuthority, an_expired_one_serves_nobody_and_is_replaced_at_once) {
  const Authority expired{.current = pair(std::chrono::seconds(-10)), .next = pair(), .term = 4};
  EXPECT_EQ(decide(view(expired)).current, *expired.next);
}

}  // namespace
}  // namespace lockstep::job::coordinator_authority_test
