// Compares the reports of small plans, of their costs and of findings with the
// expected texts in testdata/tables/emit_*.txt.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/fit.h"
#include "cost/program.h"
#include "cost/report.h"
#include "devices/profiles.h"
#include "emit/costs/cost_report.h"
#include "emit/emit.h"
#include "emit/findings/formats.h"
#include "emit/inputs.h"
#include "emit/plans/explain.h"
#include "emit/plans/input_text.h"
#include "emit/plans/plan_diff.h"
#include "emit/plans/rules_file.h"
#include "lint/rules/all.h"
#include "plan/difference/plan_difference.h"
#include "plan/plan_table.h"
#include "source/source.h"
#include "tables.h"

namespace shardc {
namespace {

TEST_CASE("what is written of a plan") {
  CheckTable("emit_plans.txt", [](const TableCase& given) {
    const Inputs inputs(given, "");
    if (inputs.compiled == nullptr) return inputs.Plain(inputs.Errors());
    const Compiled& compiled = *inputs.compiled;
    std::string out = Titled(
        "JSON", [&](Sink& sink) { WritePlanJson(compiled.plan, {}, sink); });
    out += Titled("summary", PlanSummaryText(compiled));
    out += Titled("rules", RulesText(compiled.rules));
    out += Titled("rules as JSON",
                  [&](Sink& sink) { WriteRulesJson(compiled.rules, sink); });
    out += Titled("rules file", [&](Sink& sink) {
      WriteRulesFileJson(compiled.rules, sink);
    });
    out += Titled("mesh file", MeshFileYaml(compiled.mesh));
    for (const int64_t device : {int64_t{1}, compiled.mesh.devices - 1}) {
      out += Titled("a device", MeshDeviceText(compiled.mesh, device));
      out += Titled("a device as JSON", [&](Sink& sink) {
        WriteMeshDeviceJson(compiled.mesh, device, sink);
      });
    }
    out += Titled("manifest", ManifestText(compiled.manifest));
    out += Titled("manifest as JSON", [&](Sink& sink) {
      WriteManifestJson(compiled.manifest, sink);
    });
    for (const size_t param : {size_t{1}, size_t{4}, size_t{6}, size_t{7}}) {
      if (param >= compiled.plan.params.size()) break;
      out += Titled("a parameter", ExplainText(compiled, param));
      out += Titled("a parameter as JSON", [&](Sink& sink) {
        WriteExplainJson(compiled, param, sink);
      });
    }
    return inputs.Plain(out);
  });
}

TEST_CASE("what is written of a difference") {
  CheckTable("emit_differences.txt", [](const TableCase& given) {
    const Inputs before(given, ""), after(given, "other ");
    REQUIRE_MESSAGE(before.compiled, before.Errors());
    REQUIRE_MESSAGE(after.compiled, after.Errors());
    const auto source = [](const Inputs& inputs, const char* name) {
      return MakeSource(name, inputs.Plain(TextOf([&](Sink& out) {
        WritePlanJson(inputs.compiled->plan, {}, out);
      })));
    };
    Findings findings;
    const SourceRef a = source(before, "a.json"), b = source(after, "b.json");
    const auto table = [&](const SourceRef& plan) {
      return ReadPlanTable(plan, EditedPlan::kAllowed, findings);
    };
    const auto was = table(a), is = table(b);
    REQUIRE(was.has_value());
    REQUIRE(is.has_value());
    const auto diff = ComparePlans(*was, *is, findings);
    REQUIRE(diff.has_value());
    return Titled("text", [&](Sink& out) { WriteDiffText(*diff, out); }) +
           Titled("JSON", [&](Sink& out) { WriteDiffJson(*diff, out); }) +
           Titled("Markdown",
                  [&](Sink& out) { WriteDiffMarkdown(*diff, out); });
  });
}

// Returns the text of a calibration, made by hand, in which all numbers differ.
std::string Calibrated(const TableCase& given) {
  const DeviceProfile* base = FindDeviceProfile(given.Text("device"));
  REQUIRE(base != nullptr);
  cost::Calibration fitted;
  fitted.efficiency = base->efficiency;
  if (given.Text("calibration") == "fitted") {
    fitted.efficiency.matmul = 0.6125;
    fitted.efficiency.matmul_fp8 = 0.5125;
    fitted.efficiency.flash_attn1 = 0.1125;
    fitted.efficiency.flash_attn2 = 0.2125;
    fitted.efficiency.cudnn = 0.3125;
    fitted.efficiency.attention = 0.4125;
    fitted.efficiency.scale = 0.0125;
    fitted.figures = {cost::Figure::kMatmul, cost::Figure::kMatmulFp8,
                      cost::Figure::kFlash1, cost::Figure::kFlash2,
                      cost::Figure::kCudnn,  cost::Figure::kAttention,
                      cost::Figure::kScale};
  }
  fitted.steps = {{"first", 1.5, 2.5, 1.625}, {"the second", 0.25, 0.125, 0.5}};
  fitted.remarks = {"a remark", "another"};
  return Titled("profile", CalibratedProfileText(*base, "own", fitted)) +
         Titled("text", CalibrationText(*base, fitted));
}

TEST_CASE("what is written of costs") {
  CheckTable("emit_costs.txt", [](const TableCase& given) {
    const Inputs inputs(given, "");
    if (given.Find("calibration") != nullptr) return Calibrated(given);
    if (given.Find("profiles") != nullptr) {
      return Titled("text", ProfileListText()) +
             Titled("JSON", [](Sink& out) { WriteProfileListJson(out); });
    }
    REQUIRE_MESSAGE(inputs.compiled, inputs.Errors());
    const cost::Settings settings = SettingsOf(given);
    const Mode mode = ParseMode(given.Text("mode")).value_or(Mode::kTrain);
    cost::CostInputs work =
        cost::MakeCostInputs(*inputs.compiled, inputs.config, mode);
    cost::Report report = cost::ReportOf(work, settings);
    report.target = inputs.target.name;
    std::string out = Titled("text", CostReportText(report, {}));
    out += Titled("explained", CostReportText(report, {true}));
    out += Titled("JSON", [&](Sink& sink) { WriteCostJson(report, sink); });
    const std::vector<std::string> axes = {"dp", "tp"};
    Findings findings;
    const cost::FitInputs fit = inputs.Fit(settings, mode);
    const auto evaluator = cost::MeshEvaluator::Make(fit, axes, findings);
    REQUIRE(evaluator != nullptr);
    cost::FitReport all{.target = "small",
                        .mode = mode,
                        .settings = settings,
                        .sizes = {},
                        .meshes = {},
                        .change = {},
                        .unknown = {{.what = "activations"}}};
    const std::vector<Mesh> meshes = cost::MeshesOf(8, axes, 100).value();
    for (const Mesh& mesh : meshes) {
      all.meshes.push_back(evaluator->On(mesh, findings).value());
      if (mesh.axes[0].size == 1)
        all.sizes.push_back({"tp", all.meshes.back()});
    }
    cost::SortByCost(all.meshes);
    if (given.Find("change") != nullptr) {
      all.change = cost::FitChange{{"--microbatches 2"}, all.meshes.front()};
    }
    out += Titled("fit", FitReportText(all, 2, false));
    out += Titled("all that fit", FitReportText(all, 2, true));
    out += Titled("fit as JSON", [&](Sink& sink) { WriteFitJson(all, sink); });
    return inputs.Plain(out);
  });
}

const Code& kFirst = code::kSchema;
const Code& kSecond = kDeadRule.code;
const Code& kThird = kAxisOfSizeOne.code;

std::vector<Finding> FindingsOf(const std::string& kind) {
  std::vector<Finding> out;
  const auto add = [&](const Code& code, Place place, std::string message,
                       std::string help) -> Finding& {
    Finding& finding = out.emplace_back();
    finding.code = &code;
    finding.level = code.level;
    finding.place = std::move(place);
    finding.message = std::move(message);
    finding.help = std::move(help);
    return finding;
  };
  if (kind == "none") return out;
  const SourceRef rules = MakeSource(
      "dir/rules.yaml", "version: 1\nrules:\n  - match: 'w\xc3\xa9'\n\ttab\n");
  if (kind == "hostile") {
    const SourceRef odd = MakeSource("a b,c:d%\n\x1b.yaml", "x\x1b[1m\n");
    add(kFirst, {odd, 0, 1},
        "a \x1b[31m <b> & \"q\" | `c` ]]> %0A\nline\xff [t](1) `` ` d",
        "h \x07 <i> ::error::");
    return out;
  }
  add(kFirst, {rules, 22, 33}, "a message", "the help").params = {"a", "b"};
  Finding& second = add(kSecond, {rules, 35, 39}, "another", "");
  second.labels = {{{rules, 0, 10}, "the version is here"},
                   {{MakeSource("other.json", "{}\n"), 0, 2}, "of this file"}};
  second.targets = {"one", "two"};
  add(kThird, {rules, Place::kEntireFile, Place::kEntireFile},
      "of a whole file", "mend");
  add(kFirst, {}, "without a place", "");
  Finding& flag = add(kSecond, {MakeSource("--mesh", "dp:2"), 0, 2}, "a flag",
                      "write another");
  flag.main_file = {rules, Place::kEntireFile, Place::kEntireFile};
  add(kThird, {rules, 22, 45}, "over two lines", "");
  return out;
}

TEST_CASE("a format states whether it depends on the names of parameters") {
  const std::vector<Finding> named = FindingsOf("several");
  std::vector<Finding> unnamed = named;
  for (Finding& finding : unnamed) finding.params.clear();
  for (const FindingFormat& format : FindingFormats()) {
    CAPTURE(format.name);
    const auto text = [&](const std::vector<Finding>& findings) {
      const FindingReport report{findings, "1.2.3", {}, {}};
      return TextOf([&](Sink& sink) { format.write(report, sink); });
    };
    CHECK((text(named) != text(unnamed)) == format.lists_names);
  }
}

TEST_CASE("what is written of findings") {
  CheckTable("emit_findings.txt", [](const TableCase& given) {
    const std::vector<Finding> findings = FindingsOf(given.Text("findings"));
    std::string out;
    for (const FindingFormat& format : FindingFormats()) {
      for (const bool color : {false, true}) {
        if (color && format.name != "text") continue;
        FindingReport report{findings, "1.2.3", {color}, {}};
        out += Titled(std::string(format.name) + (color ? ", coloured" : ""),
                      [&](Sink& sink) { format.write(report, sink); });
      }
    }
    // A SARIF file describes all codes; keep only those of the findings.
    std::string shorter;
    for (size_t at = 0; at < out.size();) {
      const size_t end = out.find('\n', at) + 1;
      const std::string_view line = std::string_view(out).substr(at, end - at);
      at = end;
      if (line.starts_with("      {\"id\": \"SHD") &&
          line.find(kFirst.Id()) == std::string_view::npos) {
        continue;
      }
      shorter += line;
    }
    out = std::move(shorter);
    for (size_t at; (at = out.find('\x1b')) != std::string::npos;) {
      out.replace(at, 1, "<ESC>");
    }
    return out;
  });
}

}  // namespace
}  // namespace shardc
