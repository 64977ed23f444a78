// `shardc search`: finds the cheapest sharding of a model on a number of
// devices. Prints the sharding with the proof that its step computes the values
// of the dense model. Also prints the Pareto front of time and memory, and why
// each alternative is worse.
#include <algorithm>
#include <utility>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/search_inputs.h"
#include "cli/searched.h"
#include "cli/verify_process.h"
#include "emit/costs/figures.h"
#include "emit/costs/search_report.h"
#include "emit/report/search_page.h"
#include "search/placed_pipelines.h"
#include "search/search.h"

namespace shardc::cli {
namespace {

// Returns a function that draws the progress of the search on a terminal. With
// --quiet, or if stderr is not a terminal, the function is empty.
std::function<void(const search::Progress&)> SearchProgressLine(
    const Common& common) {
  const verify::Progress line = ProgressLine(common, "shardings");
  if (!line) return {};
  return [line](const search::Progress& now) {
    line(static_cast<size_t>(now.done), static_cast<size_t>(now.all),
         now.best_seconds > 0 ? "best " + SecondsText(now.best_seconds) : "");
  };
}

bool IsSame(const search::Sharding& a, const search::Sharding& b) {
  return a.mesh.axes == b.mesh.axes && a.rules == b.rules &&
         a.schedule == b.schedule &&
         SearchSettingsText(a.report.settings) ==
             SearchSettingsText(b.report.settings);
}

void Prove(const SearchInputs& inputs, SearchReport& report) {
  const search::Found& found = report.found;
  if (inputs.prove == 0 || !found.winner) return;
  report.proof = found.winner->IsPipeline()
                     ? ProofOf(*found.pipelines.fastest, inputs)
                     : ProofOf(*found.winner, inputs);
  // Prove at most `left` further shardings of the Pareto front. Its pipelines
  // are not proved here. If the winner is in the front, its proof is reused.
  int64_t left = inputs.prove - 1;
  for (const search::Sharding& one : found.front) {
    SearchProof& proof = report.proofs.emplace_back();
    if (IsSame(one, *found.winner)) {
      proof = report.proof;
    } else if (!one.IsPipeline() && left > 0) {
      proof = ProofOf(one, inputs);
      --left;
    }
  }
}

bool Failed(const SearchProof& proof) {
  return proof.status == SearchProof::Status::kFail;
}

int RunSearch(const SearchFlags& flags, const Common& common,
              Findings& findings) {
  const auto inputs = ReadSearchInputs(flags, common, findings);
  if (inputs == nullptr) return kFailed;
  if (inputs->has_rules_stages && !flags.output.empty()) {
    findings.Add(code::kUsage, FlagPlace("--output", flags.output),
                 "the rules declare `stages:`, which the project of a winner "
                 "without stages cannot leave out",
                 "declare the stages in a target of `shardc.yaml`, and not in "
                 "the rules, or leave out `-o`");
    return kFailed;
  }
  const ExitStatus planned = PlanGivenRules(*inputs, findings);
  if (planned != kDone) return planned;
  inputs->request.progress = SearchProgressLine(common);
  SearchReport report;
  report.target = inputs->target;
  report.devices = inputs->request.devices;
  report.settings = inputs->request.settings;
  report.assumed = inputs->assumed;
  report.found = search::Search(inputs->request);
  Prove(*inputs, report);
  // A sharding that fails its proof is not written.
  const bool writes =
      report.found.winner && !Failed(report.proof) && !flags.output.empty();
  const bool staged = report.found.winner && report.found.winner->IsPipeline();
  const search::Pipeline* const pipeline =
      staged ? &*report.found.pipelines.fastest : nullptr;
  if (writes && !WriteSearched(*report.found.winner, pipeline, *inputs,
                               flags.output, common, findings)) {
    return kFailed;
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteSearchJson(report, out);
      return;
    }
    if (common.format == "html") {
      report::WriteSearchPage(report, out);
      return;
    }
    out.Append(SearchReportText(report));
    if (inputs->request.manifest.dtype_assumed) {
      out.Append("note: " + std::string(kDtypeAssumed) + "\n");
    }
    if (!report.found.winner) return;
    const std::string command =
        staged ? CostCommandOf(*pipeline, *inputs, flags.output)
               : CostCommandOf(*report.found.winner, *inputs, flags.output);
    out.Append(command.empty()
                   ? "the winner's mesh, rules or parameters are in no file: "
                     "`-o FOLDER` writes them\n"
                   : "the same figures: " + command + "\n");
  };
  if (!PutOut(write, findings)) return kFailed;
  const bool proved =
      !Failed(report.proof) &&
      std::none_of(report.proofs.begin(), report.proofs.end(), Failed);
  // If the winner may not fit in memory, the exit status is 1, as in `fit` and
  // `cost`.
  const bool fits = report.found.winner && !report.found.may_fit;
  return fits && proved ? kDone : kFound;
}

}  // namespace

Declared DeclareSearch() { return Declare(OptionsOfSearch, RunSearch); }

}  // namespace shardc::cli
