// Rows of amounts, each stored once: thousands of pods ask for the same, thousands of nodes have the same. Rows and
// resource names live as long as a holder needs them.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "operator/placement/effective_requests.h"

namespace lockstep::placement {

using RowId = std::int32_t;
using ResourceId = std::int32_t;

class RequestTable {
 public:
  struct Entry {
    ResourceId resource;
    std::int64_t units;
  };

  // The id of the row, with one more holder. `amounts` is ordered by name, each name once.
  RowId acquire(const std::vector<Amount>& amounts);
  // One holder less; the id of a row without holders is used again.
  void release(RowId row);

  // Ordered by resource.
  const std::vector<Entry>& entries(RowId row) const { return rows_[index(row)].entries; }
  const std::string& name(ResourceId resource) const { return names_[index(resource)].name; }
  bool equal(RowId row, const std::vector<Amount>& amounts) const;
  // How many rows are held.
  std::size_t size() const { return rows_.size() - free_rows_.size(); }

 private:
  struct Row {
    std::vector<Entry> entries;
    std::vector<std::uint8_t> by_name;  // positions in `entries`, in the order of the names
    std::size_t hash = 0;
    int holders = 0;
  };
  struct Name {
    std::string name;
    int holders = 0;
  };

  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }
  ResourceId acquire_name(const std::string& name);
  void release_name(ResourceId resource);

  std::vector<Row> rows_;
  std::vector<RowId> free_rows_;
  std::unordered_multimap<std::size_t, RowId> by_hash_;
  std::vector<Name> names_;
  std::vector<ResourceId> free_names_;
  std::unordered_map<std::string, ResourceId> name_ids_;
};

}  // namespace lockstep::placement
