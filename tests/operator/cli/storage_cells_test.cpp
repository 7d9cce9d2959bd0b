#include "operator/cli/storage_cells.h"

#include <gmock/gmock.h>

#include <set>

namespace lockstep::cli::storage_cells_test {
namespace {

using ::testing::ElementsAre;

TEST(StorageCells, memory_is_always_measured_in_both_forms_at_each_number_of_loaders) {
  StorageOptions options;
  options.stores = {"object", "nfs", "object"};
  options.loaders = {4, 1, 4};
  std::vector<std::string> names;
  for (const StorageCell& cell : storage_cells(options)) names.push_back(name_of(cell));
  EXPECT_THAT(names,
              ElementsAre("synthetic", "memory-records-l1", "memory-records-l4", "memory-files-l1", "memory-files-l4",
                          "object-records-l1", "object-records-l4", "object-files-l1", "object-files-l4",
                          "nfs-records-l1", "nfs-records-l4", "nfs-files-l1", "nfs-files-l4"));
}

TEST(StorageCells, each_store_reads_with_its_own_figures) {
  StorageOptions options;
  options.side = 64;
  options.seconds = 0.5;
  options.object = {30, 0};
  const auto words = [&](const StorageCell& cell) { return words_of(cell, options, "d", "k"); };
  EXPECT_THAT(words({"synthetic", "", 1}), ElementsAre("read", "synthetic", "--size=64", "--seconds=0.5"));
  EXPECT_THAT(words({"memory", "files", 8}),
              ElementsAre("read", "d", "--size=64", "--seconds=0.5", "--threads=8", "--in-memory"));
  EXPECT_THAT(words({"local", "records", 1}), ElementsAre("read", "d", "--size=64", "--seconds=0.5"));
  EXPECT_THAT(words({"nfs", "records", 2}), ElementsAre("read", "d", "--size=64", "--seconds=0.5", "--threads=2",
                                                        "--latency-ms=1", "--bandwidth-mib=1000"));
  EXPECT_THAT(words({"object", "files", 1}), ElementsAre("read", "d", "--size=64", "--seconds=0.5", "--latency-ms=30"));
  EXPECT_THAT(words({"object-kept", "files", 1}),
              ElementsAre("read", "d", "--size=64", "--seconds=0.5", "--latency-ms=30", "--cache-folder=k",
                          "--cache-folder-mib=8192", "--second-epoch"));
}

// A cell is measured again only if something that it depends on differs.
TEST(StorageCells, settings_are_those_that_the_cell_depends_on) {
  const StorageCell nfs{"nfs", "files", 2}, local{"local", "files", 2};
  const auto settings = [](const StorageCell& cell, const StorageOptions& options) {
    return settings_of(cell, options, "1.0");
  };
  StorageOptions slower;
  slower.nfs.latency_ms = 7;
  EXPECT_NE(settings(nfs, slower), settings(nfs, {}));
  EXPECT_EQ(settings(local, slower), settings(local, {}));
  std::vector<StorageOptions> others(4);
  others[0].images = 5;
  others[1].side = 32;
  others[2].seconds = 1;
  others[3].runs = 9;
  for (const StorageOptions& other : others) EXPECT_NE(settings(local, other), settings(local, {}));
  EXPECT_NE(data_of("files", others[0]), data_of("files", {}));
  EXPECT_NE(data_of("files", others[1]), data_of("files", {}));
  EXPECT_NE(data_of("files", {}), data_of("records", {}));
}

TEST(StorageCells, the_plan_counts_the_cells_that_are_left) {
  StorageOptions options;
  options.seconds = 10;
  options.runs = 6;
  EXPECT_EQ(
      storage_plan({{"synthetic", "", 1}, {"nfs", "files", 8}, {"nfs", "files", 16}}, {true, false, false}, options),
      "STORE      FORM   LOADERS  TIME\n"
      "synthetic  -      1        measured\n"
      "nfs        files  8        1:00\n"
      "nfs        files  16       1:00\n"
      "\n3 cells, 2:00 in all, and the time to make 2000 images of 224 x 224 pixels\n");
}

}  // namespace
}  // namespace lockstep::cli::storage_cells_test
