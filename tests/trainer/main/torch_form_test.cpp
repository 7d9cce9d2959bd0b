// Checkpoints as PyTorch reads them: torchvision's names, O, I, H, W, and shards with an index.
#include "trainer/torch_form.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "tests/sanitizer.h"
#include "trainer/backend/make_backend.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/writer.h"
#include "trainer/core/program.h"
#include "trainer/core/random.h"
#include "trainer/models/mobilenet_v2.h"
#include "trainer/models/resnet.h"
#include "trainer/models/vgg_a.h"
#include "trainer/state_views.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr std::int64_t kClasses = 10;
constexpr std::uint64_t kSmallShard = 30'000'000;

struct Network {
  const char* name;
  std::int64_t pixels;
  std::function<core::Graph(std::int64_t pixels)> graph;
  std::function<std::string(const std::string&)> layer = {};
};

std::vector<Network> networks() {
  using models::ResNetOptions;
  return {
      {"resnet18-cifar", 32,
       [](std::int64_t pixels) {
         return models::resnet18(
             {.batch = 1, .pixels = pixels, .classes = kClasses, .stem = ResNetOptions::Stem::kCifar});
       }},
      {"resnet50", 64,
       [](std::int64_t pixels) { return models::resnet50({.batch = 1, .pixels = pixels, .classes = kClasses}); }},
      {"mobilenet-v2", 64,
       [](std::int64_t pixels) { return models::mobilenet_v2({.batch = 1, .pixels = pixels, .classes = kClasses}); },
       models::mobilenet_v2_torch_layer},
      {"vgg-a", 64,
       [](std::int64_t pixels) { return models::vgg_a({.batch = 1, .pixels = pixels, .classes = kClasses}); }},
  };
}

// A network on `ref` whose state is random, also where training begins with zeros and ones.
class Trained {
 public:
  explicit Trained(const Network& of)
      : backend_(backend::make_backend("ref", 1).value()),
        graph(of.graph(of.pixels)),
        forms(torch_forms(graph, of.layer)),
        layout_(core::lay_out(graph)),
        state(core::State::create(graph, *backend_, layout_, {}).value()) {
    EXPECT_TRUE(state->initialize(5).ok());
    for (const core::StateTensor& tensor : state->tensors()) {
      if (tensor.type != core::ElementType::kFloat64 || tensor.shape.size() != 1) continue;
      const std::uint64_t key = core::derive(7, tensor.name);
      for (size_t i = 0; i < tensor.bytes / sizeof(double); ++i) {
        reinterpret_cast<double*>(tensor.data)[i] += core::uniform(key, i) / 4;
      }
    }
    EXPECT_TRUE(state->written().ok());
  }

  // The scores of one random image.
  void predict() {
    auto statistics = backend_->allocate(state->statistics.size() * sizeof(double)).value();
    backend_->write(statistics->data(), state->statistics.data(), statistics->bytes());
    const core::ProgramMemory memory{.layout = &layout_,
                                     .parameters = state->parameters->data(),
                                     .statistics = reinterpret_cast<double*>(statistics->data())};
    auto program = core::Program::compile(graph, *backend_, memory).value();
    const core::TensorId input = graph.with_role(core::Role::kInput)[0];
    image.resize(static_cast<size_t>(core::count_of(graph.tensor(input).shape)));
    for (size_t i = 0; i < image.size(); ++i) image[i] = core::normal(11, i);
    backend_->write(static_cast<std::byte*>(program->data(input)), image.data(), image.size() * sizeof(double));
    const std::atomic<bool> never{false};
    ASSERT_TRUE(program->forward({.mode = core::RunContext::Mode::kEvaluate}, never).ok());
    scores.resize(kClasses);
    backend_->read(scores.data(), static_cast<const std::byte*>(program->data(graph.output("scores"))),
                   scores.size() * sizeof(double));
  }

 private:
  std::unique_ptr<core::Backend> backend_;

 public:
  const core::Graph graph;
  const StoredForms forms;
  std::vector<double> image;  // (1, pixels, pixels, 3)
  std::vector<double> scores;

 private:
  const core::Layout layout_;

 public:
  std::unique_ptr<core::State> state;
};

class TorchForm : public ::testing::Test {
 protected:
  TorchForm() {
    std::string name = "/tmp/lockstep-torch-XXXXXX";
    dir_ = ::mkdtemp(name.data());
  }
  ~TorchForm() override { fs::remove_all(dir_); }

