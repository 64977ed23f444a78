// Compares the report of a search with testdata/tables/emit_searches.txt. The
// results are made by hand, so that all numbers differ and changes to the
// search do not change them.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "devices/profiles.h"
#include "emit/costs/search_report.h"
#include "emit/html_rows.h"
#include "emit/inputs.h"
#include "emit/report/report.h"
#include "meshes.h"
#include "tables.h"

namespace shardc {
namespace {

using search::Sharding;
using search::Verdict;

// Returns a sharding whose figures are derived from `number`, so that they
// differ between shardings.
Sharding Numbered(int64_t number, double seconds, int64_t bytes) {
  Sharding out;
  out.mesh = MeshOf({{"dp", number}, {"tp", 2 * number}});
  out.rules = "rules-" + std::to_string(number);
  cost::Settings& settings = out.report.settings;
  settings.remat.text = "policy_" + std::to_string(number);
  settings.microbatches = number;
  settings.zero = static_cast<int>(number % 4);
  cost::ExpectedTime time;
  time.seconds = seconds;
  time.least = seconds * 0.5;
  time.most = seconds * 1.25;
  time.model_flops_share = 0.1 * static_cast<double>(number);
  time.tokens_per_second = 1000.6 * static_cast<double>(number);
  time.parts = {{"matmuls", seconds * 0.5},
                {"attention", seconds * 0.25},
                {"head_and_loss", 0},
                {"tensor_collectives", seconds * 0.125},
                {"scale", seconds * 0.125}};
  out.report.expected = time;
  cost::TakenBytes taken;
  taken.least = bytes / 2;
  taken.expected = bytes;
  taken.most = bytes * 2;
  out.report.memory.taken = taken;
  out.report.memory.most.by.fill(0);
  out.report.memory.most.total = bytes;
  out.report.memory.capacity = int64_t{16} << 30;
  return out;
}

int64_t Gib(double gib) { return static_cast<int64_t>(gib * (1 << 30)); }

search::Pipeline PipelineOf(double seconds) {
  search::Pipeline out;
  out.mesh = MeshOf({{"pp", 3}, {"dp", 5}});
  out.axis = "pp";
  out.schedule = "interleaved";
  out.virtual_stages = 2;
  out.layers = {4, 3, 2, 6, 1, 7};
  out.settings.remat.text = "policy_p";
  out.settings.microbatches = 11;
  out.settings.zero = 1;
  out.rules = "rules-p";
  out.seconds = seconds;
  out.bubble = 0.15625;
  out.bytes = Gib(2.5);
  return out;
}

// Returns an alternative for each verdict.
std::vector<search::WhyNot> Alternatives() {
  std::vector<search::WhyNot> out;
  const auto add = [&](std::vector<std::string> changes, Verdict verdict,
                       std::string because) -> search::WhyNot& {
    search::WhyNot& one = out.emplace_back();
    one.changes = std::move(changes);
    one.verdict = verdict;
    one.because = std::move(because);
    return one;
  };
  search::WhyNot& slower =
      add({"tp 4 -> 8", "dp 2 -> 1"}, Verdict::kSlower, "more `collectives`");
  slower.best = Numbered(7, 0.5, Gib(7));
  slower.parts = {{"matmuls", 0.03125}, {"attention", -0.0625}};
  add({"far"}, Verdict::kSlower, "").best = Numbered(8, 0.75, Gib(8));
  add({"a tie"}, Verdict::kTie, "equal").best = Numbered(9, 0.4375, Gib(9));
  add({"faster"}, Verdict::kFaster, "").best = Numbered(10, 0.375, Gib(10));
  add({"large"}, Verdict::kExceeds, "of memory");
  add({"illegal"}, Verdict::kIllegal, "of heads");
  return out;
}

void AddFound(const TableCase& given, search::Found& found) {
  found.winner = Numbered(2, 0.4375, Gib(3));
  found.front = {Numbered(3, 0.40625, Gib(4)), *found.winner,
                 Numbered(5, 0.625, Gib(1.5)), Numbered(6, 0.875, Gib(1.25))};
  found.front[2].unmeasured = "no run is so small";
  found.shown = {0, 1, 3};
  found.knee = 1;
  if (given.Find("alone") != nullptr) {
    found.knee = found.front.size();
    found.winner->report.expected->calibrated = true;
    return;
  }
  found.may_fit = true;
  found.winner->unmeasured = "no run has `dp` 2";
  found.fastest = found.front[0];
  found.runner_up = Numbered(4, 0.46875, Gib(2));
  found.ties = {{"dp+tp", *found.winner},
                {"fsdp, ZeRO 1", Numbered(11, 0.453125, Gib(11))}};
  found.why_not = Alternatives();
  found.unfinished = {"3 of 20 alternatives", "the runner-up"};
  found.counts.left = 19;
}

SearchReport ReportOf(const TableCase& given) {
  SearchReport out;
  out.target = given.Text("target");
  out.devices = NumberOf(given, "devices").value();
  out.settings = SettingsOf(given);
  search::Found& found = out.found;
  found.counts.shardings = 1012;
  found.counts.settings = 13;
  found.counts.rules = 14;
  found.counts.evaluated = 15;
  found.counts.out_of_reach = 16;
  found.counts.illegal = 17;
  found.counts.too_large = 18;
  found.known = {{"mesh", "12 runs"}, {"rules", "no `run`"}};
  const std::string fits = given.Text("fits");
  if (fits == "yes") {
    AddFound(given, found);
    out.assumed = {"--seq 8192", "--remat auto"};
  } else {
    found.least = Numbered(12, 1.5, Gib(20));
    found.reasons = {"dp:2", "a `reason`", "another"};
    if (fits == "not in time") found.counts.left = 19;
  }
  if (given.Find("pipeline seconds") != nullptr) {
    found.pipelines.fastest =
        PipelineOf(std::stod(given.Text("pipeline seconds")));
    if (found.winner) {
      Sharding& staged = found.front.emplace_back(Numbered(13, 0.9375, Gib(1)));
      staged.stages = 6;
      staged.schedule = "interleaved with 2 stages a rank";
      found.shown.push_back(found.front.size() - 1);
    }
    found.pipelines.bounded = 21;
    found.pipelines.evaluated = 20;
    found.pipelines.finished = false;
  }
  found.pipelines.why_not = given.Text("no pipeline");
  if (given.Find("proofs") != nullptr) {
    using Status = SearchProof::Status;
    out.proof = {Status::kPass, "proved on 4 devices"};
    out.proofs = {{Status::kFail, "failed on 6 devices"},
                  {Status::kUnsupported, "not on 8"}};
  }
  return out;
}

TEST_CASE("what is written of a search") {
  CheckTable("emit_searches.txt", [](const TableCase& given) {
    const SearchReport report = ReportOf(given);
    std::string page =
        TextOf([&](Sink& sink) { report::WriteSearchPage(report, sink); });
    page.erase(0, page.find("<header"));
    return Titled("text", SearchReportText(report, true)) +
           Titled("short", SearchReportText(report, false)) +
           Titled("JSON", [&](Sink& sink) { WriteSearchJson(report, sink); }) +
           Titled("page", ByRow(page));
  });
}

TEST_CASE("why the winner wins against a faster sharding") {
  const std::string tie = "a tie with the winner, which ";
  const auto text = [&](int64_t number, double gib, const char* unmeasured) {
    // The winner has the number 5: two axes and the ZeRO stage 1.
    Sharding fastest = Numbered(number, 0.375, Gib(gib));
    fastest.unmeasured = unmeasured;
    return SearchTieText(Numbered(5, 0.4375, Gib(3)), fastest);
  };
  CHECK(text(6, 4, "") == tie + "has fewer axes or needs less memory");
  CHECK(text(6, 2, "") == tie + "has the lower ZeRO stage");
  CHECK(text(6, 2, "no run") == tie + "measured runs support");
  CHECK(text(4, 2, "") == tie + "divides no sequence");
}

}  // namespace
}  // namespace shardc
