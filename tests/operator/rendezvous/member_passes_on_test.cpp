// Whatever a process or the system says, a coordinator understands what its agent makes of it. The fixture reads each
// message as a coordinator does.
#include "operator/rendezvous/limits.h"
#include "tests/operator/rendezvous/member_fixture.h"

namespace lockstep::rendezvous {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

const std::vector<std::string>& texts() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> found = {"", "\\u0000", "\\ud83d\\ude80"};
    for (const int length : {16, 17, 64, 65, 255, 256, 257, 4095, 4096, 4097, 9000}) {
      found.push_back(std::string(static_cast<std::size_t>(length), 'x'));
    }
    for (const std::string character : {"\u00e9", "\u20ac", "\U0001f680"}) {
      found.push_back("x" + repeated(character, 3000));
    }
    return found;
  }();
  return all;
}

const std::vector<std::string> kNumbers = {"-9223372036854775808",
                                           "-2",
                                           "-1",
                                           "0",
                                           "1",
                                           "1000000",
                                           "1000001",
                                           "2147483647",
                                           "2147483648",
                                           "4611686018427387903",
                                           "4611686018427387904",
                                           "9223372036854775807",
                                           "18446744073709551615",
                                           "1e300",
                                           "-0.5",
                                           "null"};

// One message of a process with one of its fields as `value` says, and the others left out or as they must be.
struct Says {
  const char* kind;
  std::string others;
  std::vector<const char*> numbers, texts;
};

const std::vector<Says>& kinds() {
  static const std::vector<Says> all = {
      {"up", R"("regroups":true)", {"initMilliseconds", "transferMilliseconds"}, {}},
      {"progress", R"("later":0)", {"step", "totalSteps", "epoch", "loss", "samplesPerSecond", "etaSeconds"}, {}},
      {"checkpoint", R"("later":0)", {}, {"name"}},
      {"checkpoint", R"("name":"step-9")", {"step", "generation"}, {"digest"}},
      {"failure", R"("class":"own")", {"suspectRank"}, {"message"}},
      {"broken", R"("yielded":false)", {"generation", "suspectRank"}, {"message"}},
      {"broken", R"("generation":1)", {"suspectRank"}, {"message"}},
      {"activity", R"("now":[1,"forward",41,7,3,"idle",0,0,-1,-1])", {}, {"identity"}},
      {"holding", R"("term":1,"generation":2)", {"stateGeneration", "step"}, {"digest"}},
  };
  return all;
}

class MemberPassesOnTest : public MemberStateTest {
 protected:
  // A member with a process that says so, for a heartbeat and until the process has ended. Whether it could be said.
  bool passes_on(const std::string& line) {
    SCOPED_TRACE(line.substr(0, 200));
    const auto message = decode_worker_message(line);
    if (!message) return false;
    member = MemberState(MemberOptions{"ns", "pod", "uid", 1, 1, "session"}, now);
    join();
    run_generation(1);
    if (message->holding) {
      WorkerMessage up;
      up.up = up.regroups = true;
      member.on_worker_message(1, up, now);
      tell(proposal(2));
    }
    member.on_worker_message(1, *message, now);
    now += kHeartbeatEvery;
    member.on_tick(now);
    if (message->holding) prepared(2);
    end_process(1);
    forget();
    return true;
  }
};

TEST_F(MemberPassesOnTest, what_a_process_says_with_any_number_and_any_text) {
  int said = 0, refused = 0;
  const auto say = [&](const Says& what, const char* field, const std::string& value) {
    const std::string line =
        std::string("{\"") + what.kind + "\":{" + what.others + ",\"" + field + "\":" + value + "}}";
    ++(passes_on(line) ? said : refused);
  };
  for (const Says& what : kinds()) {
    for (const char* field : what.numbers) {
      for (const std::string& number : kNumbers) say(what, field, number);
    }
    for (const char* field : what.texts) {
      for (const std::string& text : texts()) say(what, field, "\"" + text + "\"");
    }
  }
  EXPECT_GT(said, 150);
  EXPECT_GT(refused, 50);
}

TEST_F(MemberPassesOnTest, an_activity_with_any_number) {
  int said = 0;
  for (int at = 0; at < 10; ++at) {
    if (at == 1 || at == 5) continue;  // names
    for (const std::string& number : kNumbers) {
      std::vector<std::string> values = {"1", "\"forward\"", "41", "7", "3", "\"idle\"", "0", "0", "-1", "-1"};
      values[static_cast<std::size_t>(at)] = number;
      std::string list;
      for (const std::string& value : values) list += (list.empty() ? "" : ",") + value;
      said += passes_on("{\"activity\":{\"now\":[" + list + "]}}") ? 1 : 0;
    }
  }
  EXPECT_GT(said, 30);
}

TEST_F(MemberPassesOnTest, the_end_of_a_process_and_a_failed_preparation_with_any_bytes) {
  std::vector<std::string> all = texts();
  all.push_back(std::string(kMaxStderrTail, '\xff'));
  all.push_back(std::string(9000, '\xe2'));
  for (const std::string& text : all) {
    member = MemberState(MemberOptions{"ns", "pod", "uid", 1, 1, "session"}, now);
    join();
    tell(proposal(1));
    member.on_prepared({1, 1}, Prepared{{}, "", 0, api::Cause::kPortInUse, text}, now);
    collect();
    run_generation(2);
    member.on_exit(ProcessEnd{.rank = 1,
                              .code = 126,
                              .signal = 0,
                              .end_ms = 17,
                              .stderr_tail = text.substr(0, kMaxStderrTail),
                              .problem = api::Cause::kCommandNotFound,
                              .message = text},
                   now);
    collect();
    EXPECT_FALSE(sent<Exit>().empty());
    EXPECT_FALSE(sent<Ready>().empty());
    forget();
  }
}

TEST(Limits, a_clipped_text_ends_with_a_whole_character) {
  EXPECT_EQ(clipped("abc", 3), "abc");
  EXPECT_EQ(clipped("abc", 2), "ab");
  EXPECT_EQ(clipped("a\u20ac", 4), "a\u20ac");
  EXPECT_EQ(clipped("a\u20ac", 3), "a");
  EXPECT_EQ(clipped("a\U0001f680", 4), "a");
  EXPECT_EQ(clipped("", 4), "");
}

TEST(Limits, bytes_that_are_no_text_are_replaced_within_the_limit) {
  EXPECT_EQ(clipped("a\xff", 9), "a\ufffd");
  EXPECT_EQ(clipped("\xff\xff\xff\xff", 4), "\ufffd");
  EXPECT_LE(clipped(std::string(9000, '\xff'), 4096).size(), 4096U);
}

TEST_F(MemberStateTest, heartbeats_come_as_often_as_the_coordinator_wants) {
  member.on_connected(now);
  tell(Welcome{1, 1000});
  forget();
  EXPECT_EQ(member.deadline(), now + std::chrono::seconds(1));
  now += std::chrono::milliseconds(999);
  member.on_tick(now);
  EXPECT_TRUE(sent<Heartbeat>().empty());
  now += std::chrono::milliseconds(1);
  member.on_tick(now);
  EXPECT_EQ(sent<Heartbeat>().size(), 1U);
}

}  // namespace
}  // namespace lockstep::rendezvous
