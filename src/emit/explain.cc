#include "emit/explain.h"

#include <algorithm>

#include "emit/json_text.h"
#include "plan/nearest.h"
#include "source/wording.h"

namespace shardc {
namespace {

const ParamLayout& LayoutOf(const Compiled& c, size_t param) {
  return c.plan.layouts[c.plan.params[param].layout];
}

// Rules up to and with the first match; all of them when nothing matched.
size_t Tried(const Compiled& c, size_t param) {
  const int32_t rule = LayoutOf(c, param).rule;
  if (rule >= 0) return static_cast<size_t>(rule) + 1;
  return LayoutOf(c, param).unmatched ? c.rules.rules.size() : 0;
}

// The part of the name that a rule's pattern matched.
std::string MatchedPart(const Compiled& c, size_t rule, size_t param) {
  const std::string& name = c.plan.names[param];
  const auto range = c.matcher->Find(rule, name, c.manifest.separator);
  return range ? name.substr(range->first, range->second - range->first) : "";
}

std::string RuleLabel(const Compiled& c, size_t rule) {
  return "[" + std::to_string(rule) + "] " +
         Printable(c.plan.rules[rule].match) + "  (" +
         Printable(c.plan.rules[rule].source) + ")";
}

// Parallelism axes that the mesh lacks count as size 1 and are left out.
std::string LeftOut(const Compiled& c, const NameTrace& trace) {
  std::string out;
  for (const std::string& axis : trace.axes) {
    if (!c.resolver->IsAbsentParallelism(axis)) continue;
    out += (out.empty() ? ", not in this mesh: " : ", ") + axis;
  }
  return out;
}

std::string TraceText(const Compiled& c, const NameTrace& trace) {
  std::string out = trace.name + " -> " + GroupText(trace.axes) + " (" +
                    std::string(trace.kind);
  if (!trace.rule.empty()) out += ", rule " + trace.rule;
  if (trace.decode_fallback) {
    out += ", its decode rule is null: the standard rule stays";
  }
  return out + LeftOut(c, trace) + ")";
}

std::string EditText(const Edit& edit, const ModeLayout& mode) {
  std::string out = std::string(ReasonName(edit.reason)) + ": ";
  if (edit.dim) {
    out +=
        "dimension " + std::to_string(*edit.dim) + " " + GroupText(edit.from);
  } else {
    out += SpecText(mode.resolved);
  }
  switch (edit.reason) {
    case Reason::kIndivisible:
      if (edit.parts > 0) {
        out += ", " + std::to_string(edit.size) + " % " +
               std::to_string(edit.parts) + " = " +
               std::to_string(edit.size % edit.parts);
      }
      break;
    case Reason::kMissingAxis:
      out += ", the mesh has no axis `" + edit.axis + "`";
      break;
    case Reason::kRepeatedAxis:
      out += ", `" + edit.axis + "` splits an earlier dimension";
      break;
    case Reason::kTooLong:
      out += ", the parameter has no such dimension";
      break;
    case Reason::kMinSize:
      out += ", fewer elements than min_size";
      break;
    case Reason::kScalar:
      out += ", one element cannot be split";
      break;
  }
  return out;
}

std::string AddedText(const ModeLayout& mode) {
  if (mode.edits.empty() || !mode.bytes_per_device ||
      !mode.uncorrected_bytes_per_device) {
    return "";
  }
  return ", +" +
         BytesText(*mode.bytes_per_device -
                   *mode.uncorrected_bytes_per_device) +
         " for the corrections";
}

void AddMode(std::string& out, const Compiled& c, const ModeLayout& mode,
             int32_t rule) {
  out += "\n" + std::string(ModeName(mode.mode)) + "\n";
  if (mode.spec_rule != rule && mode.spec_rule >= 0) {
    out += "  spec of rule " +
           RuleLabel(c, static_cast<size_t>(mode.spec_rule)) + "\n";
  }
  if (!mode.why.bundle.empty()) {
    out += "  bundle    " + Printable(mode.why.bundle) + "\n";
  }
  for (size_t d = 0; d < mode.why.traces.size(); ++d) {
    for (const NameTrace& trace : mode.why.traces[d]) {
      out += "  dim " + std::to_string(d) + "     " +
             Printable(TraceText(c, trace)) + "\n";
    }
  }
  out += "  resolved  " + SpecText(mode.resolved) + "\n";
  for (const Edit& problem : mode.problems) {
    out += "  illegal   " + EditText(problem, mode) + "\n";
  }
  if (!mode.problems.empty()) return;
  for (const Edit& edit : mode.edits) {
    out += "  corrected " + EditText(edit, mode) + " becomes " +
           (edit.dim ? GroupText(edit.to) : SpecText(mode.spec)) + "\n";
  }
  out += "  spec      " + SpecText(mode.spec) + "\n";
  if (mode.shard_shape) {
    out += "  shard     " + ShapeText(*mode.shard_shape);
    if (mode.bytes_per_device) {
      out += ", " + BytesText(*mode.bytes_per_device) + " per device" +
             AddedText(mode);
    }
    out += "\n";
  }
}

void AddRulesTried(std::string& out, const Compiled& c, size_t param) {
  const size_t tried = Tried(c, param);
  const int32_t rule = LayoutOf(c, param).rule;
  if (tried == 0) {
    out += "\nno rule is tried: a scalar cannot be split\n";
    return;
  }
  out += "\nrules tried, the first match wins\n";
  for (size_t i = 0; i < tried; ++i) {
    const bool wins = static_cast<int32_t>(i) == rule;
    out += wins ? "  match     " : "  no match  ";
    out += RuleLabel(c, i);
    if (wins) out += " in `" + Printable(MatchedPart(c, i, param)) + "`";
    out += "\n";
  }
  std::string later;
  for (uint32_t other : c.matches.Of(param)) {
    if (static_cast<int32_t>(other) <= rule || rule < 0) continue;
    later += (later.empty() ? "[" : ", [") + std::to_string(other) + "]";
  }
  if (!later.empty()) out += "  later rules that match too: " + later + "\n";
  if (rule < 0) {
    if (const auto near = NearestRule(c.rules.rules, c.plan.names[param])) {
      out += "  nearest   " + RuleLabel(c, *near) + "\n";
    }
  }
}

void AppendEdits(std::string& out, std::string_view key,
                 const std::vector<Edit>& edits, const ModeLayout& mode) {
  if (edits.empty()) return;
  out += ", ";
  AppendKey(out, key);
  for (size_t i = 0; i < edits.size(); ++i) {
    out += i == 0 ? "[" : ", ";
    out += "{\"dim\": ";
    out += edits[i].dim ? std::to_string(*edits[i].dim) : "null";
    out += ", \"reason\": ";
    AppendJsonString(out, ReasonName(edits[i].reason));
    out += ", \"text\": ";
    AppendJsonString(out, EditText(edits[i], mode));
    out += '}';
  }
  out += ']';
}

void AppendTraces(std::string& out, const Resolved& why) {
  out += "\"names\": [";
  bool first = true;
  for (size_t d = 0; d < why.traces.size(); ++d) {
    for (const NameTrace& trace : why.traces[d]) {
      if (!first) out += ", ";
      first = false;
      out += "{\"dim\": " + std::to_string(d) + ", \"name\": ";
      AppendJsonString(out, trace.name);
      out += ", \"kind\": ";
      AppendJsonString(out, trace.kind);
      out += ", \"rule\": ";
      AppendJsonString(out, trace.rule);
      out += ", \"axes\": " + GroupText(trace.axes);
      out += ", \"decode_fallback\": ";
      out += trace.decode_fallback ? "true}" : "false}";
    }
  }
  out += "]";
}

}  // namespace

std::string ExplainText(const Compiled& c, size_t param) {
  const ParamLayout& layout = LayoutOf(c, param);
  const TensorType& type = c.plan.types[layout.type];
  std::string out = Printable(c.plan.names[param]) + "\n";
  out += type.shape ? ShapeText(*type.shape) : "shape unknown";
  if (type.dtype) out += " " + std::string(DtypeName(*type.dtype));
  if (const auto bytes = type.Bytes()) out += ", " + BytesText(*bytes);
  out += "\nmesh " + MeshText(c.mesh) + "\n";
  AddRulesTried(out, c, param);
  const auto& coordinate = c.plan.params[param].coordinate;
  if (coordinate) {
    out += "\nplaced where axis `" +
           c.plan.placement_axes[static_cast<size_t>(layout.rule)] +
           "` has coordinate " + std::to_string(*coordinate) + "\n";
  }
  for (const ModeLayout& mode : layout.modes) {
    AddMode(out, c, mode, layout.rule);
  }
  return out;
}

std::string ExplainJson(const Compiled& c, size_t param) {
  const ParamLayout& layout = LayoutOf(c, param);
  const TensorType& type = c.plan.types[layout.type];
  std::string out = "{\n  \"param\": ";
  AppendJsonString(out, c.plan.names[param]);
  out += ",\n  \"shape\": ";
  AppendShape(out, type.shape);
  out += ",\n  \"dtype\": ";
  AppendDtype(out, type.dtype);
  out += ",\n  \"unmatched\": ";
  out += LayoutOf(c, param).unmatched ? "true" : "false";
  out += ",\n  \"rules_tried\": [";
  for (size_t i = 0; i < Tried(c, param); ++i) {
    const bool wins = static_cast<int32_t>(i) == layout.rule;
    out += i == 0 ? "\n    " : ",\n    ";
    out += "{\"rule\": " + std::to_string(i) + ", \"match\": ";
    AppendJsonString(out, c.plan.rules[i].match);
    out += ", \"source\": ";
    AppendJsonString(out, c.plan.rules[i].source);
    out += ", \"matched\": ";
    if (wins) {
      AppendJsonString(out, MatchedPart(c, i, param));
    } else {
      out += "null";
    }
    out += '}';
  }
  out += "\n  ],\n  \"rule\": ";
  out += layout.rule < 0 ? "null" : std::to_string(layout.rule);
  if (const auto& coordinate = c.plan.params[param].coordinate) {
    out += ",\n  \"placement\": {\"axis\": ";
    AppendJsonString(out,
                     c.plan.placement_axes[static_cast<size_t>(layout.rule)]);
    out += ", \"coordinate\": " + std::to_string(*coordinate) + "}";
  }
  out += ",\n  \"modes\": {";
  for (size_t m = 0; m < layout.modes.size(); ++m) {
    const ModeLayout& mode = layout.modes[m];
    out += m == 0 ? "\n    " : ",\n    ";
    AppendKey(out, ModeName(mode.mode));
    out += '{';
    AppendTraces(out, mode.why);
    out += ", \"resolved\": " + SpecText(mode.resolved);
    out += ", \"spec\": ";
    out += mode.problems.empty() ? SpecText(mode.spec) : "null";
    out += ", \"shard_shape\": ";
    AppendShape(out, mode.shard_shape);
    out += ", \"bytes_per_device\": ";
    AppendInteger(out, mode.bytes_per_device);
    AppendEdits(out, "corrections", mode.edits, mode);
    AppendEdits(out, "illegal", mode.problems, mode);
    out += '}';
  }
  out += "\n  }\n}\n";
  return out;
}

}  // namespace shardc
