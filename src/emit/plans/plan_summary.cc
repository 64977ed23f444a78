// Prints the summary of a plan: totals, the largest replicated parameters, how
// many parameters each rule is the first to match, corrections, and unmatched
// parameters. Corrections that differ only in the parameter share a line, which
// begins with the number of these parameters and ends with one of them. For
// example, one parameter has a dimension that tp does not divide:
//
//   1  indivisible: dimension 0 "tp" to null in train, +13.8 MiB per device,
//      such as lm_head.weight
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emit/emit.h"
#include "emit/plans/explain.h"
#include "emit/plans/rules_file.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "plan/compile.h"
#include "plan/nearest.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr size_t kLargest = 5;
constexpr size_t kListed = 10;

std::string BytesOrUnknown(const std::optional<int64_t>& bytes) {
  return bytes ? BytesText(*bytes) : "unknown";
}

void AddTotals(std::string& out, const Plan& plan) {
  const PlanSummary& summary = plan.summary;
  out += "mesh        " + MeshText(plan.mesh) + " (" +
         Counted(plan.mesh.devices, "device") + ")\n";
  out += "parameters  " + CountText(summary.params);
  if (summary.elements) {
    out += " (" + CountText(*summary.elements) + " elements)";
  }
  out += "\nbytes       " + BytesOrUnknown(summary.bytes) + " in total, " +
         BytesOrUnknown(summary.bytes_per_device) + " per device";
  if (summary.bytes && summary.bytes_per_device && *summary.bytes > 0 &&
      plan.mesh.devices > 0) {
    // The ratio is rounded to tenths and written as two integers. A formatted
    // double would depend on the locale, which may write `1,5` for 1.5.
    const double share = 1000.0 * static_cast<double>(plan.mesh.devices) *
                         static_cast<double>(*summary.bytes_per_device) /
                         static_cast<double>(*summary.bytes);
    const auto tenths = std::llround(share / 100.0);
    out += " (" + std::to_string(tenths / 10) + "." +
           std::to_string(tenths % 10) + " times the fully sharded size)";
  }
  out += '\n';
}

// Parameters that share a line.
struct ParamGroup {
  size_t first = 0;  // index in Plan::params of the group's first member
  int64_t params = 0;
  int64_t bytes = 0;  // bytes of the group on each device
};

void AddReplicated(std::string& out, const Plan& plan, char separator) {
  // Parameters that have the same shape and whose names differ only in numbers.
  // The key is the name with `*` for numbers, and the shape: `layers.*.w [8]`.
  std::map<std::string, ParamGroup> groups;
  std::vector<std::string> shapes(plan.layouts.size());  // indexed by layout
  int64_t count = 0;
  std::string key;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const ParamLayout& layout = plan.layouts[plan.params[i].layout];
    if (plan.params[i].IsPlaced()) continue;
    const auto& bytes = layout.modes[0].bytes_per_device;
    if (!IsReplicated(layout.modes[0].spec) || !bytes) continue;
    ++count;
    std::string& shape = shapes[plan.params[i].layout];
    if (shape.empty()) shape = ShapeText(*plan.types[layout.type].shape);
    key.clear();
    AppendTemplate(plan.names[i], separator, key);
    key.append(" ").append(shape);
    ParamGroup& group = groups[key];
    if (group.params == 0) group.first = i;
    ++group.params;
    group.bytes = CheckedAdd(group.bytes, *bytes).value_or(INT64_MAX);
  }
  if (count == 0) return;
  std::vector<std::pair<std::string_view, ParamGroup>> largest(groups.begin(),
                                                               groups.end());
  std::sort(largest.begin(), largest.end(), [](const auto& a, const auto& b) {
    return a.second.bytes != b.second.bytes ? a.second.bytes > b.second.bytes
                                            : a.second.first < b.second.first;
  });
  out +=
      "\nlargest replicated parameters (" + CountText(count) + " in total)\n";
  largest.resize(std::min(kLargest, largest.size()));
  for (const auto& [name, group] : largest) {
    const std::string shown = group.params > 1
                                  ? std::string(name)
                                  : std::string(plan.names[group.first]) + " " +
                                        shapes[plan.params[group.first].layout];
    out += PadLeft(BytesText(group.bytes), 12) + "  " + Printable(shown);
    if (group.params > 1) out += ", " + CountText(group.params) + " of them";
    out += "\n";
  }
}

void AddRules(std::string& out, const Plan& plan) {
  out += "\nrules\n";
  for (size_t i = 0; i < plan.rules.size(); ++i) {
    out += PadLeft(CountText(plan.rules[i].params), 10) + "  [" +
           std::to_string(i) + "] " + Printable(plan.rules[i].match) + "  (" +
           Printable(plan.rules[i].source) + ")\n";
  }
}

// Appends a line for each correction. Equal corrections of several parameters
// share a line.
void AddCorrections(std::string& out, const Plan& plan) {
  struct Group {
    int64_t params = 0;
    int64_t bytes = 0;
    std::string example;
  };
  std::map<std::string, Group> groups;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const ParamLayout& layout = plan.layouts[plan.params[i].layout];
    for (const ModeLayout& mode : layout.modes) {
      for (size_t e = 0; e < mode.edits.size(); ++e) {
        const Edit& edit = mode.edits[e];
        std::string key = std::string(ReasonName(edit.reason)) + ": ";
        key += edit.dim ? "dimension " + std::to_string(*edit.dim) + " " +
                              GroupText(edit.from) + " to " + GroupText(edit.to)
                        : SpecText(mode.resolved) + " to []";
        key += " in " + std::string(ModeName(mode.mode));
        Group& group = groups[key];
        if (group.params++ == 0) group.example = plan.names[i];
        const bool last = e + 1 == mode.edits.size();
        if (last && mode.bytes_per_device &&
            mode.uncorrected_bytes_per_device) {
          group.bytes +=
              *mode.bytes_per_device - *mode.uncorrected_bytes_per_device;
        }
      }
    }
  }
  if (groups.empty()) return;
  out += "\ncorrections\n";
  for (const auto& [key, group] : groups) {
    out += PadLeft(CountText(group.params), 10) + "  " + Printable(key) +
           ", +" + BytesText(group.bytes) + " per device, such as " +
           Printable(group.example) + "\n";
  }
}

