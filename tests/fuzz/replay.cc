// Runs every target on its kept inputs, and on inputs derived from them:
// truncated, or with bytes or numbers changed, doubled or removed. So builds
// without clang also fuzz a little.
//
//   fuzz_replay FOLDER [RUNS [TARGET...]]
//
// makes about RUNS runs of each target. FOLDER has a folder of inputs for each
// target, as seeds.py writes them. For each target it prints the longest run
// and the largest memory of the process. If a run ends by a signal, its input
// is in the file that SHARDC_FIND names.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
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

// Numbers at the limits of types and of what readers accept.
constexpr std::string_view kNumbers[] = {"0",
                                         "-1",
                                         "3",
                                         "1048576",
                                         "33554432",
                                         "67108864",
                                         "2147483648",
                                         "4294967296",
                                         "9007199254740993",
                                         "1e308",
                                         "1099511627776",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "18446744073709551616"};

// Replaces the decimal number at or after a position by another one.
void ChangeNumber(std::string& bytes, size_t at, std::mt19937_64& random) {
  const size_t begin = bytes.find_first_of("0123456789", at);
  if (begin == bytes.npos) return;
  const size_t end = bytes.find_first_not_of("0123456789", begin);
  bytes.replace(begin, std::min(end, bytes.size()) - begin,
                kNumbers[random() % std::size(kNumbers)]);
}

std::string Changed(std::string bytes, std::mt19937_64& random) {
  for (int i = 0; i < 4 && !bytes.empty(); ++i) {
    const size_t at = random() % bytes.size();
    const size_t count = std::min<size_t>(1 + random() % 16, bytes.size() - at);
    switch (random() % 6) {
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
      case 4:
        ChangeNumber(bytes, at, random);
        break;
      default:
        if (i == 0) bytes.resize(at);
    }
  }
  return bytes;
}

std::string current;  // the input of the run

// Writes the input to the file that was opened for it.
int find = -1;
void OnSignal(int signal) {
  if (find >= 0 && ::write(find, current.data(), current.size()) < 0) {
    ::_exit(3);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void KeepFinds() {
  const char* const name = std::getenv("SHARDC_FIND");
  if (name == nullptr) return;
  find = ::open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  static char stack[1 << 16];
  stack_t other = {};
  other.ss_sp = stack;
  other.ss_size = sizeof(stack);
  ::sigaltstack(&other, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction action = {};
    action.sa_handler = OnSignal;
    action.sa_flags = SA_ONSTACK;
    ::sigaction(signal, &action, nullptr);
  }
}

// Returns the largest resident memory of this process since Forget().
int64_t PeakKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::atoll(line.c_str() + 6);
  }
  return 0;
}
void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << '5'; }

int Main(int argc, char** argv) {
  namespace fs = std::filesystem;
  if (argc < 2) return 2;
  const size_t wanted = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000;
  const std::vector<std::string_view> only(argv + std::min(argc, 3),
                                           argv + argc);
  ArmChecks();
  KeepFinds();
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
      double longest = 0;
      ForgetPeak();
      const auto run = [&](std::string bytes) {
        current = std::move(bytes);
        const auto start = std::chrono::steady_clock::now();
        target.run(current);
        const std::chrono::duration<double> taken =
            std::chrono::steady_clock::now() - start;
        longest = std::max(longest, taken.count());
        ++runs;
      };
      for (const fs::path& input : inputs) {
        const std::string bytes = Get(input);
        // Prints the input first, so that an abort shows which input caused it.
        std::fprintf(stderr, "%s\n", input.c_str());
        run(bytes);
        for (size_t i = 0; i < rounds; ++i) run(Changed(bytes, random));
      }
      std::printf("%.*s: %lld runs, the longest %.3f s, at most %lld MiB\n",
                  static_cast<int>(target.name.size()), target.name.data(),
                  static_cast<long long>(runs), longest,
                  static_cast<long long>(PeakKilobytes() / 1024));
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
