#include <algorithm>
#include <string>
#include <vector>

#include "comm/memory.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

// Reports devices that hold different numbers of bytes. Specs shard evenly, so
// within a pipeline stage only placement can assign more bytes to one
// coordinate than to another. Stages are not compared with each other.
void CheckUnevenDevices(const Facts& facts, FindingSink& sink) {
  HeldBytes held;
  for (const PlannedParam& param : facts.plan().params) {
    const auto coordinate = facts.plan().CoordinateOf(param);
    if (!coordinate) continue;
    const ParamLayout& layout = facts.plan().layouts[param.layout];
    held.AddAt(facts.PlacementAxis(layout), *coordinate,
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
    finding.message = "placed parameters take " + BytesText(*most) +
                      " per device at coordinate " +
                      std::to_string(most - bytes.begin()) + " of axis " +
                      Quoted(axis) + " and " + BytesText(*least) +
                      " at coordinate " + std::to_string(least - bytes.begin());
    finding.help =
        "use an axis size that divides the number of experts, or check `count` "
        "in `place`";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
