// Writes the result of a search, as text and as JSON (`shardc.search/v1`).
#ifndef SHARDC_EMIT_COSTS_SEARCH_REPORT_H_
#define SHARDC_EMIT_COSTS_SEARCH_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/settings.h"
#include "search/search.h"
#include "source/sink.h"

namespace shardc {

// The proof of a sharding by `verify step` at reduced sizes.
struct SearchProof {
  enum class Status : uint8_t { kNotRun, kPass, kFail, kUnsupported };
  Status status = Status::kNotRun;
  std::string text;  // what was proved, or why it was not
};

struct SearchReport {
  std::string target;
  int64_t devices = 1;
  cost::Settings settings;  // the settings of all shardings
  // The flags that were not given, with the values that are assumed for them.
  std::vector<std::string> assumed;
  search::Found found;
  SearchProof proof;  // the proof of the winner
  // The proofs of the first shardings of the Pareto front, in the front's
  // order. Pipelines of the front have kNotRun.
  std::vector<SearchProof> proofs;
  // The proof of the fastest pipeline; only run if this pipeline would win.
  SearchProof of_pipeline;
};

// Returns "remat nothing_saveable, 1 micro-batch, ZeRO 0".
std::string SearchSettingsText(const cost::Settings& settings);

// Returns "dp:2,fsdp:32".
std::string SearchMeshText(const Mesh& mesh);
// Returns the mesh of a sharding and, for a pipeline, its schedule:
// "pp:2,dp:32, 1f1b".
std::string SearchMeshText(const search::Sharding& one);
// Returns how accurate the expected time is, and which measurements show that.
std::string SearchAccuracyText(const cost::ExpectedTime& time);
// Returns why the winner was preferred to a faster sharding whose time is equal
// within the accuracy. The reason follows the order of search::WinnerOf: "a tie
// with the winner, which has fewer axes or needs less memory".
std::string SearchTieText(const search::Sharding& winner,
                          const search::Sharding& fastest);
// Returns the kinds of shardings that the search does not evaluate.
std::vector<std::string> NotSearched();

std::string SearchReportText(const SearchReport& report);
void WriteSearchJson(const SearchReport& report, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_SEARCH_REPORT_H_
