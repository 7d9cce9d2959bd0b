// What holds for each model of the registry, whichever they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/trainer/models/image_folder.h"
#include "tests/trainer/models/parameters.h"
#include "trainer/models/registry.h"

namespace lockstep::trainer::models {
namespace {

namespace fs = std::filesystem;

class Registry : public ::testing::Test {
 protected:
  Registry() {
    std::ofstream text(text_);
    for (int i = 0; i < 500; ++i) text << "the gang reduces its gradient. ";
    testing::image_folder(images_, 20, 10);
  }
  ~Registry() override {
    fs::remove(text_);
    fs::remove_all(images_);
  }

  Dataset open(const Model& model, const Settings& settings) const {
    DataOptions options{.real = core::ElementType::kFloat64, .seed = 7, .held_out = 8};
    if (model.data == Model::Data::kText) options.paths = {text_.string()};
    if (model.data == Model::Data::kImages) options.paths = {images_.string()};
    return std::move(model.open(settings, options)).value();
  }
  core::Graph build(const Model& model, const Settings& given, std::int64_t batch) const {
    Settings settings = settle(model, given).value();
    return model.graph(settings, open(model, settings), batch);
  }

  fs::path text_ = fs::temp_directory_path() / ("registry_test." + std::to_string(::getpid()));
  fs::path images_ = text_.string() + ".images";
};

Settings one(const std::string& name, Number value) {
  Settings settings;
  settings.set(name, value);
  return settings;
}

TEST_F(Registry, lists_each_model_once_and_finds_it_by_name) {
  std::set<std::string> names;
  for (const Model& model : all_models()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_EQ(find_model(model.name), &model);
    EXPECT_FALSE(model.help.empty()) << model.name;
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"char-transformer", "linear-regression", "mlp"}));
  EXPECT_EQ(find_model("resnet"), nullptr);
}

TEST_F(Registry, defaults_of_each_model_are_in_bounds_and_pass_its_check) {
  for (const Model& model : all_models()) {
    for (const Option& option : model.options) {
      EXPECT_EQ(option.value.index(), option.least.index()) << model.name << " --" << option.name;
      EXPECT_EQ(option.value.index(), option.most.index()) << model.name << " --" << option.name;
      EXPECT_TRUE(option.least <= option.value && option.value <= option.most) << model.name << " --" << option.name;
    }
    auto settings = settle(model, {});
    ASSERT_TRUE(settings) << settings.error().message;
    EXPECT_EQ(settings->all().size(), model.options.size()) << model.name;
  }
}

TEST_F(Registry, an_option_means_the_same_in_each_model) {
  std::map<std::string, Option> seen;
  for (const Model& model : all_models()) {
    for (const Option& option : model.options) {
      const Option& first = seen.emplace(option.name, option).first->second;
      EXPECT_EQ(option.help, first.help) << model.name;
      EXPECT_TRUE(option.least == first.least && option.most == first.most) << model.name << " --" << option.name;
    }
  }
}

TEST_F(Registry, each_model_builds_a_graph_that_its_samples_fill) {
  for (const Model& model : all_models()) {
    SCOPED_TRACE(model.name);
    const Settings settings = settle(model, {}).value();
    const Dataset dataset = open(model, settings);
    EXPECT_GT(dataset.epoch_samples, 0);
    EXPECT_GT(dataset.source->held_out(), 0);
    const std::int64_t batch = std::max<std::int64_t>(3, model.least_micro_batch);
    const core::Graph graph = model.graph(settings, dataset, batch);
    EXPECT_EQ(graph.batch, batch);
    for (core::TensorId id : graph.with_role(core::Role::kInput)) EXPECT_EQ(graph.tensor(id).shape[0], batch);
    EXPECT_GT(parameters_of(graph), 0U);
    EXPECT_EQ(!graph.with_role(core::Role::kStatistic).empty(), model.least_micro_batch > 1)
        << "a model with running statistics normalises over the micro-batch";
    EXPECT_EQ(model.writes_text, model.data == Model::Data::kText);
  }
}

std::int64_t heads_of(const core::Graph& graph) {
  for (const core::Node& node : graph.nodes) {
    if (const auto* attention = std::get_if<core::ops::CausalAttention>(&node.op)) return attention->heads;
  }
  return 0;
}