  // Writes a checkpoint; its folder.
  std::string save(core::State& state, const StoredForms& forms, std::uint64_t shard_bytes) {
    auto writer =
        checkpoint::Writer::create({.directory = dir_, .identity = identity_, .shard_bytes = shard_bytes}).value();
    EXPECT_TRUE(writer
                    ->write({.step = ++step_, .state = state_tensors(state, forms).value()}, checkpoint::Busy::kWait,
                            seconds(20))
                    .value());
    writer->confirm(step_ + 1);
    const auto published = writer->flush(seconds(100));
    EXPECT_TRUE(published.ok()) << published.error().message;
    return dir_ + "/" + checkpoint::folder_name(step_, 0);
  }
  Status load(core::State& state, const StoredForms& forms) {
    const auto name = checkpoint::folder_name(step_, 0);
    auto manifest = checkpoint::load(dir_, name, identity_, state_buffers(state, forms));
    return manifest ? Status() : Status(manifest.error());
  }

  std::string dir_;
  std::int64_t step_ = 0;
  checkpoint::Identity identity_{.model = "network", .model_hash = "", .seed = 0, .numerics_id = ""};
};

// Every state_dict() of pytorch/networks.py, made with compare.py.
std::map<std::string, std::string> expected_shapes(const std::string& network) {
  std::ifstream file(std::string(LOCKSTEP_PYTORCH) + "/" + network + ".txt");
  std::map<std::string, std::string> shapes;
  for (std::string line; std::getline(file, line);) {
    const size_t blank = line.find(' ');
    shapes[line.substr(0, blank)] = line.substr(blank + 1);
  }
  return shapes;
}

TEST_F(TorchForm, names_and_shapes_are_those_of_torchvision) {
  for (const Network& network : networks()) {
    const core::Graph graph = network.graph(network.pixels);
    const StoredForms forms = torch_forms(graph, network.layer);
    std::map<std::string, std::string> shapes;
    for (const core::Role role : {core::Role::kParameter, core::Role::kStatistic}) {
      for (const core::TensorId id : graph.with_role(role)) {
        const core::Tensor& tensor = graph.tensor(id);
        const auto form = forms.at(tensor.name);
        const auto& shape = form.reorders() ? form.shape : tensor.shape;
        std::string& text = shapes[form.name.empty() ? tensor.name : form.name];
        for (const std::int64_t size : shape) text += (text.empty() ? "" : " ") + std::to_string(size);
      }
    }
    EXPECT_FALSE(shapes.empty());
    EXPECT_EQ(shapes, expected_shapes(network.name)) << network.name;
  }
}

// The numbers of a tensor in a file.
std::vector<double> numbers_of(const std::string& folder, const std::string& file, const std::string& name) {
  const auto entries = checkpoint::read_safetensors_entries(folder, file).value();
  for (const checkpoint::TensorEntry& entry : entries) {
    if (entry.name != name) continue;
    std::vector<double> numbers((entry.end - entry.begin) / sizeof(double));
    std::ifstream stream(folder + "/" + file, std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(entry.begin));
    stream.read(reinterpret_cast<char*>(numbers.data()), static_cast<std::streamsize>(numbers.size() * sizeof(double)));
    return numbers;
  }
  ADD_FAILURE() << "there is no " << name;
  return {};
}

const double* values_of(const std::vector<core::StateTensor>& tensors, const std::string& name) {
  for (const core::StateTensor& tensor : tensors) {
    if (tensor.name == name) return reinterpret_cast<const double*>(tensor.data);
  }
  ADD_FAILURE() << "there is no " << name;
  return nullptr;
}

TEST_F(TorchForm, weights_that_see_pixels_are_stored_with_channels_first) {
  Trained vgg(networks().back());
  const std::string folder = save(*vgg.state, vgg.forms, checkpoint::kShardBytes);
  const auto tensors = vgg.state->tensors();
  const auto conv = numbers_of(folder, "model.safetensors", "features.3.weight");  // 128 x 64 x 3 x 3
  const double* memory = values_of(tensors, "features.3.weight");
  ASSERT_EQ(conv.size(), 128U * 64 * 3 * 3);
  for (size_t o = 0, at = 0; o < 128; ++o) {
    for (size_t i = 0; i < 64; ++i) {
      for (size_t pixel = 0; pixel < 9; ++pixel) ASSERT_EQ(conv[at++], memory[(o * 9 + pixel) * 64 + i]);
    }
  }
  const auto linear = numbers_of(folder, "model.safetensors", "classifier.0.weight");  // 4096 x (512 x 2 x 2)
  memory = values_of(tensors, "classifier.0.weight");
  ASSERT_EQ(linear.size(), 4096U * 512 * 4);
  for (size_t o = 0, at = 0; o < 4096; ++o) {
    for (size_t c = 0; c < 512; ++c) {
      for (size_t pixel = 0; pixel < 4; ++pixel) ASSERT_EQ(linear[at++], memory[(o * 4 + pixel) * 512 + c]);
    }
  }
}

