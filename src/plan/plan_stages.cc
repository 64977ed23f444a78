// Computes the bytes that each rank holds, and writes stages as JSON. A
// parameter that two stages of the same rank share is counted once. Of a tensor
// that holds a layer stack, a rank holds the layers of its stages:
//
//   8 layers of 4 bytes, stages [0, 4) on rank 0 and [4, 8) on rank 1
//     ->  16 bytes on each rank
#include "plan/plan_stages.h"

#include <algorithm>
#include <array>

#include "schedule/table.h"
#include "source/digest.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

bool IsOn(const PlanStage& stage, int64_t rank) {
  return IsAmong(rank, stage.ranks);
}

void WriteRange(JsonWriter& json, int64_t begin, int64_t end) {
  json.Array(std::array{begin, end});
}

// The members are written in the order of their names, as canonical JSON
// requires.
void WriteStage(JsonWriter& json, const PlanStage& stage) {
  json.BeginObject();
  json.Member("layers",
              WrittenBy(WriteRange, stage.layers.first, stage.layers.end));
  json.Key("parts");
  json.BeginArray();
  if (stage.first) json.String("first");
  if (stage.last) json.String("last");
  json.EndArray();
  json.Member("ranks", stage.ranks);
  json.EndObject();
}

}  // namespace

bool PlanStages::Holds(const ParamStages& param, int64_t rank) const {
  return std::any_of(param.of.begin(), param.of.end(),
                     [&](const StageShare& share) {
                       return IsOn(of[AsIndex(share.stage)], rank);
                     });
}

int64_t DevicesOfRank(const Mesh& mesh,
                      const std::optional<PlanStages>& stages) {
  return stages ? mesh.devices / stages->ranks : mesh.devices;
}

std::vector<int32_t> RanksOf(const PlanStages& stages,
                             const ParamStages& param) {
  std::vector<int32_t> ranks;
  for (const StageShare& share : param.of) {
    const auto& own = stages.of[AsIndex(share.stage)].ranks;
    ranks.insert(ranks.end(), own.begin(), own.end());
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

int64_t LayersOnRank(const PlanStages& stages, const ParamStages& param,
                     int64_t rank) {
  if (!param.dim) return stages.Holds(param, rank) ? 1 : 0;
  int64_t layers = 0;
  for (const StageShare& share : param.of) {
    if (IsOn(stages.of[AsIndex(share.stage)], rank)) {
      layers += share.end - share.begin;
    }
  }
  return layers;
}

void BytesByRank::Add(const ParamStages& param, std::optional<int64_t> bytes,
                      int64_t count, const std::string* axis,
                      int64_t coordinate) {
  if (!bytes) {
    known_ = false;
    return;
  }
  const int64_t whole = std::max<int64_t>(1, param.dim ? param.layers : 1);
  for (const int32_t rank : RanksOf(*stages_, param)) {
    const Size held = Size(*bytes / whole) *
                      LayersOnRank(*stages_, param, rank) * Size(count);
    HeldBytes& to = held_[AsIndex(rank)];
    if (axis != nullptr) {
      to.AddAt(*axis, coordinate, held.Checked());
    } else {
      to.Add(held.Checked());
    }
  }
}

std::vector<std::optional<int64_t>> BytesByRank::Fullest() const {
  std::vector<std::optional<int64_t>> out;
  for (const HeldBytes& held : held_) {
    out.push_back(known_ ? held.Fullest() : std::nullopt);
  }
  return out;
}

std::optional<int64_t> MostOf(
    const std::vector<std::optional<int64_t>>& bytes) {
  std::optional<int64_t> most = 0;
  for (const auto& one : bytes) {
    most = most && one ? std::optional(std::max(*most, *one)) : std::nullopt;
  }
  return most;
}

void WriteBytesByRank(JsonWriter& json,
                      const std::vector<std::optional<int64_t>>& bytes) {
  const auto most = MostOf(bytes);
  std::optional<int64_t> least = most;
  for (const auto& one : bytes) {
    if (least && one) least = std::min(*least, *one);
  }
  json.BeginObject();
  // The members are written in the order of their names. The check for edited
  // plans (plan/read.h) sorts the plan's `bytes_by_rank` by name, and compares
  // it with the text that is written here.
  json.Members("least", least, "most", most, "of", bytes);
  json.EndObject();
}

void WritePlanStages(JsonWriter& json, const PlanStages& stages,
                     ScheduleName name) {
  json.BeginObject();
  json.Member("axis", stages.axis);
  if (!stages.copies.empty()) {
    json.Records("copies", stages.copies, [&](const StageCopy& copy) {
      json.Members("param", copy.param, "ranks", copy.ranks, "stages",
                   copy.stages);
    });
  }
  json.Members("hidden", Given(stages.hidden), "microbatches",
               stages.microbatches);
  json.Key("of");
  json.BeginArray(name == ScheduleName::kWritten ? JsonLayout::kLines
                                                 : JsonLayout::kInline);
  for (const PlanStage& stage : stages.of) WriteStage(json, stage);
  json.EndArray();
  json.Member("placement", stages.placement);
  if (name == ScheduleName::kWritten) json.Member("schedule", stages.schedule);
  json.Members("table", stages.table, "virtual", stages.virtual_stages);
  json.EndObject();
}

void WriteSlices(JsonWriter& json, const PlanStages& stages,
                 const ParamStages& param) {
  json.Key("slices");
  json.BeginObject();
  json.Member("dim", *param.dim);
  if (param.dims > 1) json.Member("dims", param.dims);
  json.Key("of");
  json.BeginArray();
  size_t next = 0;
  for (size_t s = 0; s < stages.of.size(); ++s) {
    const bool own =
        next < param.of.size() && AsIndex(param.of[next].stage) == s;
    if (own) {
      WriteRange(json, param.of[next].begin, param.of[next].end);
      ++next;
    } else {
      WriteRange(json, 0, 0);
    }
  }
  json.EndArray();
  json.EndObject();
}

void WriteStageNumbers(JsonWriter& json, const ParamStages& param) {
  json.Key("stages");
  json.Array(param.of, &StageShare::stage);
}

std::string RanksText(const std::vector<int32_t>& ranks) {
  return (ranks.size() > 1 ? "ranks " : "rank ") +
         ListInWords(ranks, [](int32_t rank) { return std::to_string(rank); });
}

std::string TableDigest(const schedule::Table& table) {
  return "sha256:" + Sha256(schedule::CsvText(table));
}

// Converts a range of units to a range of layers, and writes the range for
// messages. Units are the parts of a model that stages divide: unit 0 is the
// embedding, unit 1 + l is layer l, and the last unit is the head. For example,
// in a model of 32 layers:
//
//   units 0 to 8 (before 9)  ->  layers 0-7

LayerRange LayersIn(int64_t begin, int64_t end, int64_t layers) {
  const int64_t first = std::max<int64_t>(begin, 1) - 1;
  return {first, std::max(std::min(end - 1, layers), first)};
}

std::string LayersText(const LayerRange& range) {
  if (range.count() <= 0) return "no layers";
  if (range.count() == 1) return "layer " + std::to_string(range.first);
  return "layers " + std::to_string(range.first) + "-" +
         std::to_string(range.end - 1);
}

}  // namespace shardc
