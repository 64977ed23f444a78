// Runs every target on its kept inputs, and on inputs derived from them:
// truncated, or with bytes changed, doubled or removed. So builds without clang
// also fuzz a little.
//
//   fuzz_replay FOLDER [RUNS [TARGET...]]
//
// makes about RUNS runs of each target. FOLDER has a folder of inputs for each
// target, as seeds.py writes them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "fuzz/checks.h"
#include "fuzz/targets.h"

namespace shardc::fuzz {
namespace {

std::string Get(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

std::string Changed(std::string bytes, std::mt19937_64& random) {
  for (int i = 0; i < 4 && !bytes.empty(); ++i) {
    const size_t at = random() % bytes.size();
    const size_t count = std::min<size_t>(1 + random() % 16, bytes.size() - at);
    switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
        break;
      case 2:
        bytes.erase(at, count);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, count));
        break;
      default:
        if (i == 0) bytes.resize(at);
    }
  }
  return bytes;
}

int Main(int argc, char** argv) {
  namespace fs = std::filesystem;
  if (argc < 2) return 2;
  const size_t wanted = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000;
  const std::vector<std::string_view> only(argv + std::min(argc, 3),
                                           argv + argc);
  ArmChecks();
  int64_t all = 0;
  for (const auto targets :
       {TextTargets(), JsonTargets(), BinaryTargets(), GeneratedTargets(),
        EditorTargets(), CommandTargets(), StoredTargets()}) {
    for (const NamedTarget& target : targets) {
      if (!only.empty() &&
          std::find(only.begin(), only.end(), target.name) == only.end()) {
        continue;
      }
      const fs::path folder = fs::path(argv[1]) / target.name;
      std::vector<fs::path> inputs;
      if (fs::is_directory(folder)) {
        inputs.assign(fs::directory_iterator(folder), {});
      }
      std::sort(inputs.begin(), inputs.end());
      if (inputs.empty()) {
        std::printf("%s has no inputs\n", folder.c_str());
        return 1;
      }
      std::mt19937_64 random(wanted);
      const size_t rounds = wanted / inputs.size();
      int64_t runs = 0;
      for (const fs::path& input : inputs) {
        const std::string bytes = Get(input);
        // Prints the input first, so that an abort shows which input caused it.
        std::fprintf(stderr, "%s\n", input.c_str());
        target.run(bytes);
        ++runs;
        for (size_t i = 0; i < rounds; ++i, ++runs) {
          target.run(Changed(bytes, random));
        }
      }
      std::printf("%.*s: %lld runs\n", static_cast<int>(target.name.size()),
                  target.name.data(), static_cast<long long>(runs));
      std::fflush(stdout);
      all += runs;
    }
  }
  std::printf("%lld runs\n", static_cast<long long>(all));
  return 0;
}

}  // namespace
}  // namespace shardc::fuzz

int main(int argc, char** argv) { return shardc::fuzz::Main(argc, argv); }