TEST_F(Registry, options_reach_the_graph) {
  struct Case {
    const char* model;
    const char* option;
    Number value;
    bool parameters = false, nodes = false, heads = false;  // what it changes
  };
  for (const Case& c : std::vector<Case>{
           {.model = "mlp", .option = "layers", .value = std::int64_t{3}, .parameters = true, .nodes = true},
           {.model = "mlp", .option = "width", .value = std::int64_t{9}, .parameters = true},
           {.model = "mlp", .option = "dropout", .value = 0.5, .nodes = true},
           {.model = "char-transformer",
           .option = "layers",
           .value = std::int64_t{1},
           .parameters = true,
           .nodes = true},
           {.model = "char-transformer", .option = "width", .value = std::int64_t{16}, .parameters = true},
           {.model = "char-transformer", .option = "heads", .value = std::int64_t{8}, .heads = true},
           {.model = "char-transformer", .option = "context", .value = std::int64_t{8}, .parameters = true},
           {.model = "char-transformer", .option = "dropout", .value = 0.5, .nodes = true},
           {.model = "resnet50", .option = "classes", .value = std::int64_t{10}, .parameters = true},
           {.model = "resnet50", .option = "width", .value = std::int64_t{8}, .parameters = true},
           {.model = "resnet18", .option = "width", .value = std::int64_t{8}, .parameters = true},
           {.model = "mobilenet-v2", .option = "classes", .value = std::int64_t{10}, .parameters = true},
           {.model = "mobilenet-v2", .option = "dropout", .value = 0.0, .nodes = true},
           {.model = "vgg-a", .option = "image-size", .value = std::int64_t{64}, .parameters = true},
           {.model = "vgg-a", .option = "classes", .value = std::int64_t{10}, .parameters = true},
           {.model = "vgg-a", .option = "dropout", .value = 0.0, .nodes = true},
       }) {
    SCOPED_TRACE(std::string(c.model) + " --" + c.option);
    const core::Graph plain = build(*find_model(c.model), {}, 4);
    const core::Graph other = build(*find_model(c.model), one(c.option, c.value), 4);
    EXPECT_EQ(parameters_of(other) != parameters_of(plain), c.parameters);
    EXPECT_EQ(other.nodes.size() != plain.nodes.size(), c.nodes);
    EXPECT_EQ(heads_of(other) != heads_of(plain), c.heads);
  }
}

TEST_F(Registry, each_model_has_a_recipe_for_its_default_optimizer) {
  for (const Model& model : all_models()) {
    ASSERT_FALSE(model.recipes.empty()) << model.name;
    EXPECT_EQ(recipe_of(model, ""), &model.recipes.front());
    for (const Recipe& recipe : model.recipes) {
      EXPECT_EQ(recipe_of(model, recipe.optimizer), &recipe) << "two recipes for " << recipe.optimizer;
      EXPECT_GT(recipe.learning_rate, 0) << model.name << " " << recipe.optimizer;
    }
    EXPECT_EQ(recipe_of(model, "newton"), nullptr);
  }
}

TEST_F(Registry, learning_rates_scale_with_the_batch_where_the_recipe_names_one) {
  const Recipe of_any{.learning_rate = 0.1}, of_256{.learning_rate = 0.1, .batch_size = 256};
  EXPECT_EQ(learning_rate(of_any, 1024), 0.1);
  EXPECT_EQ(learning_rate(of_256, 1024), 0.4);
  EXPECT_EQ(learning_rate(of_256, 256), 0.1);
}

TEST_F(Registry, label_smoothing_and_image_size_reach_the_graph) {
  for (const Model& model : all_models()) {
    const Settings settings = settle(model, {}).value();
    if (settings.find("label-smoothing") == nullptr) continue;
    SCOPED_TRACE(model.name);
    Settings given = one("label-smoothing", 0.25);
    given.set("image-size", std::int64_t{96});
    const core::Graph graph = build(model, given, 2);
    const auto* loss = std::get_if<core::ops::SoftmaxCrossEntropy>(&graph.nodes.back().op);
    ASSERT_NE(loss, nullptr);
    EXPECT_EQ(loss->smoothing, 0.25);
    EXPECT_EQ(graph.tensor(graph.with_role(core::Role::kInput)[0]).shape, (core::Shape{2, 96, 96, 3}));
  }
}

TEST_F(Registry, parameter_counts_equal_the_published_formulas) {
  const size_t v = 14, t = 64, c = 128, block = 12 * c * c + 13 * c;
  const std::map<std::string, size_t> counts = {
      {"char-transformer", v * c + t * c + 4 * block + 2 * c + c * v},
      {"linear-regression", 2},
      {"mlp", 32 * 128 + 128 * 128 + 2 * 2 * 128 + 128 * 10 + 10},
  };
  for (const auto& [name, count] : counts) {
    const Model* model = find_model(name);
    ASSERT_NE(model, nullptr) << name;
    EXPECT_EQ(parameters_of(build(*model, {}, 4)), count) << name;
  }
}

TEST_F(Registry, checkpoints_find_the_configuration_that_they_know) {
  EXPECT_EQ(settle(*find_model("char-transformer"), one("dropout", 0.1))->describe(),
            "layers=4 width=128 heads=4 context=64 dropout=0.1");
  EXPECT_EQ(settle(*find_model("linear-regression"), {})->describe(), "");
  EXPECT_EQ(settle(*find_model("mlp"), one("layers", std::int64_t{3}))->describe(), "layers=3 width=128 dropout=0");
}

TEST_F(Registry, options_that_a_model_lacks_or_that_contradict_are_refused) {
  struct Case {
    const char* model;
    Settings given;
    const char* sentence;
  };
  for (const Case& bad : std::vector<Case>{
           {"linear-regression", one("dropout", 0.5),
            "--model=linear-regression has no --dropout: it has no options of its own"},
           {"mlp", one("heads", std::int64_t{2}), "--model=mlp has no --heads: it has --layers, --width and --dropout"},
           {"char-transformer", one("heads", std::int64_t{3}), "--width=128 is not a multiple of --heads=3"},
           {"vgg-a", one("image-size", std::int64_t{100}), "--image-size=100 is not a multiple of 32"},
       }) {
    auto settings = settle(*find_model(bad.model), bad.given);
    ASSERT_FALSE(settings) << bad.sentence;
    EXPECT_EQ(settings.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(settings.error().message, bad.sentence);
  }
}

}  // namespace
}  // namespace lockstep::trainer::models
