// Compares the results of the library for small projects with
// testdata/tables/library.txt: plans, findings with a model, a batch and a
// device's memory, specs of attention, and results of verification. Besides the
// installed headers only those of tests are included.
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "shardc/shardc.h"
#include "tables.h"
#include "temporary_folder.h"

namespace {

using shardc::Findings;
using shardc::Mode;
using shardc::TableCase;

constexpr Mode kModes[] = {Mode::kTrain, Mode::kPrefill, Mode::kDecode,
                           Mode::kInsert};
constexpr std::string_view kNames[] = {"train", "prefill", "decode", "insert"};

std::string NumberText(std::optional<int64_t> number) {
  return number ? std::to_string(*number) : "?";
}

std::string FindingsText(const Findings& findings) {
  constexpr std::string_view kLevels[] = {"error", "warning", "note"};
  std::string out;
  for (size_t i = 0; i < findings.size(); ++i) {
    const shardc::Finding one = findings.at(i);
    const std::string& file = one.place.file;
    out += std::string(kLevels[static_cast<size_t>(one.level)]) + " " +
           one.code + " " + one.name + " at " +
           file.substr(file.rfind('/') + 1) + ":" +
           std::to_string(one.place.line) + ":" +
           std::to_string(one.place.column) + ": " + one.message + "\n";
    if (!one.help.empty()) out += "  help: " + one.help + "\n";
    for (const std::string& name : one.params) out += "  of " + name + "\n";
  }
  return out;
}

std::string PlanText(const shardc::Plan& plan) {
  std::string out;
  for (size_t i = 0; i < plan.size(); ++i) {
    out += std::string(plan.name(i)) + " by rule " +
           (plan.rule(i) ? std::to_string(*plan.rule(i)) : "none") + "\n";
    for (size_t m = 0; m < std::size(kModes); ++m) {
      const auto placement = plan.placement(i, kModes[m]);
      if (!placement) continue;
      out += "  " + std::string(kNames[m]) + " " +
             shardc::SpecText(placement->spec) + " of shape";
      if (!placement->shard_shape) out += " ?";
      for (const int64_t size :
           placement->shard_shape.value_or(shardc::Shape{}))
        out += " " + std::to_string(size);
      out += ", " + NumberText(placement->bytes_per_device) + " bytes";
      if (placement->illegal) out += ", illegal";
      if (placement->corrected) out += ", corrected";
      out += "\n";
    }
  }
  const shardc::Totals totals = plan.totals();
  return out + std::to_string(totals.params) + " parameters, " +
         NumberText(totals.elements) + " elements, " +
         NumberText(totals.bytes) + " bytes, " +
         NumberText(totals.bytes_per_device) + " of a device, " +
         std::to_string(totals.unmatched) + " unmatched, " +
         std::to_string(totals.illegal) + " illegal, " +
         std::to_string(totals.corrected) + " corrected\n";
}

std::string CheckText(const shardc::Plan& plan,
                      const shardc::CheckOptions& options) {
  Findings findings;
  const auto checked = shardc::Check(plan, options, findings);
  if (!checked) return "not checked\n" + FindingsText(findings);
  std::string out = FindingsText(checked->findings);
  for (const shardc::SkippedCheck& one : checked->skipped) {
    out += "skipped " + one.code + " without " + one.missing + "\n";
  }
  return out;
}

std::string AttentionText(const shardc::Target& target) {
  std::string out;
  for (size_t m = 0; m < std::size(kModes); ++m) {
    Findings findings;
    const auto specs = shardc::ResolveAttention(kModes[m], target.mesh,
                                                target.rules, findings);
    out += std::string(kNames[m]) + ":";
    if (!specs) {
      out += "\n" + FindingsText(findings);
      continue;
    }
    for (const shardc::AttentionSpec& one : *specs) {
      out += " " + one.tensor + " " + shardc::SpecText(one.spec) + ",";
    }
    out += "\n";
  }
  return out;
}

// Returns the results of verification without their errors, which depend on the
// processor.
std::string VerdictsText(const shardc::Target& target) {
  constexpr std::string_view kVerdicts[] = {"pass", "fail", "unsupported"};
  shardc::VerifyOptions options;
  options.sizes = {.batch = 4,
                   .query_length = 8,
                   .key_length = 16,
                   .heads = 4,
                   .key_heads = 2,
                   .head_dim = 8};
  options.operations = {"vanilla", "ring", "ulysses"};
  options.layouts = {"bthd", "bhtd"};
  options.dtypes = {"float32", "bfloat16"};
  options.modes = target.plan.modes;
  options.threads = 2;
  Findings findings;
  const auto report =
      shardc::Verify(target.mesh, target.rules, options, findings);
  if (!report) return FindingsText(findings);
  std::string out;
  for (const shardc::VerifiedCase& one : report->cases) {
    out += one.operation + " " +
           std::string(kNames[static_cast<size_t>(one.mode)]) + " " +
           one.layout + " " + one.dtype + " " +
           std::string(kVerdicts[static_cast<size_t>(one.verdict)]) +
           ", sent " + std::to_string(one.bytes_sent) +
           (one.error <= one.allowed ? "" : ", beyond its tolerance");
    if (!one.reason.empty()) out += ": " + one.reason;
    out += "\n";
  }
  return out + std::to_string(report->passed) + " pass, " +
         std::to_string(report->failed) + " fail, " +
         std::to_string(report->unsupported) + " unsupported\n";
}

std::string Result(const TableCase& given) {
  const shardc::TemporaryFolder folder;
  for (const TableCase::Part& part : given.parts) {
    if (part.name.find('.') == std::string::npos) continue;
    folder.Write(part.name, part.text);
  }
  Findings findings;
  const std::string project = folder / "shardc.yaml";
  const auto names = shardc::TargetNames(project, findings);
  std::string out;
  for (const std::string& name : names.value_or(std::vector<std::string>{""})) {
    out += "### target " + name + "\n";
    const auto target = shardc::OpenTarget(
        {.project = project, .target = name, .mesh = given.Text("mesh")},
        findings);
    if (!target) continue;
    for (const shardc::MeshAxis& axis : target->mesh.axes()) {
      out += axis.name + " " + std::to_string(axis.size) + ", ";
    }
    out += std::to_string(target->mesh.devices()) + " devices, " +
           std::to_string(target->rules.size()) + " rules, " +
           std::to_string(target->manifest.size()) + " parameters, plan `" +
           target->plan_file.substr(target->plan_file.rfind('/') + 1) + "`\n";
    const auto plan = shardc::Compile(target->mesh, target->rules,
                                      target->manifest, target->plan, findings);
    out += "### findings\n" + FindingsText(findings);
    findings = Findings();
    if (!plan) continue;
    out += "### plan\n" + PlanText(*plan);
    out += "### checked\n" + CheckText(*plan, target->check);
    out += "### attention\n" + AttentionText(*target);
    if (given.Find("verify") != nullptr) {
      out += "### verdicts\n" + VerdictsText(*target);
    }
  }
  out += FindingsText(findings);
  // Messages contain the folder of each file; remove it.
  const std::string path = folder / "";
  for (size_t at; (at = out.find(path)) != std::string::npos;) {
    out.erase(at, path.size());
  }
  return out;
}

TEST_CASE("what the library returns for projects") {
  shardc::CheckTable("library.txt", Result);
}

}  // namespace
