#include "operator/cli/storage_result.h"

#include <gtest/gtest.h>

namespace lockstep::cli::storage_result_test {
namespace {

StorageResult result_of(const StorageCell& cell, std::vector<double> speeds) {
  return {.settings = settings_of(cell, {}, "1.0"), .speeds = std::move(speeds)};
}

std::vector<StorageRow> some_rows() {
  return storage_rows({result_of({"synthetic", "", 1}, {8000}), result_of({"memory", "files", 1}, {90, 110}),
                       result_of({"memory", "files", 4}, {200}), result_of({"memory", "records", 1}, {50}),
                       result_of({"nfs", "files", 1}, {40, 40}), result_of({"nfs", "files", 4}, {100}),
                       result_of({"nfs", "files", 8}, {100}), result_of({"nfs", "records", 1}, {})});
}

TEST(StorageResult, the_speed_is_that_of_the_last_line_of_results) {
  EXPECT_EQ(
      parse_read("x\nresult {\"images_per_second\":1}\nresult {\"images\":3,\"images_per_second\":2.5}\n").value(),
      2.5);
  for (const char* text : {"", "no result", "result {\"images_per_second\":1}", "\nresult {", "\nresult {}\n",
                           "\nresult {\"images_per_second\":\"2\"}\n"}) {
    EXPECT_EQ(parse_read(text).error().code, ErrorCode::kInvalid) << text;
  }
}

TEST(StorageResult, what_is_stored_is_read_again) {
  const StorageResult result = result_of({"nfs", "files", 4}, {1.5, 2});
  const StorageResult read = parse_storage_result(to_json(result).dump()).value();
  EXPECT_EQ(read.settings, result.settings);
  EXPECT_EQ(read.speeds, result.speeds);
  for (const char* text : {"", "[]", "{}", "{\"settings\":[],\"imagesPerSecond\":[1]}",
                           "{\"settings\":{},\"imagesPerSecond\":[\"fast\"]}"}) {
    EXPECT_EQ(parse_storage_result(text).error().message, "it is not the result of a cell") << text;
  }
}

TEST(StorageResult, the_bound_is_memory_with_the_same_form_and_loaders) {
  EXPECT_EQ(storage_table(some_rows()),
            "STORE      FORM     LOADERS  IMAGES/SEC  +/-  BOUND  RATIO\n"
            "synthetic  -        1        8000.0      0.0  -      -\n"
            "memory     files    1        100.0       7.1  100.0  1.00\n"
            "memory     files    4        200.0       0.0  200.0  1.00\n"
            "memory     records  1        50.0        0.0  50.0   1.00\n"
            "nfs        files    1        40.0        0.0  100.0  0.40\n"
            "nfs        files    4        100.0       0.0  200.0  0.50\n"
            "nfs        files    8        100.0       0.0  -      -\n");
}

TEST(StorageResult, csv_and_json_have_the_table) {
  const std::string csv = storage_csv(some_rows());
  EXPECT_TRUE(
      csv.starts_with("store,form,loaders,runs,images_per_second,standard_error,bound,ratio\n"
                      "synthetic,,1,1,8000,0,,\nmemory,files,1,2,100,7.07107,100,1\n"))
      << csv;
  const nlohmann::json json = storage_json(some_rows());
  ASSERT_EQ(json.size(), 7U);
  EXPECT_EQ(json[0]["bound"], nullptr);
  EXPECT_EQ(json[5], (nlohmann::json{{"store", "nfs"},
                                     {"form", "files"},
                                     {"loaders", 4},
                                     {"runs", 1},
                                     {"imagesPerSecond", 100.0},
                                     {"standardError", 0.0},
                                     {"bound", 200.0},
                                     {"ratio", 0.5}}));
}

TEST(StorageResult, the_picture_has_a_line_for_each_store_and_form) {
  const std::string svg = storage_svg(some_rows());
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  // 200 images/s are the top, at 40; 0 is at 312; 1 and 8 loaders are at 64 and 520.
  EXPECT_NE(svg.find("points=\"64.0,176.0 259.4,40.0 \""), std::string::npos) << svg;
  EXPECT_NE(svg.find("points=\"64.0,257.6 259.4,176.0 520.0,176.0 \""), std::string::npos) << svg;
  EXPECT_NE(svg.find(">nfs, files</text>"), std::string::npos);
  EXPECT_EQ(svg.find("synthetic"), std::string::npos) << "it has no loaders";
}

}  // namespace
}  // namespace lockstep::cli::storage_result_test
