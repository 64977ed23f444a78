// Writes the fastest pipeline that a search found, which may be the winner. The
// figure after it is the difference of its time from that of the winner. For
// example, this pipeline is 1.8 % slower than the winner:
//
//   pipelines   pp:2,dp:32, interleaved with 8 stages a rank, ...: +1.8 %
#include "emit/costs/search_pipelines.h"

#include <cmath>

#include "emit/costs/figures.h"
#include "search/placed_pipelines.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string LayersText(const std::vector<int64_t>& layers) {
  std::string out;
  for (const int64_t one : layers) {
    out += (out.empty() ? "" : ",") + std::to_string(one);
  }
  return out;
}

}  // namespace

std::string SearchPipelineText(const search::Pipeline& one) {
  return SearchMeshText(one.mesh) + ", " + one.schedule +
         (one.virtual_stages > 1
              ? " with " + std::to_string(one.virtual_stages) + " stages a rank"
              : "") +
         ", " + SearchSettingsText(one.settings);
}

std::string SearchStagesText(const search::Pipelines& pipelines) {
  const search::Pipeline& one = *pipelines.fastest;
  std::string out =
      CountText(std::ssize(one.layers)) + ", whose layers are divided " +
      std::string(search::kDivisionNames[static_cast<size_t>(one.division)]);
  if (pipelines.by_times) {
    out +=
        "; " + ChangeText(pipelines.by_times->seconds / one.seconds) +
        " by the times of the stages, which no measured run has: `--assign " +
        LayersText(pipelines.by_times->layers) + "`";
  }
  return out;
}

std::string SearchPipelinesText(const SearchReport& report) {
  const search::Found& found = report.found;
  const search::Pipelines& pipelines = found.pipelines;
  if (!pipelines.why_not.empty()) {
    return "pipelines   not searched: " + Printable(pipelines.why_not) + "\n";
  }
  std::string out = "pipelines   ";
  if (!pipelines.fastest) {
    out += "none that fits";
  } else {
    const search::Pipeline& one = *pipelines.fastest;
    out += SearchPipelineText(one) + ": " +
           (found.winner && !found.winner->IsPipeline()
                ? ChangeText(one.seconds / found.winner->Seconds()) + ", "
                : "") +
           SecondsText(one.seconds) + " a step, from " +
           SecondsText(one.least) + " to " + SecondsText(one.most) + "; " +
           ShareText(std::llround(one.bubble * 1e6), 1'000'000) + " bubble, " +
           BytesText(one.bytes) +
           " of tensors on the fullest rank\n            " +
           SearchStagesText(pipelines);
  }
  return out + "\n            " + CountText(pipelines.evaluated) + " of " +
         CountText(pipelines.bounded) + " evaluated, in the order of bounds\n";
}

void WriteProved(JsonWriter& json, const SearchProof& proof) {
  json.Key("proved");
  if (proof.status == SearchProof::Status::kNotRun) {
    json.Null();
  } else {
    json.Bool(proof.status == SearchProof::Status::kPass);
  }
}

void WriteSearchPipelines(JsonWriter& json, const SearchReport& report) {
  const search::Pipelines& pipelines = report.found.pipelines;
  json.Key("pipeline");
  if (!pipelines.fastest) {
    json.Null();
  } else {
    const search::Pipeline& one = *pipelines.fastest;
    json.BeginObject(JsonLayout::kLines);
    json.Key("mesh");
    json.BeginObject();
    for (const MeshAxis& axis : one.mesh.axes) {
      json.Member(axis.name, axis.size);
    }
    json.EndObject();
    json.Member("axis", one.axis);
    json.Member("schedule", one.schedule);
    json.Member("virtual", int64_t{one.virtual_stages});
    json.Key("layers");
    json.Array(one.layers);
    json.Member("rules", one.rules);
    json.Member("remat", one.settings.remat.text);
    json.Member("microbatches", one.settings.microbatches);
    json.Member("zero", int64_t{one.settings.zero});
    json.Member("division",
                search::kDivisionNames[static_cast<size_t>(one.division)]);
    json.Member("expected_s", one.seconds);
    json.Member("least_s", one.least);
    json.Member("most_s", one.most);
    json.Member("bubble", one.bubble);
    json.Member("tensor_bytes", one.bytes);
    const bool wins = report.found.winner && report.found.winner->IsPipeline();
    json.Member("wins", wins);
    WriteProved(json, wins ? report.proof : SearchProof{});
    json.Key("by_times");
    if (pipelines.by_times) {
      json.BeginObject();
      json.Member("expected_s", pipelines.by_times->seconds);
      json.Key("layers");
      json.Array(pipelines.by_times->layers);
      json.EndObject();
    } else {
      json.Null();
    }
    json.EndObject();
  }
  json.Key("pipelines");
  json.BeginObject();
  json.Member("bounded", pipelines.bounded);
  json.Member("evaluated", pipelines.evaluated);
  json.Key("why_not");
  if (pipelines.why_not.empty()) {
    json.Null();
  } else {
    json.String(pipelines.why_not);
  }
  json.EndObject();
}

}  // namespace shardc
