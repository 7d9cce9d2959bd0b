// What the trainer knows about a model before it builds its graph: a name, options, data, recipe and results. Each
// model describes itself in one file, and registry.h lists them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "operator/base/result.h"
#include "trainer/core/graph.h"
#include "trainer/core/source.h"
#include "trainer/core/state.h"
#include "trainer/data/damage.h"
#include "trainer/data/image_cache.h"
#include "trainer/data/text.h"

namespace lockstep::trainer::models {

using Number = std::variant<std::int64_t, double>;
std::string to_text(const Number& number);

// An option of a model: a flag of the command line. Models that share the name of an option share its meaning.
struct Option {
  std::string name;  // of the flag, without dashes
  std::string help;
  Number value;        // the default; its type is that of the option
  Number least, most;  // bounds, inclusive, of the same type
};

constexpr std::int64_t kLargestOption = std::int64_t{1} << 40;

// Options that several models have.
Option layers(std::int64_t value);
Option width(std::int64_t value);
Option dropout(double value);

// Values of options, in the order of Model::options.
class Settings {
 public:
  void set(const std::string& name, Number value);
  // null: there is none of that name.
  const Number* find(std::string_view name) const;
  // The option must be there and have that type.
  std::int64_t whole(std::string_view name) const { return std::get<std::int64_t>(*find(name)); }
  double real(std::string_view name) const { return std::get<double>(*find(name)); }
  const std::vector<std::pair<std::string, Number>>& all() const { return values_; }
  // "layers=4 dropout=0"
  std::string describe() const;

 private:
  std::vector<std::pair<std::string, Number>> values_;
};

// Where a model's samples come from.
struct DataOptions {
  std::vector<std::string> paths;  // of --data; or is_synthetic()
  core::ElementType real = core::ElementType::kFloat32;
  std::uint64_t seed = 0;
  std::int64_t held_out = 0;      // samples to evaluate at most; 0: all
  bool skip_damage = false;       // of records; false: damage is an error
  int threads = 1;                // that read and decode records
  std::size_t prefetch = 0;       // micro-batches of records that are read ahead; 0: as many as reads need
  data::ImageCacheOptions cache;  // of images; its memory is for those to train on
};

// Whether --data asks for samples of noise in place of files: its only word is "synthetic".
bool is_synthetic(const std::vector<std::string>& paths);

struct Dataset {
  std::unique_ptr<core::SampleSource> source;
  std::int64_t epoch_samples = 0;
  std::uint64_t fingerprint = 0;     // of the data that a checkpoint continues with; 0: the model makes it
  std::string description;           // for people; empty: the model makes its data
  std::unique_ptr<data::Text> text;  // null: the samples are not text
  std::int64_t context = 0;          // characters of a sample of text
  // The damage that was skipped, without the first `from` entries (data/image_source.h). Null: none is skipped.
  std::function<std::vector<data::Damage>(std::size_t from)> skipped;
  // Where the images to train on came from so far. Null: none are kept.
  std::function<data::CacheReads()> reads;
};

// Windows of `context` characters of text files. Errors are those of reading them.
Result<Dataset> open_text(const DataOptions& options, std::int64_t context);

// Defaults of training with one optimizer.
struct Recipe {
  std::string optimizer;
  double learning_rate = 0;
  double weight_decay = 0;
  std::int64_t batch_size = 0;  // the learning rate is of this global batch, and proportional to it; 0: of any
};

// The recipe's learning rate for a global batch.
double learning_rate(const Recipe& recipe, std::int64_t batch_size);

// A line of the result of a run.
struct Metric {
  std::string name;
  Number value;
};

struct Model {
  enum class Data : std::uint8_t { kGenerated, kText, kImages };

  std::string name;  // of --model
  std::string help;  // what it learns; one line
  Data data = Data::kGenerated;
  std::vector<Option> options;
  std::vector<Recipe> recipes;         // the first is the default; at least one
  double clip_norm = 0;                // 0: no clipping
  double warmup_share = 0.05;          // of all steps
  std::int64_t least_micro_batch = 1;  // 2: it normalises over the micro-batch
  bool writes_text = false;            // its output are scores of the next character (generate.h)

  // Refuses options that contradict each other (kInvalid). Null: none do.
  std::function<Status(const Settings&)> check;
  std::function<Result<Dataset>(const Settings&, const DataOptions&)> open;
  // The graph of a micro-batch of `batch` samples of the dataset.
  std::function<core::Graph(const Settings&, const Dataset&, std::int64_t batch)> graph;
  // The name that torchvision gives a layer of this model, for checkpoints. Null: the layer's own.
  std::function<std::string(const std::string& layer)> torch_layer = {};
  // What the result of a run says besides losses, from the tensors of its state. Null: nothing.
  std::function<std::vector<Metric>(const Dataset&, const std::vector<core::StateTensor>&)> results;
};

// All options of the model: `given` and the defaults of the others. kInvalid: the model lacks a given option, or its
// check refuses them.
Result<Settings> settle(const Model& model, const Settings& given);

// The recipe with `optimizer`; empty name: the default. Null: the model has none with that optimizer.
const Recipe* recipe_of(const Model& model, std::string_view optimizer);

}  // namespace lockstep::trainer::models