TEST_F(TorchForm, a_state_comes_back_bitwise_identical_from_one_file_and_from_shards) {
  const Network network = networks().front();
  Trained saved(network);
  for (const std::uint64_t shard_bytes : {checkpoint::kShardBytes, kSmallShard}) {
    const std::string folder = save(*saved.state, saved.forms, shard_bytes);
    EXPECT_EQ(fs::exists(folder + "/model.safetensors"), shard_bytes == checkpoint::kShardBytes);
    const auto shards = std::count_if(fs::directory_iterator(folder), {}, [](const fs::directory_entry& entry) {
      return entry.path().filename().string().starts_with("model-0000");
    });
    EXPECT_EQ(shards > 2, shard_bytes == kSmallShard);
    EXPECT_EQ(fs::exists(folder + "/model.safetensors.index.json"), shard_bytes == kSmallShard);
    Trained other(network);
    const core::Version wanted = saved.state->version();
    ASSERT_TRUE(other.state->initialize(99).ok());
    EXPECT_NE(other.state->version(), wanted);
    const Status loaded = load(*other.state, other.forms);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    ASSERT_TRUE(other.state->written().ok());
    EXPECT_EQ(other.state->version(), wanted);
  }
}

TEST_F(TorchForm, a_checkpoint_of_the_first_format_is_read_in_the_order_of_memory) {
  const Network network = networks().front();
  Trained saved(network);
  const std::string path = save(*saved.state, {}, checkpoint::kShardBytes) + "/manifest.json";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  auto manifest = checkpoint::decode_manifest(text.str()).value();
  Trained other(network);
  const Status refused = load(*other.state, other.forms);
  ASSERT_FALSE(refused.ok()) << "of the second format it would be of another model";
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  manifest.format_version = checkpoint::kFormatOfMemory;
  std::ofstream(path) << checkpoint::encode(manifest).value();
  ASSERT_TRUE(other.state->initialize(99).ok());
  const Status loaded = load(*other.state, other.forms);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  ASSERT_TRUE(other.state->written().ok());
  EXPECT_EQ(other.state->version(), saved.state->version());
}

// tests/e2e/torch.sh says where PyTorch is; it makes none here.
TEST_F(TorchForm, pytorch_computes_the_same_scores_from_a_checkpoint) {
  if (sanitizer::kOn) GTEST_SKIP() << "one thread computes it, and other tests show a sanitizer these files";
  std::FILE* found = ::popen(LOCKSTEP_TORCH " --present", "r");
  char python[4096] = "";
  const bool there = std::fgets(python, sizeof python, found) != nullptr;
  if (::pclose(found) != 0 || !there) GTEST_SKIP() << "PyTorch is not installed: run tests/e2e/torch.sh";
  python[std::strcspn(python, "\n")] = 0;
  for (const Network& network : networks()) {
    Trained trained(network);
    trained.predict();
    const std::string folder = save(*trained.state, trained.forms, kSmallShard);
    const std::vector<checkpoint::NamedTensor> sample = {
        {"image",
         checkpoint::DataType::kFloat64,
         {1, network.pixels, network.pixels, 3},
         std::as_bytes(std::span(trained.image))},
        {"scores", checkpoint::DataType::kFloat64, {1, kClasses}, std::as_bytes(std::span(trained.scores))}};
    ASSERT_TRUE(checkpoint::write_safetensors(folder, "sample.safetensors", sample).ok());
    const std::string command = std::string(python) + " -B -W ignore " LOCKSTEP_PYTORCH "/compare.py " + folder + " " +
                                network.name + " " + std::to_string(network.pixels);
    const int status = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << network.name;
    fs::remove_all(folder);
  }
}

}  // namespace
}  // namespace lockstep::trainer
