// Writes the result of a search, as text and as JSON (`shardc.search/v1`).
#ifndef SHARDC_EMIT_COSTS_SEARCH_REPORT_H_
#define SHARDC_EMIT_COSTS_SEARCH_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/settings.h"
#include "search/search.h"
#include "search/serving.h"
#include "source/json_writer.h"
#include "source/sink.h"

namespace shardc {

// The proof by `verify step`, at reduced sizes of the model and the mesh, that
// a sharding computes what the unsharded model computes.
struct SearchProof {
  enum class Status : uint8_t { kNotRun, kPass, kFail, kUnsupported };
  Status status = Status::kNotRun;
  // What was proved, or the reason why there is no proof.
  std::string text;
};

struct SearchReport {
  std::string target;
  int64_t devices = 1;
  cost::Settings settings;  // settings that all shardings share
  // The flags that the user did not give, with the values that the search
  // assumes for them.
  std::vector<std::string> assumed;
  search::Found found;
  SearchProof proof;  // the proof of the winner
  // The proofs of the first shardings on the Pareto front, in its order. A
  // pipeline on the front is not proven: its status is kNotRun.
  std::vector<SearchProof> proofs;
};

// Returns the settings of a sharding: "remat nothing_saveable, 1 micro-batch,
// ZeRO 0".
std::string SearchSettingsText(const cost::Settings& settings);

// Returns a mesh as text: "dp:2,fsdp:32".
std::string SearchMeshText(const Mesh& mesh);
// Returns the mesh of a sharding and, for a pipeline, its schedule:
// "pp:2,dp:32, 1f1b".
std::string SearchMeshText(const search::Sharding& one);
// Returns a sentence about the accuracy of the winner's expected time, and
// about the measured runs from which the accuracy is known.
std::string SearchAccuracyText(const search::Sharding& winner);
// Returns why the winner was preferred to the fastest sharding. Their times
// differ by less than the accuracy of the expected time: "a tie with the
// winner, which has fewer axes or needs less memory". The text names one
// property in which the winner is better.
std::string SearchTieText(const search::Sharding& winner,
                          const search::Sharding& fastest);
// Returns the kinds of shardings that the search does not evaluate.
std::vector<std::string> NotSearched();

std::string SearchReportText(const SearchReport& report, bool details);
void WriteSearchJson(const SearchReport& report, Sink& out);

// Returns the mesh, the schedule and the settings of a pipeline:
// "pp:8,dp:16,tp:8, interleaved with 4 stages a rank, remat ...".
std::string SearchPipelineText(const search::Pipeline& one);
// Returns how a pipeline divides its layers: "divided evenly into 16 stages".
// Adds the time of another division that is faster and that no measured run
// has.
std::string SearchStagesText(const search::Pipelines& pipelines);
// Returns what is known of the shardings, or pipelines, that were left because
// time was over: "; none of those takes less than 1.2 s a step". `bound` is
// their Counts::left_bound or Pipelines::left_bound, in seconds.
std::string SearchLeftText(std::optional<double> bound);
// Returns the lines about pipelines in the text report. The first line has the
// fastest pipeline that may win, or `none that fits`. The second line states
// how its layers are divided, and the last line how many of the pipelines that
// may fit were evaluated. If no pipelines were searched, returns only the
// reason.
std::string SearchPipelinesText(const SearchReport& report);
// Writes `pipeline` (the fastest pipeline, or null) and `pipelines` (counts).
void WriteSearchPipelines(JsonWriter& json, const SearchReport& report);

// Writes the member `proved`: true if `verify step` proved that the sharding is
// correct, false if it did not, and null if it was not run.
void WriteProved(JsonWriter& json, const SearchProof& proof);

// Writes the layouts that `search --serve` found, as text and as JSON
// (`shardc.serve/v1`).

struct ServeReport {
  std::string target;
  std::string profile;
  int64_t devices = 1;
  search::ServeTargets targets;
  search::FoundServing found;
  // The proofs of the sides of the best layout, in prefill and in decode.
  struct Proof {
    Mode mode = Mode::kDecode;
    SearchProof proof;
  };
  std::vector<Proof> proofs;
  // The map of a prompt's cache between the sides of the best layout, as text;
  // empty if it is not disaggregated.
  std::string map;
};

std::string ServeReportText(const ServeReport& report);
void WriteServeJson(const ServeReport& report, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_SEARCH_REPORT_H_
