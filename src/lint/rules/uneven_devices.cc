#include <algorithm>
#include <string>
#include <vector>

#include "comm/memory.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kUnevenDevices;

namespace {

// Specs cut evenly; only placement puts more on one coordinate than on
// another.
void Check(const Facts& facts, FindingSink& sink) {
  HeldBytes held;
  for (const PlannedParam& param : facts.plan().params) {
    if (!param.coordinate) continue;
    const ParamLayout& layout = facts.plan().layouts[param.layout];
    held.AddAt(facts.PlacementAxis(layout), *param.coordinate,
               layout.modes.front().bytes_per_device.value_or(0));
  }
  for (const auto& [axis, placed] : held.placed()) {
    std::vector<int64_t> bytes(static_cast<size_t>(facts.mesh().SizeOf(axis)));
    for (const auto& [coordinate, held_there] : placed) {
      bytes[static_cast<size_t>(coordinate)] = held_there;
    }
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    if (*most - *least <= *most / 20) continue;
    LintFinding finding = FindingAt(kUnevenDevices.code, facts.MeshPlace());
    finding.message = "placed parameters weigh " + BytesText(*most) +
                      " per device at coordinate " +
                      std::to_string(most - bytes.begin()) + " of axis " +
                      Quoted(axis) + " and " + BytesText(*least) +
                      " at coordinate " + std::to_string(least - bytes.begin());
    finding.help =
        "take a size of the axis that divides the number of"
        " experts, or check `count` in `place`";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kUnevenDevices{
    .code = {210, "uneven-devices", Level::kWarning,
             "placed parameters load devices unevenly"},
    .needs = kNeedsShapes,
    .what =
        "Finds axes along which `place` puts at least a twentieth more "
        "bytes on one coordinate than on another.",
    .why =
        "The fullest device sets the memory that is needed and the time "
        "that a step takes.",
    .instead = "Take an axis size that divides the number of experts.",
    .bad = {.mesh = "ep:2",
            .rules = R"(version: 1
rules:
  - match: 'experts\.(\d+)\.up\.weight'
    spec: Replicated
    place: {axis: ep, index: 'experts\.(\d+)\.', count: 3}
separator: "."
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "experts.0.up.weight": {"shape": [1024, 256], "dtype": "BF16"},
  "experts.1.up.weight": {"shape": [1024, 256], "dtype": "BF16"},
  "experts.2.up.weight": {"shape": [1024, 256], "dtype": "BF16"}}}
)"},
    .good = {.mesh = "ep:3"},
    .check = Check};

}  // namespace shardc
