// shardc's side of the benchmark `match`: matches names against rules, nothing
// else.
//
// match_worker ENGINE PATTERNS NAMES STEP: both files have one entry a line.
// Prints the median of the processor seconds of the calls that fit in 60 ms,
// each of which matches all names, and the first rule of each STEP-th name. The
// states of the automaton are made during the call, so their time counts.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "match/match.h"

namespace {

double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

std::vector<std::string> Lines(const char* path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const auto engine = argv[1] == std::string_view("re2")
                          ? shardc::Engine::kRe2
                          : shardc::Engine::kAutomaton;
  const std::vector<std::string> texts = Lines(argv[2]);
  const std::vector<std::string> lines = Lines(argv[3]);
  const size_t step = std::stoul(argv[4]);
  std::vector<shardc::Pattern> patterns;
  for (const std::string& text : texts) patterns.push_back({text, {}, '/'});
  const std::vector<std::string_view> names(lines.begin(), lines.end());

  std::vector<double> calls;
  shardc::Matches matches;
  const double start = ProcessorSeconds();
  while (calls.empty() || ProcessorSeconds() - start < 0.06) {
    // RE2 keeps the states of earlier calls, so each call gets a new matcher.
    shardc::Findings findings;
    const auto matcher = shardc::Matcher::Compile(patterns, findings);
    if (!matcher) return 2;
    const double before = ProcessorSeconds();
    matches = matcher->Match(names, '/', {.engine = engine});
    calls.push_back(ProcessorSeconds() - before);
  }
  std::sort(calls.begin(), calls.end());
  std::printf("{\"seconds\": %.9f, \"first\": [", calls[calls.size() / 2]);
  for (size_t i = 0; i < names.size(); i += step) {
    std::printf("%s%d", i == 0 ? "" : ", ", matches.first[i]);
  }
  std::printf("]}\n");
  return 0;
}
