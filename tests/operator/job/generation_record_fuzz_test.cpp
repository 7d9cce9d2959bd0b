// The fuzz target on small random changes of records of all formats.
#include <gtest/gtest.h>

#include "tests/fuzz/on_small_changes.h"

extern "C" int generation_record_fuzz(const std::uint8_t* data, std::size_t size);

namespace lockstep::job::generation_record_fuzz_test {
namespace {

TEST(GenerationRecordFuzz, records_with_small_changes_do_no_harm) {
  const std::string members = R"([{"slot":1,"incarnation":4,"life":1},{"slot":0,"incarnation":1,"life":2}])";
  const std::string rest = R"(,"checkpoint":{"name":"step-120.g3","step":120,"generation":3,"digest":"abc"},)"
                           R"("writer":"0123456789abcdef","term":3,"generation":7)";
  const std::string progress = R"(,"finished":true,"progress":{"step":9,"totalSteps":10,"epoch":1,"loss":0.5}})";
  run_on_small_changes(
      generation_record_fuzz,
      {R"({"term":3,"generation":7,"members":)" + members + "}", R"({"format":2,"members":)" + members + rest + "}",
       R"({"format":3,"members":[{"slot":1,"incarnation":-1,"life":0}],"ranks":)" + members + rest + "}",
       R"({"format":3,"members":[],"ranks":)" + members + rest + progress,
       R"({"format":9,"members":{"racks":[[0,1]]})" + rest + "}"},
      "[]{}:,\"\\-+.0123456789eEtrufalsn \n\xff\xc3\x80", 40'000);
}

}  // namespace
}  // namespace lockstep::job::generation_record_fuzz_test
