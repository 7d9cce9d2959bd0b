#include "operator/placement/queue_entry.h"

#include <algorithm>

namespace lockstep::placement {

bool is_held(const Seat& seat) {
  return seat.state == SeatState::kPinned || seat.state == SeatState::kBound;
}

bool holds_any(const Gang& gang) {
  return std::any_of(gang.seats.begin(), gang.seats.end(), is_held);
}

bool has_pods(const Gang& gang) {
  return std::any_of(gang.seats.begin(), gang.seats.end(),
                     [](const Seat& seat) { return seat.state != SeatState::kWanted; });
}

int count_bound(const Gang& gang) {
  return static_cast<int>(std::count_if(gang.seats.begin(), gang.seats.end(),
                                        [](const Seat& seat) { return seat.state == SeatState::kBound; }));
}

Want want_of(const Entry& entry) {
  const Gang& gang = entry.gang;
  const auto& leaving = entry.trouble.leaving;
  if (entry.trouble.releasing) return {Line::kStart, gang.whole, gang.pods, true};
  const int have = static_cast<int>(entry.places.size());
  // Each place is of a seat.
  const bool all = entry.places.size() == gang.seats.size();
  const auto lacks = [&](const Seat& seat) { return !entry.places.contains(seat.slot) && !leaving.contains(seat.pod); };
  const int lacking = all ? 0 : static_cast<int>(std::count_if(gang.seats.begin(), gang.seats.end(), lacks));
  const int reach = gang.running ? std::max(gang.whole, entry.reached) : gang.pods;
  Want want;
  if (have < gang.whole) {
    want = {gang.running || holds_any(gang) ? Line::kRepair : Line::kStart, gang.whole - have, reach - have};
  } else if (gang.running && have < reach) {
    want = {Line::kRepair, 1, reach - have};
  } else if (have < gang.pods) {
    want = {Line::kGrowth, 1, gang.pods - have};
  } else if (lacking > 0) {
    want = {Line::kSpare, 1, lacking};
  }
  if (lacking < want.least) {
    if (leaving.empty()) return {};
    want.blocked = true;
  }
  want.most = std::max(want.least, std::min(want.most, lacking));
  return want;
}

}  // namespace lockstep::placement
