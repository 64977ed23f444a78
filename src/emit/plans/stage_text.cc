// A parameter of one layer is in one stage; a tied embedding is in the first
// and the last one; a tensor that holds all layers is in each stage that has
// any of them:
//
//   stage 0 of 4 over `pp`, on rank 0: layers 0-7
//   stage 1 of 4 over `pp`, on rank 1: layers 8-15
#include "emit/plans/stage_text.h"

#include <algorithm>
#include <vector>

#include "source/index.h"
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
    json.BeginArray();
    for (const int32_t rank : stages.RanksOf(share.stage)) json.Integer(rank);
    json.EndArray();
    if (stack != nullptr) {
      json.Key("layers");
      json.BeginArray();
      json.Integer(stack->first + share.begin);
      json.Integer(stack->first + share.end);
      json.EndArray();
    }
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

bool RankHolds(const PlannedStages& stages, size_t param, const Mesh& mesh,
               const DevicePlace& device) {
  const auto axis = mesh.Find(stages.axis);
  if (!axis) return true;
  const int64_t own = device.coordinates[*axis];
  for (const StageShare& share : stages.SharesOf(param)) {
    const auto ranks = stages.RanksOf(share.stage);
    if (std::find(ranks.begin(), ranks.end(), own) != ranks.end()) return true;
  }
  return false;
}

}  // namespace shardc
