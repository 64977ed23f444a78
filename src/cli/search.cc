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
  report.proof = ProofOf(*found.winner, inputs);
  if (const auto* const pipeline = search::FasterPipeline(found)) {
    report.of_pipeline = ProofOf(*pipeline, inputs);
  }
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
  const search::Pipeline* const pipeline =
      Failed(report.of_pipeline) ? nullptr
                                 : search::FasterPipeline(report.found);
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
    const std::string command = CostCommandOf(
        *report.found.winner, pipeline != nullptr, *inputs, flags.output);
    out.Append(command.empty()
                   ? "the winner's mesh, rules or parameters are in no file: "
                     "`-o FOLDER` writes them\n"
                   : "the same figures: " + command + "\n");
    const std::string of_pipeline =
        pipeline == nullptr ? ""
                            : CostCommandOf(*pipeline, *inputs, flags.output);
    if (!of_pipeline.empty()) {
      out.Append("the pipeline's figures: " + of_pipeline + "\n");
    }
  };
  if (!PutOut(write, findings)) return kFailed;
  const bool proved =
      !Failed(report.proof) && !Failed(report.of_pipeline) &&
      std::none_of(report.proofs.begin(), report.proofs.end(), Failed);
  // If the winner may not fit in memory, the exit status is 1, as in `fit` and
  // `cost`.
  const bool fits = report.found.winner && !report.found.may_fit;
  return fits && proved ? kDone : kFound;
}

}  // namespace

const Command kSearch = {
    .name = "search",
    .summary = "find the cheapest sharding of a model on a number of devices",
    .about = R"(
Searches meshes of `--devices`, rules, rematerialisation policies, numbers of
micro-batches and ZeRO stages for the training step that is expected to take the
least time and that fits a device's memory. The figures are those of
shardc-cost(1) and shardc-fit(1), so that `shardc cost` prints the same for the
winner.

Meshes are all factorisations of the devices over data, fully sharded data,
expert, sequence and tensor parallelism. Rules are those that are given, or the
pack that knows the model's names, and those that shardc-suggest(1) would write
for each mesh; both also with the hidden states sharded over the tensor axis or
not, and with the batch over the experts' axis. What `--remat`,
`--microbatches` and `--zero` give is fixed; `--keep mesh` and `--keep rules`
fix those. Pipelines of data, fully sharded data, expert and tensor parallelism
are in the front, the ties and the alternatives, but the winner has none,
because no time of one is calibrated. The fastest pipeline that fits is listed
next to it; if it is more than 5 % faster, the report has a line that it would
win, and `-o` writes it as a second target, with its stages.

Choices that no measured run supports can only win with `--unmeasured`, which
also searches pipelines under zero-bubble schedules and DualPipe, and, one of
these at a time, orders of the axes, KV heads replicated over the tensor axis,
and weights of attention, or of the embedding and of the head, that data axes do
not shard. Without it these three are among the alternatives, which name the run
that is missing. On GPUs a tensor group inside a host, and a divided sequence of
32,768 tokens (in two parts 8,192 with `--stack megatron`), are measured; on
TPUs one micro-batch a step.

Times that differ by less than 2 % between meshes of the same axes, or 5 %
between others, are ties: the winner is then the mesh of fewer axes and less
memory, unless a sharding that `fit` or `suggest` would choose is faster.

The winner's training step is proved at reduced sizes, as by
shardc-verify-step(1), before anything is written. The front has the shardings
that no other beats in both time and memory. Each alternative changes one choice
of the winner, makes the others again, and names the parts of the step's time
that decide. `--format json` is shardc.search/v1, with the complete front;
`--format html` is a page with the front as a drawing, and the winner next to
the runner-up.

The same inputs give the same winner with any number of threads; with
`--seconds` the result depends on the machine.

Exits with 1 if nothing fits, with the least memory that is needed, and if a
step of the winner may take more memory than a device has.)",
    .example =
        "shardc search --devices 64 --profile h100-sxm --model config.json \\\n"
        "    --batch 128 --seq 8192 -o sharded",
    .formats = "text|json|html",
    .declare = [] { return Declare(OptionsOfSearch, RunSearch); },
};

}  // namespace shardc::cli
