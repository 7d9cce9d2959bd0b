#include "operator/rendezvous/gang_choice.h"

#include <algorithm>
#include <tuple>

namespace lockstep::rendezvous {

std::vector<int> choose_gang(std::vector<Candidate> present, std::size_t size) {
  std::sort(present.begin(), present.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(!a.of_the_gang, a.slot) < std::tuple(!b.of_the_gang, b.slot);
  });
  if (present.size() > size) present.resize(size);
  std::vector<int> slots;
  for (const Candidate& candidate : present) slots.push_back(candidate.slot);
  std::sort(slots.begin(), slots.end());
  return slots;
}

}  // namespace lockstep::rendezvous
