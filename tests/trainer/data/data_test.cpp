#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include <unistd.h>

#include "trainer/data/generated.h"
#include "trainer/data/sampler.h"
#include "trainer/data/text_source.h"

namespace lockstep::trainer::data {
namespace {

namespace fs = std::filesystem;

TEST(Permutation, visits_every_sample_once_for_any_count) {
  for (std::uint64_t count : {1, 2, 3, 5, 16, 17, 1000, 4096, 4097}) {
    for (std::uint64_t key : {1, 2}) {
      Permutation permutation(count, key);
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < count; ++i) {
        EXPECT_LT(permutation.at(i), count);
        seen.insert(permutation.at(i));
      }
      EXPECT_EQ(seen.size(), count);
    }
  }
}

TEST(Permutation, keys_give_different_orders_without_a_pattern) {
  Permutation a(10000, 1), b(10000, 2);
  int same = 0, ascending = 0;
  for (std::uint64_t i = 0; i + 1 < 10000; ++i) {
    same += a.at(i) == b.at(i) ? 1 : 0;
    ascending += a.at(i) < a.at(i + 1) ? 1 : 0;
  }
  EXPECT_LT(same, 15);
  EXPECT_NEAR(ascending, 5000, 200);
}

TEST(Sampler, an_epoch_holds_every_sample_once_and_the_next_in_another_order) {
  std::vector<std::int64_t> orders[2];
  for (std::int64_t position = 0; position < 200; ++position) {
    Place place = place_of(position, 100, 7);
    EXPECT_EQ(place.epoch, position / 100);
    orders[place.epoch].push_back(place.sample);
  }
  EXPECT_EQ(std::set<std::int64_t>(orders[0].begin(), orders[0].end()).size(), 100U);
  EXPECT_EQ(std::set<std::int64_t>(orders[1].begin(), orders[1].end()).size(), 100U);
  EXPECT_NE(orders[0], orders[1]);
}

class TextFiles : public ::testing::Test {
 protected:
  TextFiles() : folder_(fs::temp_directory_path() / ("lockstep-text-" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~TextFiles() override { fs::remove_all(folder_); }
  std::string file(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name) << content;
    return (folder_ / name).string();
  }
  fs::path folder_;
};

TEST_F(TextFiles, holds_out_the_last_tenth_of_each_file) {
  file("b", "cccccccccd");  // nine c, then d
  file("a", "aaaaaaaaab");
  Text text = read_text({folder_.string()}).value();
  EXPECT_EQ(std::string(text.vocabulary.begin(), text.vocabulary.end()), "abcd");
  EXPECT_EQ(to_string(text, text.training), "aaaaaaaaaccccccccc");
  EXPECT_EQ(to_string(text, text.held_out), "bd");
  EXPECT_EQ(text.files.size(), 2U);
}

TEST_F(TextFiles, a_link_to_a_file_of_the_list_is_not_read_twice) {
  file("a", "0123456789");
  fs::create_symlink(folder_ / "a", folder_ / "z");
  EXPECT_EQ(read_text({folder_.string(), (folder_ / "a").string()})->training.size(), 9U);
}

TEST_F(TextFiles, bad_input_gets_one_sentence_that_names_it) {
  std::string empty = file("empty", "");
  std::string folder = folder_.string();
  EXPECT_EQ(read_text({"/nowhere/at/all"}).error().message,
            "cannot read data '/nowhere/at/all': No such file or directory");
  EXPECT_EQ(read_text({"/nowhere/at/all"}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_text({empty}).error().message, "the data in '" + empty + "' is empty");
  EXPECT_EQ(read_text({"/dev/null"}).error().message, "data '/dev/null' is not a regular file");
  fs::create_directory(folder_ / "sub");
  EXPECT_EQ(read_text({folder + "/sub"}).error().message, "the data folder '" + folder + "/sub' has no files in it");
  std::string brief = file("short", "just a few words");
  Text text = read_text({brief}).value();
  EXPECT_EQ(TextSource::create(text, 64, 1, 0).error().message,
            "the data in '" + brief + "' is too short: it has 16 characters, and a context of 64 needs about 715");
}

TEST_F(TextFiles, a_token_outside_the_vocabulary_is_refused_with_its_file_and_offset) {
  const std::string a = file("a", std::string(100, 'x')), b = file("b", std::string(50, 'y'));
  const Text text = read_text({a, b}).value();
  auto refusal = [&](std::vector<std::uint8_t> Text::*part, size_t at) {
    Text damaged = text;
    (damaged.*part)[at] = 2;
    auto source = TextSource::create(damaged, 4, 1, 0);
    return source.ok() ? "accepted" : source.error().message;
  };
  const std::string reason = ": the token 2 is not in the vocabulary of 2 characters";
  EXPECT_EQ(refusal(&Text::training, 0), "data '" + a + "' at offset 0" + reason);
  EXPECT_EQ(refusal(&Text::training, 89), "data '" + a + "' at offset 89" + reason);
  EXPECT_EQ(refusal(&Text::training, 90), "data '" + b + "' at offset 0" + reason);
  EXPECT_EQ(refusal(&Text::held_out, 9), "data '" + a + "' at offset 99" + reason);
  EXPECT_EQ(refusal(&Text::held_out, 14), "data '" + b + "' at offset 49" + reason);
}

// The opening for a model, with the word that a reader sees of it in brackets.
std::string opening_of(const Text& text, size_t most, std::uint64_t seed) {
  Opening opening = start_of_a_sentence(text, most, seed);
  std::string all = to_string(text, opening.tokens);
  return all.substr(0, all.size() - opening.shown) + "[" + all.substr(all.size() - opening.shown) + "]";
}

TEST_F(TextFiles, the_opening_ends_after_the_first_word_of_a_held_out_sentence) {
  std::string learnt(9 * 120, 'x');
  std::string held_out =
      "Title of it\n\n     2. In numbers. And U.S. Code. and\nthe end of it.  Such is the other one.  Bye\n";
  held_out.resize(120, '\n');
  Text text = read_text({file("a", learnt + held_out)}).value();
  for (std::uint64_t seed = 0; seed < 5; ++seed) EXPECT_EQ(opening_of(text, 22, seed), "d\nthe end of it.  [Such]");
}

TEST_F(TextFiles, another_seed_begins_another_sentence_and_the_same_seed_the_same) {
  std::string sentences;
  for (char c = 'A'; c <= 'Z'; ++c) sentences += std::string("there is an end.  ") + c + "nd there is ";
  Text text = read_text({file("a", std::string(9 * sentences.size(), 'x') + sentences)}).value();
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::string opening = opening_of(text, 21, seed);
    EXPECT_EQ(opening, opening_of(text, 21, seed));
    EXPECT_EQ(opening.substr(0, 19), "there is an end.  [");
    seen.insert(opening);
  }
  EXPECT_GT(seen.size(), 5U);
}

TEST_F(TextFiles, without_sentences_the_opening_ends_after_the_first_word_of_a_line) {
  Text lines = read_text({file("a", std::string(9 * 24, 'x') + "one two\n  three\nfour five")}).value();
  EXPECT_EQ(opening_of(lines, 10, 1), "three\n[four]");
  Text one = read_text({file("b", std::string(200, 'x'))}).value();
  EXPECT_EQ(opening_of(one, 10, 1), "xxxxxxxxxx[]");
}

TEST_F(TextFiles, a_prompt_with_a_character_that_the_text_has_not_is_refused_by_name) {
  Text text = read_text({file("a", "aaaaaaaaab")}).value();
  EXPECT_EQ(to_tokens(text, "abba").value(), (std::vector<std::uint8_t>{0, 1, 1, 0}));
  EXPECT_EQ(to_tokens(text, "abc").error().message, "the character 'c' does not occur in the data");
  EXPECT_EQ(to_tokens(text, "a\n").error().message, "the character of code 10 does not occur in the data");
}

TEST_F(TextFiles, the_windows_of_an_epoch_tile_the_text_without_overlap) {
  std::string content;
  for (int i = 0; i < 1000; ++i) content.push_back(static_cast<char>('!' + i % 90));
  Text text = read_text({file("a", content)}).value();
  TextSource source = TextSource::create(text, 10, 5, 0).value();
  EXPECT_EQ(source.windows(), 89);
  EXPECT_EQ(source.held_out(), 9);
  std::vector<std::int32_t> characters(10), targets(10);
  void* inputs[] = {characters.data(), targets.data()};
  std::set<std::string> seen;
  for (std::int64_t position = 0; position < source.windows(); ++position) {
    source.write(position, 0, inputs);
    for (size_t i = 0; i + 1 < 10; ++i) EXPECT_EQ(targets[i], characters[i + 1]);
    seen.insert(std::string(characters.begin(), characters.end()) + std::to_string(position / 89));
  }
  EXPECT_GE(seen.size(), 9U);
}

TEST(Generated, the_line_has_its_slope_and_noise) {
  LineSource source(core::ElementType::kFloat64, 4);
  double x = 0, y = 0, xx = 0, xy = 0, residual = 0;
  void* inputs[] = {&x, &y};
  for (std::int64_t i = 0; i < 5000; ++i) {
    source.write(i, 0, inputs);
    xx += x * x;
    xy += x * y;
    residual += (y - 3 * x) * (y - 3 * x);
  }
  EXPECT_NEAR(xy / xx, 3, 0.01);
  EXPECT_NEAR(std::sqrt(residual / 5000), 0.1, 0.005);
}

TEST(Generated, samples_are_the_same_for_every_rank_and_held_out_ones_are_others) {
  BlobSource a(core::ElementType::kFloat32, 4), b(core::ElementType::kFloat32, 4);
  std::vector<float> from_a(32), from_b(32);
  std::int32_t class_a = 0, class_b = 0;
  void* into_a[] = {from_a.data(), &class_a};
  void* into_b[] = {from_b.data(), &class_b};
  a.write(12345, 0, into_a);
  b.write(12345, 0, into_b);
  EXPECT_EQ(from_a, from_b);
  EXPECT_EQ(class_a, class_b);
  a.write_held_out(0, 0, into_a);
  EXPECT_NE(from_a, from_b);
}

}  // namespace
}  // namespace lockstep::trainer::data
