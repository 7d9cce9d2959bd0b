#include "operator/placement/request_table.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace lockstep::placement {
namespace {

std::size_t hash_of(const std::vector<Amount>& amounts) {
  std::size_t hash = amounts.size();
  for (const Amount& amount : amounts) {
    hash = hash * 0x9e3779b97f4a7c15U + std::hash<std::string>()(amount.name);
    hash = hash * 0x9e3779b97f4a7c15U + static_cast<std::size_t>(amount.units);
  }
  return hash ^ hash >> 32U;
}

}  // namespace

bool RequestTable::equal(RowId row, const std::vector<Amount>& amounts) const {
  const Row& known = rows_[index(row)];
  if (known.entries.size() != amounts.size()) return false;
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    const Entry& entry = known.entries[known.by_name[i]];
    if (entry.units != amounts[i].units || name(entry.resource) != amounts[i].name) return false;
  }
  return true;
}

RowId RequestTable::acquire(const std::vector<Amount>& amounts) {
  const std::size_t hash = hash_of(amounts);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (equal(it->second, amounts)) {
      ++rows_[index(it->second)].holders;
      return it->second;
    }
  }
  RowId id = static_cast<RowId>(rows_.size());
  if (free_rows_.empty()) {
    rows_.emplace_back();
  } else {
    id = free_rows_.back();
    free_rows_.pop_back();
  }
  std::vector<ResourceId> resources;  // in the order of the names
  for (const Amount& amount : amounts) resources.push_back(acquire_name(amount.name));
  std::vector<std::uint8_t> order(amounts.size());
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::sort(order.begin(), order.end(), [&](std::uint8_t a, std::uint8_t b) { return resources[a] < resources[b]; });
  Row& row = rows_[index(id)];
  row.hash = hash;
  row.holders = 1;
  row.by_name.resize(amounts.size());
  for (const std::uint8_t i : order) {
    row.by_name[i] = static_cast<std::uint8_t>(row.entries.size());
    row.entries.push_back({resources[i], amounts[i].units});
  }
  by_hash_.emplace(hash, id);
  return id;
}

void RequestTable::release(RowId id) {
  Row& row = rows_[index(id)];
  if (--row.holders > 0) return;
  for (const Entry& entry : row.entries) release_name(entry.resource);
  const auto [first, last] = by_hash_.equal_range(row.hash);
  by_hash_.erase(std::find_if(first, last, [&](const auto& known) { return known.second == id; }));
  row = {};
  free_rows_.push_back(id);
}

ResourceId RequestTable::acquire_name(const std::string& name) {
  if (const auto known = name_ids_.find(name); known != name_ids_.end()) {
    ++names_[index(known->second)].holders;
    return known->second;
  }
  ResourceId id = static_cast<ResourceId>(names_.size());
  if (free_names_.empty()) {
    names_.emplace_back();
  } else {
    id = free_names_.back();
    free_names_.pop_back();
  }
  names_[index(id)] = {name, 1};
  name_ids_.emplace(name, id);
  return id;
}

void RequestTable::release_name(ResourceId resource) {
  Name& known = names_[index(resource)];
  if (--known.holders > 0) return;
  name_ids_.erase(known.name);
  known = {};
  free_names_.push_back(resource);
}

}  // namespace lockstep::placement
