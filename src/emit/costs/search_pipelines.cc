// Writes the fastest pipeline that a search found. The winner of a search is
// always a sharding without a pipeline. The last figure of the line is the
// difference of the pipeline's time from the winner's time. For example, this
// pipeline is 1.8 % slower than the winner:
//
//   pipelines   pp:2,dp:32, interleaved with 8 stages a rank, ...: +1.8 %
#include "emit/costs/search_pipelines.h"

#include <cmath>

#include "emit/costs/figures.h"
#include "search/placed_pipelines.h"
#include "source/wording.h"

namespace shardc {

std::string SearchPipelineText(const search::Pipeline& one) {
  return SearchMeshText(one.mesh) + ", " + one.schedule +
         (one.virtual_stages > 1
              ? " with " + std::to_string(one.virtual_stages) + " stages a rank"
              : "") +
         ", " + SearchSettingsText(one.settings);
}

std::string_view PipelineAccuracyText() {
  return search::kUncalibratedPipeline;
}

std::string WouldWinText(const search::Found& found) {
  const search::Pipeline* const one = search::FasterPipeline(found);
  if (one == nullptr) return "";
  return SearchMeshText(one->mesh) +
         " would win: " + ChangeText(one->seconds / found.winner->Seconds()) +
         ", but " + std::string(PipelineAccuracyText());
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
    out +=
        SearchPipelineText(one) + ": " +
        (found.winner ? ChangeText(one.seconds / found.winner->Seconds()) + ", "
                      : "") +
        SecondsText(one.seconds) + " a step, " +
        ShareText(std::llround(one.bubble * 1e6), 1'000'000) + " bubble, " +
        BytesText(one.bytes) + " of tensors on the fullest rank; " +
        std::string(PipelineAccuracyText());
  }
  if (!report.of_pipeline.text.empty()) {
    out += "\n            " + Printable(report.of_pipeline.text);
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
    json.Member("expected_s", one.seconds);
    json.Member("bubble", one.bubble);
    json.Member("tensor_bytes", one.bytes);
    json.Member("would_win", search::FasterPipeline(report.found) != nullptr);
    WriteProved(json, report.of_pipeline);
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
