// Fuzz targets whose cases are generated from the bytes: plans that are
// compared with the reference, names that are matched in every way, checkpoints
// that are split and merged. The bytes decide what is drawn, so coverage can
// guide the fuzzer.
#include <doctest/doctest.h>

#include <array>
#include <string>

#include "checkpoint/round_trip.h"
#include "draws.h"
#include "fuzz/targets.h"
#include "match/differential.h"
#include "plan/compat_case.h"

namespace shardc::fuzz {
namespace {

// Reads the bytes as lines: patterns, an empty line, names.
void Matching(std::string_view bytes) {
  MatchCase one;
  bool names = false;
  while (!bytes.empty() && one.names.size() < 64 && one.patterns.size() < 16) {
    const std::string_view line = bytes.substr(0, bytes.find('\n'));
    bytes.remove_prefix(std::min(bytes.size(), line.size() + 1));
    if (line.empty() && !names) {
      names = true;
      continue;
    }
    (names ? one.names : one.patterns).emplace_back(line.substr(0, 200));
  }
  const Compared compared = CompareMatching(one, true);
  Require(compared.difference.empty(), compared.difference);
}

void PlanEformer(std::string_view bytes) {
  Reached reached;
  CompareCompat(Draws(bytes), Compat::kEformer, reached);
}

void PlanFjformer(std::string_view bytes) {
  Reached reached;
  CompareCompat(Draws(bytes), Compat::kFjformer, reached);
}

void RoundTrip(std::string_view bytes) { CheckRoundTrip(Draws(bytes)); }

}  // namespace

std::span<const NamedTarget> GeneratedTargets() {
  static constexpr std::array<NamedTarget, 4> kTargets = {{
      {"matching", Matching},
      {"plan_eformer", PlanEformer},
      {"plan_fjformer", PlanFjformer},
      {"round_trip", RoundTrip},
  }};
  return kTargets;
}

}  // namespace shardc::fuzz
