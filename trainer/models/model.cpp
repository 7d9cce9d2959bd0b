#include "trainer/models/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/data/text_source.h"

namespace lockstep::trainer::models {

namespace {

std::string names_of(const std::vector<Option>& options) {
  if (options.empty()) return "no options of its own";
  std::string names;
  for (size_t i = 0; i < options.size(); ++i) {
    if (i > 0) names += i + 1 == options.size() ? " and " : ", ";
    names += "--" + options[i].name;
  }
  return names;
}

}  // namespace

std::string to_text(const Number& number) {
  if (const auto* whole = std::get_if<std::int64_t>(&number)) return fmt::format("{}", *whole);
  return fmt::format("{}", std::get<double>(number));
}

Option layers(std::int64_t value) {
  return {"layers", "Blocks, or hidden layers", value, std::int64_t{1}, kLargestOption};
}

Option width(std::int64_t value) {
  return {"width", "Features of a layer", value, std::int64_t{1}, kLargestOption};
}

Option dropout(double value) {
  return {"dropout", "Dropout rate", value, 0.0, 0.99};
}

void Settings::set(const std::string& name, Number value) {
  for (auto& [known, old] : values_) {
    if (known == name) {
      old = value;
      return;
    }
  }
  values_.emplace_back(name, value);
}

const Number* Settings::find(std::string_view name) const {
  auto found = std::find_if(values_.begin(), values_.end(), [&](const auto& value) { return value.first == name; });
  return found == values_.end() ? nullptr : &found->second;
}

std::string Settings::describe() const {
  std::string text;
  for (const auto& [name, value] : values_) {
    if (!text.empty()) text += ' ';
    text += name + "=" + to_text(value);
  }
  return text;
}

bool is_synthetic(const std::vector<std::string>& paths) {
  return paths.size() == 1 && paths.front() == "synthetic";
}

Result<Dataset> open_text(const DataOptions& options, std::int64_t context) {
  Dataset dataset{.context = context};
  LOCKSTEP_TRY(auto text, data::read_text(options.paths));
  dataset.text = std::make_unique<data::Text>(std::move(text));
  LOCKSTEP_TRY(auto source, data::TextSource::create(*dataset.text, context, options.seed, options.held_out));
  dataset.epoch_samples = source.windows();
  dataset.fingerprint = dataset.text->fingerprint;
  dataset.description =
      fmt::format("{} files, {} characters to learn, {} held out, vocabulary {}", dataset.text->files.size(),
                  dataset.text->training.size(), dataset.text->held_out.size(), dataset.text->vocabulary.size());
  dataset.source = std::make_unique<data::TextSource>(std::move(source));
  return dataset;
}

Result<Settings> settle(const Model& model, const Settings& given) {
  for (const auto& [name, value] : given.all()) {
    const std::string& wanted = name;
    if (std::none_of(model.options.begin(), model.options.end(), [&](const Option& o) { return o.name == wanted; })) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("--model={} has no --{}: it has {}", model.name, name, names_of(model.options)));
    }
  }
  Settings settings;
  for (const Option& option : model.options) {
    const Number* value = given.find(option.name);
    settings.set(option.name, value != nullptr ? *value : option.value);
  }
  if (model.check) LOCKSTEP_CHECK_OK(model.check(settings));
  return settings;
}

double learning_rate(const Recipe& recipe, std::int64_t batch_size) {
  if (recipe.batch_size == 0) return recipe.learning_rate;
  return recipe.learning_rate * static_cast<double>(batch_size) / static_cast<double>(recipe.batch_size);
}

const Recipe* recipe_of(const Model& model, std::string_view optimizer) {
  for (const Recipe& recipe : model.recipes) {
    if (optimizer.empty() || recipe.optimizer == optimizer) return &recipe;
  }
  return nullptr;
}

}  // namespace lockstep::trainer::models