// A line of uneven shards, and the bytes by which the largest shard of each of
// its parameters exceeds an equal share.
struct UnevenLine {
  std::string text;
  int64_t bytes = 0;
};

// Returns the lines of a layout with uneven shards. Modes with the same shards
// share a line.
std::vector<UnevenLine> UnevenLinesOf(const Plan& plan,
                                      const ParamLayout& layout) {
  const Shape& shape = *plan.types[layout.type].shape;
  std::vector<UnevenLine> out;
  std::string last;
  for (const ModeLayout& mode : layout.modes) {
    if (!mode.shard_shape) continue;
    std::string text;
    for (const size_t d : UnevenDims(plan.mesh, shape, mode.spec)) {
      text += (text.empty() ? "dimension " : ", dimension ") +
              std::to_string(d) + " is " +
              UnevenText(plan.mesh, mode.spec[d], shape[d]);
    }
    if (text.empty()) continue;
    const std::string name(ModeName(mode.mode));
    if (text == last) {
      out.back().text += ", " + name;
      continue;
    }
    UnevenLine& line = out.emplace_back();
    line.text = text + " in " + name;
    last = std::move(text);
    if (mode.edits.empty() && mode.bytes_per_device &&
        mode.uncorrected_bytes_per_device) {
      line.bytes = *mode.bytes_per_device - *mode.uncorrected_bytes_per_device;
    }
  }
  return out;
}

// Appends a line for each way in which shards are uneven (`illegal: pad`), with
// the number of parameters and one of them.
void AddUneven(std::string& out, const Plan& plan) {
  std::map<std::string, ParamGroup> groups;
  std::vector<std::vector<UnevenLine>> lines(plan.layouts.size());
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const uint32_t layout = plan.params[i].layout;
    if (!plan.layouts[layout].uneven) continue;
    if (lines[layout].empty()) {
      lines[layout] = UnevenLinesOf(plan, plan.layouts[layout]);
    }
    for (const UnevenLine& line : lines[layout]) {
      ParamGroup& group = groups[line.text];
      if (group.params == 0) group.first = i;
      ++group.params;
      group.bytes = CheckedAdd(group.bytes, line.bytes).value_or(INT64_MAX);
    }
  }
  if (groups.empty()) return;
  out += "\nuneven shards\n";
  for (const auto& [text, group] : groups) {
    out += PadLeft(CountText(group.params), 10) + "  " + Printable(text) +
           ", +" + BytesText(group.bytes) + " per device, such as " +
           Printable(plan.names[group.first]) + "\n";
  }
}

// Appends a line for each number of KV heads that are replicated over the same
// axes in train.
void AddKvReplicas(std::string& out, const Plan& plan) {
  std::map<std::pair<std::string, int64_t>, std::pair<int64_t, int64_t>> found;
  for (const PlannedParam& param : plan.params) {
    const auto& kv = plan.layouts[param.layout].modes[0].kv;
    if (!kv) continue;
    auto& [params, devices] = found[{GroupText(kv->axes), kv->heads}];
    ++params;
    devices = plan.mesh.Parts(kv->axes).value_or(1);
  }
  if (found.empty()) return;
  out += "\nreplicated KV heads\n";
  for (const auto& [key, of] : found) {
    out += PadLeft(CountText(of.first), 10) + "  " +
           Counted(key.second, "head") + " over " + key.first + " of " +
           CountText(of.second) + ", each on " +
           Counted(of.second / key.second, "device") + "\n";
  }
}

void AddUnmatched(std::string& out, const Compiled& compiled) {
  const Plan& plan = compiled.plan;
  if (plan.summary.unmatched == 0) return;
  const std::vector<Rule>& rules = compiled.rules.rules;
  const NearestRules nearest(rules, compiled.matches,
                             compiled.manifest.separator);
  out += "\nunmatched (" + CountText(plan.summary.unmatched) + ")\n";
  size_t listed = 0;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    if (!plan.layouts[plan.params[i].layout].unmatched) continue;
    if (listed++ == kListed) {
      out += "            and " +
             CountText(plan.summary.unmatched - static_cast<int64_t>(kListed)) +
             " more\n";
      break;
    }
    out += "            " + Printable(plan.names[i]);
    if (const auto near = nearest.Of(plan.names[i])) {
      out += "  (nearest: [" + std::to_string(near->rule) + "] " +
             Printable(rules[AsIndex(near->rule)].match) + ")";
    }
    out += '\n';
  }
}

}  // namespace

std::string PlanSummaryText(const Compiled& compiled) {
  const Plan& plan = compiled.plan;
  std::string out;
  AddTotals(out, plan);
  for (const std::string& line : InferredSeparators(compiled.rules)) {
    out += "separator   " + Printable(line) + "\n";
  }
  for (const std::string& note : compiled.manifest.notes) {
    out += "note        " + Printable(note) + "\n";
  }
  AddReplicated(out, plan, compiled.manifest.separator);
  AddRules(out, plan);
  AddKvReplicas(out, plan);
  AddCorrections(out, plan);
  AddUneven(out, plan);
  AddUnmatched(out, compiled);
  return out;
}

}  // namespace shardc
