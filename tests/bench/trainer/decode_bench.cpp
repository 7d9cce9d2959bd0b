// How fast JpegDecoder decodes one image over and over, in million pixels per second: ours in bench_decode.py.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "trainer/data/jpeg.h"

int main(int argc, char** argv) {
  using namespace lockstep::trainer::data;
  using Clock = std::chrono::steady_clock;
  CLI::App app("Decodes a JPEG over and over, and prints million pixels per second.", "decode_bench");
  std::string path;
  double seconds = 1, warmup = 0.2;
  app.add_option("file", path, "The JPEG")->required()->check(CLI::ExistingFile);
  app.add_option("--seconds", seconds, "For how long it is timed")->check(CLI::Range(0.001, 3600.0));
  app.add_option("--warmup-seconds", warmup, "For how long before that")->check(CLI::Range(0.0, 3600.0));
  CLI11_PARSE(app, argc, argv);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  JpegDecoder decoder;
  Image image;
  double speed = 0;
  for (const double time : {warmup, seconds}) {
    std::int64_t pixels = 0;
    const Clock::time_point begin = Clock::now();
    double passed = 0;
    do {
      if (auto done = decoder.decode(std::as_bytes(std::span(bytes)), kLargestPhotograph, image); !done) {
        fmt::print(stderr, "decode_bench: {}: {}\n", path, done.error().message);
        return 1;
      }
      pixels += image.height * image.width;
      passed = std::chrono::duration<double>(Clock::now() - begin).count();
    } while (passed < time);
    speed = static_cast<double>(pixels) / passed * 1e-6;
  }
  fmt::print("{:.2f}\n", speed);
  return 0;
}
