// Writes the pipeline stages that hold a parameter, one per line. A parameter
// of one layer is in one stage. A tied embedding is in both the first and the
// last stage. A tensor that stacks several layers is in each stage that has
// some of these layers. For example, a tensor of 16 layers is in two stages:
//
//   stage 0 of 4 over `pp`, on rank 0: layers 0-7
//   stage 1 of 4 over `pp`, on rank 1: layers 8-15
#include "emit/plans/stage_text.h"

#include <array>

#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {

std::string StageLines(const PlannedStages& stages, size_t param) {
  std::string out;
  const LayerStackRange* stack = stages.units.StackOf(param);
  for (const StageShare& share : stages.SharesOf(param)) {
    out += "stage " + std::to_string(share.stage) + " of " +
           std::to_string(stages.stages()) + " over `" + stages.axis +
           "`, on " + RanksText(stages.RanksOf(share.stage));
    if (stack != nullptr) {
      out += ": " +
             LayersText({stack->first + share.begin, stack->first + share.end});
    }
    out += "\n";
  }
  return out;
}

void WriteParamStages(JsonWriter& json, const PlannedStages& stages,
                      size_t param) {
  const LayerStackRange* stack = stages.units.StackOf(param);
  json.Key("stages");
  json.BeginObject();
  json.Member("axis", stages.axis);
  json.Key("of");
  json.BeginArray();
  for (const StageShare& share : stages.SharesOf(param)) {
    json.BeginObject();
    json.Member("stage", share.stage);
    json.Key("ranks");
    json.Array(stages.RanksOf(share.stage));
    if (stack != nullptr) {
      json.Key("layers");
      json.Array(
          std::array{stack->first + share.begin, stack->first + share.end});
    }
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace shardc
