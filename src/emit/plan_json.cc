// shardc.plan/v1, one parameter a line. A layout's text is made once and
// copied for each of its parameters, so the cost per parameter is that of its
// name.
#include <algorithm>

#include "emit/emit.h"
#include "emit/findings_json.h"
#include "emit/json_text.h"
#include "plan/fingerprint.h"
#include "source/wording.h"

namespace shardc {
namespace {

void AppendSizes(std::string& out, const ModeLayout& mode) {
  out += "\"shard_shape\": ";
  AppendShape(out, mode.shard_shape);
  out += ", \"bytes_per_device\": ";
  AppendInteger(out, mode.bytes_per_device);
}

void AppendCorrection(std::string& out, const Edit& edit,
                      const ModeLayout& mode, bool last) {
  out += "{\"dim\": ";
  out += edit.dim ? std::to_string(*edit.dim) : "null";
  // An edit of the whole spec shows it whole.
  out += ", \"from\": ";
  out += edit.dim ? GroupText(edit.from) : SpecText(mode.resolved);
  out += ", \"to\": ";
  out += edit.dim ? GroupText(edit.to) : SpecText(mode.spec);
  out += ", \"reason\": ";
  AppendJsonString(out, ReasonName(edit.reason));
  out += ", \"bytes_per_device_added\": ";
  // The cost is the mode's as a whole, told once, with the last edit.
  std::optional<int64_t> added = 0;
  if (last) {
    added = std::nullopt;
    if (mode.bytes_per_device && mode.uncorrected_bytes_per_device) {
      added = *mode.bytes_per_device - *mode.uncorrected_bytes_per_device;
    }
  }
  AppendInteger(out, added);
  if (mode.mode != Mode::kTrain) {
    out += ", \"mode\": ";
    AppendJsonString(out, ModeName(mode.mode));
  }
  out += '}';
}

void AppendCorrections(std::string& out,
                       std::span<const ModeLayout* const> modes) {
  bool first = true;
  for (const ModeLayout* mode : modes) {
    for (size_t i = 0; i < mode->edits.size(); ++i) {
      out += first ? ", \"corrections\": [" : ", ";
      first = false;
      AppendCorrection(out, mode->edits[i], *mode, i + 1 == mode->edits.size());
    }
  }
  if (!first) out += ']';
}

std::string LayoutText(const Plan& plan, const ParamLayout& layout) {
  const TensorType& type = plan.types[layout.type];
  const ModeLayout& train = layout.modes[0];
  std::string out = "{\"shape\": ";
  AppendShape(out, type.shape);
  out += ", \"dtype\": ";
  AppendDtype(out, type.dtype);
  out += ", \"spec\": " + SpecText(train.spec);
  out += ", \"rule\": ";
  out += layout.rule < 0 ? "null" : std::to_string(layout.rule);
  out += ", ";
  AppendSizes(out, train);
  std::vector<const ModeLayout*> told = DifferingModes(plan, layout);
  if (!told.empty()) {
    out += ", \"modes\": {";
    for (size_t i = 0; i < told.size(); ++i) {
      if (i > 0) out += ", ";
      AppendKey(out, ModeName(told[i]->mode));
      out += "{\"spec\": " + SpecText(told[i]->spec) + ", ";
      AppendSizes(out, *told[i]);
      out += '}';
    }
    out += '}';
  }
  told.insert(told.begin(), &train);
  AppendCorrections(out, told);
  return out;
}

void AppendRules(std::string& out, const Plan& plan) {
  out += "  \"rules\": [";
  for (size_t i = 0; i < plan.rules.size(); ++i) {
    out += i == 0 ? "\n" : ",\n";
    out += "    {\"match\": ";
    AppendJsonString(out, plan.rules[i].match);
    out += ", \"source\": ";
    AppendJsonString(out, plan.rules[i].source);
    out += ", \"params\": " + std::to_string(plan.rules[i].params) + "}";
  }
  out += plan.rules.empty() ? "],\n" : "\n  ],\n";
}

void AppendParams(std::string& out, const Plan& plan) {
  std::vector<std::string> layouts;
  layouts.reserve(plan.layouts.size());
  for (const ParamLayout& layout : plan.layouts) {
    layouts.push_back(LayoutText(plan, layout));
  }
  out += "  \"params\": {";
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const PlannedParam& param = plan.params[i];
    out += i == 0 ? "\n    " : ",\n    ";
    AppendKey(out, plan.names[i]);
    out += layouts[param.layout];
    if (param.coordinate) {
      const int32_t rule = plan.layouts[param.layout].rule;
      out += ", \"placement\": {\"axis\": ";
      AppendJsonString(out, plan.placement_axes[static_cast<size_t>(rule)]);
      out += ", \"coordinate\": " + std::to_string(*param.coordinate) + "}";
    }
    if (plan.has_weight_decay) {
      out += ", \"weight_decay\": ";
      out += param.weight_decay ? "true" : "false";
    }
    out += '}';
  }
  out += plan.params.empty() ? "},\n" : "\n  },\n";
}

void AppendAttention(std::string& out, const Plan& plan) {
  out += "  \"attention\": {";
  for (size_t m = 0; m < plan.attention.size(); ++m) {
    out += m == 0 ? "\n    " : ",\n    ";
    AppendKey(out, ModeName(plan.attention[m].mode));
    out += '{';
    const auto& specs = plan.attention[m].specs;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (i > 0) out += ", ";
      AppendKey(out, specs[i].first);
      out += SpecText(specs[i].second);
    }
    out += '}';
  }
  out += plan.attention.empty() ? "},\n" : "\n  },\n";
}

void AppendSummary(std::string& out, const PlanSummary& summary) {
  out += "  \"summary\": {\"params\": " + std::to_string(summary.params);
  out += ", \"elements\": ";
  AppendInteger(out, summary.elements);
  out += ", \"bytes\": ";
  AppendInteger(out, summary.bytes);
  out += ", \"bytes_per_device\": ";
  AppendInteger(out, summary.bytes_per_device);
  out += ", \"unmatched\": " + std::to_string(summary.unmatched);
  out += ", \"corrected\": " + std::to_string(summary.corrected) + "}";
}

}  // namespace

std::string PlanJson(const Plan& plan, std::span<const Finding> diagnostics) {
  std::string out = "{\n  \"schema\": \"shardc.plan/v1\",\n";
  out += "  \"fingerprint\": ";
  AppendJsonString(out, plan.fingerprint);
  out += ",\n  \"mesh\": ";
  AppendMesh(out, plan.mesh);
  out += ",\n  \"modes\": ";
  AppendModes(out, plan.modes);
  out += ",\n";
  AppendRules(out, plan);
  AppendParams(out, plan);
  AppendAttention(out, plan);
  AppendSummary(out, plan.summary);
  if (!diagnostics.empty()) {
    out += ",\n  \"diagnostics\": ";
    AppendFindingsJson(out, diagnostics, "  ");
  }
  out += "\n}\n";
  return out;
}

}  // namespace shardc
