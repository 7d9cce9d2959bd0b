#include "trainer/best.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep::trainer {

void Best::count(std::int64_t at, double held_out_loss) {
  if (at <= counted) return;
  counted = at;
  if (std::isfinite(held_out_loss) && (step < 0 || held_out_loss < loss)) {
    step = at;
    loss = held_out_loss;
    misses = 0;
  } else {
    ++misses;
  }
}

std::string to_text(const Best& best) {
  return nlohmann::json{
      {"step", best.step}, {"held_out_loss", best.loss}, {"counted", best.counted}, {"misses", best.misses}}
      .dump();
}

Best best_from(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return {};
  for (const char* whole : {"step", "counted", "misses"}) {
    if (!json.contains(whole) || !json[whole].is_number_integer()) return {};
  }
  if (!json.contains("held_out_loss") || !json["held_out_loss"].is_number()) return {};
  return {.step = json["step"].get<std::int64_t>(),
          .loss = json["held_out_loss"].get<double>(),
          .counted = json["counted"].get<std::int64_t>(),
          .misses = json["misses"].get<std::int64_t>()};
}

}  // namespace lockstep::trainer
