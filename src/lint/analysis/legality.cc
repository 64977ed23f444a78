// Reports the problems that legalization found in specs, for several lints. If
// the policy did not correct the spec, the finding has the code's level. If the
// policy corrected it, the finding is at most a warning, and its message states
// the cost of the correction. A problem that occurs in several modes is
// reported once. The entries that a spec has beyond the rank are one problem.
//
//   50257 columns over tp 4, policy shrink  ->  "...; the policy makes it null,
//   13.8 MiB more per device and parameter"
#include "lint/analysis/legality.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lint/analysis/phrase.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Returns a text with the bytes that all corrections of a spec together add to
// a device. They are more than the sum over the corrections: if tp:4 and fsdp:2
// are both removed, a device holds 8 times as much, but one removal alone makes
// it 4 or 2 times as much. `corrected` is the number of the corrections that
// the finding is about.
std::string CostText(const ModeLayout& mode, size_t corrected) {
  if (!mode.bytes_per_device || !mode.uncorrected_bytes_per_device) return {};
  const int64_t added =
      *mode.bytes_per_device - *mode.uncorrected_bytes_per_device;
  if (added <= 0) return {};
  return ", " + BytesText(added) + " more per device and parameter" +
         (mode.edits.size() > corrected
              ? ", the spec's other corrections included"
              : "");
}

// Returns the edits that have this reason. An edit states what legalization
// found wrong in a spec. Each list of the result is reported as one problem.
// The edits of all entries beyond the tensor's rank are in one list, and any
// other edit has its own list.
std::vector<std::vector<Edit>> ProblemsOf(const std::vector<Edit>& edits,
                                          Reason reason) {
  std::vector<std::vector<Edit>> out;
  for (const Edit& edit : edits) {
    if (edit.reason != reason) continue;
    if (out.empty() || reason != Reason::kTooLong) out.emplace_back();
    out.back().push_back(edit);
  }
  return out;
}

}  // namespace

void ReportEdits(
    const Facts& facts, const Code& code, Reason reason,
    const std::function<std::string(const ParameterGroup&, const ModeLayout&,
                                    const Edit&)>& observe,
    const std::string& help, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    // The problems that have been reported, keyed by their first dimension.
    std::map<std::optional<int>, std::vector<std::vector<Edit>>> by_dim;
    const auto say = [&](const ModeLayout& mode,
                         const std::vector<Edit>& problem, bool illegal) {
      const Edit& edit = problem.front();
      auto& reported = by_dim[edit.dim];
      if (IsAmong(problem, reported)) {
        return;
      }
      reported.push_back(problem);
      std::string message = observe(group, mode, edit);
      if (mode.mode != Mode::kTrain) {
        message += " (in " + std::string(ModeName(mode.mode)) + ")";
      }
      if (!illegal) {
        message += "; the policy makes " +
                   std::string(problem.size() > 1 ? "them " : "it ") +
                   GroupText(edit.to) + CostText(mode, problem.size());
      }
      LintFinding finding =
          GroupFinding(facts, code, group, std::move(message), help);
      // The correction explains why the parameter is replicated. Other findings
      // which only report that it is replicated are then redundant.
      if (!illegal && facts.Replicated(group)) {
        finding.reports.push_back(ReplicatedTopic(facts.Example(group)));
      }
      if (!illegal && finding.level == Level::kError) {
        finding.level = Level::kWarning;
      }
      sink.push_back(std::move(finding));
    };
    for (const ModeLayout& mode : facts.LayoutOf(group).modes) {
      for (const auto& one : ProblemsOf(mode.problems, reason)) {
        say(mode, one, true);
      }
      for (const auto& one : ProblemsOf(mode.edits, reason)) {
        say(mode, one, false);
      }
    }
  }
}

// Groups illegal specs of attention tensors by their cause. A wrong axis rule
// affects several tensors and modes. All of these are reported as one finding
// at the line of the axis rule. In this example, the mesh has no axis `spp`:
//
//   axes: {key_sequence: spp}
//     key, value, kv_segment_ids in four modes -> one finding, at `spp`

namespace {

// A problem in the spec of an attention tensor, such as an axis that the mesh
// lacks. `illegal` is false if the policy of the rules file corrected the spec.
// Equal problems of several tensors and modes become one finding.
struct Reported {
  Edit edit;
  bool illegal = false;
  Place place;
  // If no file sets the axis rules that cause the problem, a text for the
  // message about their default values (DefaultsText). Otherwise empty.
  std::string defaults;
  std::string_view owner;  // The text before the names of the tensors.
  std::vector<std::string> tensors;
  std::vector<Mode> modes;

  bool Covers(const Edit& other, bool is_illegal, const Place& at) const {
    return edit.axis == other.axis && edit.to == other.to &&
           illegal == is_illegal && place.source == at.source &&
           place.begin == at.begin;
  }
};

// Returns the place in the section `register:` of a rules file that defines a
// logical axis. The place has no position if no file defines it.
Place RegisteredPlace(const Facts& facts, const std::string& name) {
  for (const Registration& one : facts.compiled().rules.registrations) {
    if (one.name == name || "__" + one.name + "__" == name ||
        one.name == "__" + name + "__") {
      return one.place;
    }
  }
  return {};
}

// Returns the line of a rules file that determines the mesh axes of a name.
// This is the line in the section `register:` that defines the name, or else
// the line that sets its axis rule. If no file sets that rule, its default
// comes from another rule, whose line is returned: `tensor_parallel` for
// `head`. The default of `batch` comes from `fully_sharded_data_parallel` and
// `data_parallel`, of which the first that a file sets is used. If no file sets
// any of these rules, the place has no position.
Place WrittenPlace(const Facts& facts, const NameTrace& trace) {
  const Place registered = RegisteredPlace(facts, trace.name);
  if (registered.HasPosition()) return registered;
  const auto& places = facts.compiled().rules.axes_places;
  std::vector<AxisRule> rules;
  for (auto rule = ParseAxisRule(trace.rule); rule; rule = DerivedFrom(*rule)) {
    rules.push_back(*rule);
  }
  if (!rules.empty() && rules.back() == AxisRule::kBatch) {
    rules.push_back(AxisRule::kFullyShardedDataParallel);
    rules.push_back(AxisRule::kDataParallel);
  }
  for (AxisRule rule : rules) {
    const Place& written = places[static_cast<size_t>(rule)];
    if (written.HasPosition()) return written;
  }
  return {};
}

Place WrittenPlace(const Facts& facts, const ActivationLayout& layout,
                   size_t dim) {
  if (dim >= layout.why.traces.size()) return {};
  for (const NameTrace& trace : layout.why.traces[dim]) {
    const Place written = WrittenPlace(facts, trace);
    if (written.HasPosition()) return written;
  }
  return {};
}

// Returns the dimensions that an edit concerns. An edit is a problem that
// legalization found in a spec. It concerns the dimension with the problem and,
// for a repeated axis, all other dimensions with this axis.
std::vector<size_t> DimensionsOf(const ActivationLayout& layout,
                                 const Edit& edit) {
  std::vector<size_t> dims = {static_cast<size_t>(*edit.dim)};
  if (edit.reason != Reason::kRepeatedAxis) return dims;
  const Spec& spec = layout.why.spec;
  for (size_t i = 0; i < spec.size(); ++i) {
    const AxisGroup& group = spec[i];
    if (i != dims[0] && IsAmong(edit.axis, group)) {
      dims.push_back(i);
    }
  }
  return dims;
}

// Returns a text that names the axis rules which caused a problem of a spec,
// such as " (defaults of the axis rules `batch` and `head`)". The message has
// this text if no file sets these rules. Returns an empty text if no axis rule
// caused the problem.
std::string DefaultsText(const ActivationLayout& layout, const Edit& edit) {
  std::vector<std::string> rules;
  for (size_t dim : DimensionsOf(layout, edit)) {
    for (const NameTrace& trace : layout.why.traces[dim]) {
      if (!trace.rule.empty()) AddOnce(rules, Quoted(trace.rule));
    }
  }
  return rules.empty()
             ? ""
             : " (defaults of the axis rules " + ListText(rules, 4) + ")";
}

}  // namespace

bool Written(const Facts& facts, const NameTrace& trace) {
  if (RegisteredPlace(facts, trace.name).HasPosition()) return true;
  const auto parallelism = ParallelismRules();
  for (auto rule = ParseAxisRule(trace.rule); rule; rule = DerivedFrom(*rule)) {
    if (IsAmong(*rule, parallelism)) {
      return false;
    }
    if (facts.compiled().rules.axes.Given(*rule)) return true;
  }
  return false;
}

bool Written(const Facts& facts, Mode mode, std::string_view tensor,
             size_t dim) {
  for (const ModeActivations& attention : facts.plan().attention) {
    if (attention.mode != mode) continue;
    for (const ActivationLayout& layout : attention.tensors) {
      if (layout.tensor != tensor || dim >= layout.why.traces.size()) continue;
      const auto& traces = layout.why.traces[dim];
      if (std::any_of(traces.begin(), traces.end(),
                      [&](const NameTrace& t) { return Written(facts, t); })) {
        return true;
      }
    }
  }
  return false;
}

Place AttentionPlace(const Facts& facts, Mode mode, std::string_view tensor,
                     size_t dim, Place otherwise) {
  for (const ModeActivations& attention : facts.plan().attention) {
    if (attention.mode != mode) continue;
    for (const ActivationLayout& layout : attention.tensors) {
      if (layout.tensor != tensor || dim >= layout.why.traces.size()) continue;
      const Place written = WrittenPlace(facts, layout, dim);
      if (written.HasPosition()) return written;
    }
  }
  return otherwise;
}

std::string ModesText(std::span<const Mode> modes) {
  return ListInWords(modes, ModeName);
}

std::vector<ModeSplit> SplitsOf(const Facts& facts, std::string_view tensor,
                                AttentionDim dim, const Place& otherwise) {
  std::vector<ModeSplit> out;
  for (Mode mode : facts.plan().modes) {
    ModeSplit split;
    split.axes = AttentionAxes(facts, mode, tensor, dim);
    split.parts = facts.mesh().Parts(split.axes).value_or(1);
    if (split.parts <= 1) continue;
    split.place = AttentionPlace(facts, mode, tensor, dim, otherwise);
    auto at = std::find_if(out.begin(), out.end(), [&](const ModeSplit& one) {
      return one.axes == split.axes && one.place.source == split.place.source &&
             one.place.begin == split.place.begin;
    });
    if (at == out.end()) at = out.insert(at, std::move(split));
    at->modes.push_back(mode);
  }
  return out;
}

std::string ModesText(const Facts& facts, const ModeSplit& split) {
  const size_t planned = facts.plan().modes.size();
  return planned > 1 && split.modes.size() == planned ? "every mode"
                                                      : ModesText(split.modes);
}

std::string SourceOf(const Facts& facts, const ModeSplit& split,
                     std::string_view tensor, AttentionDim dim,
                     AxisRule standard) {
  const auto parallelism = ParallelismRules();
  for (const ModeActivations& attention : facts.plan().attention) {
    if (attention.mode != split.modes.front()) continue;
    for (const ActivationLayout& layout : attention.tensors) {
      if (layout.tensor != tensor || dim >= layout.why.traces.size()) continue;
      for (const NameTrace& trace : layout.why.traces[dim]) {
        if (RegisteredPlace(facts, trace.name).HasPosition()) {
          return "this registration";
        }
        for (auto rule = ParseAxisRule(trace.rule); rule;
             rule = DerivedFrom(*rule)) {
          if (IsAmong(*rule, parallelism)) {
            break;
          }
          if (facts.compiled().rules.axes.Given(*rule)) {
            return Quoted(AxisRuleName(*rule));
          }
        }
      }
    }
  }
  return Quoted(AxisRuleName(standard));
}

void ReportAttentionEdits(
    const Facts& facts, const Code& code, Reason reason,
    const std::function<std::string(const std::string&, const Edit&)>& observe,
    const std::string& help, FindingSink& sink) {
  std::vector<Reported> all;
  const auto take = [&](Mode mode, const ActivationLayout& layout,
                        const Edit& edit, bool illegal,
                        std::string_view owner) {
    if (edit.reason != reason) return;
    Place place = layout.place;
    for (size_t dim : DimensionsOf(layout, edit)) {
      if (!place.HasPosition()) place = WrittenPlace(facts, layout, dim);
    }
    std::string defaults;
    if (!place.HasPosition()) {
      place = facts.MeshPlace();
      defaults = DefaultsText(layout, edit);
    }
    auto at =
        std::find_if(all.begin(), all.end(), [&](const Reported& reported) {
          return reported.Covers(edit, illegal, place);
        });
    if (at == all.end()) {
      at = all.insert(
          at, {edit, illegal, place, std::move(defaults), owner, {}, {}});
    }
    AddOnce(at->tensors, Quoted(layout.tensor));
    AddOnce(at->modes, mode);
  };
  const auto take_all = [&](Mode mode, const ActivationLayout& layout,
                            std::string_view owner) {
    for (const Edit& edit : layout.problems) {
      take(mode, layout, edit, true, owner);
    }
    for (const Edit& edit : layout.edits) {
      take(mode, layout, edit, false, owner);
    }
  };
  for (const ModeActivations& attention : facts.plan().attention) {
    for (const ActivationLayout& layout : attention.tensors) {
      take_all(attention.mode, layout, "attention's ");
    }
  }
  for (const ModeActivations& one : facts.plan().activations) {
    for (const ActivationLayout& layout : one.tensors) {
      if (layout.IsStated()) take_all(one.mode, layout, "activation ");
    }
  }
  for (const Reported& reported : all) {
    Finding finding;
    finding.code = &code;
    finding.level = reported.illegal ? code.level : Level::kWarning;
    finding.place = reported.place;
    finding.message =
        observe(std::string(reported.owner) + ListText(reported.tensors, 4),
                reported.edit) +
        " (in " + ModesText(reported.modes) + ")" + reported.defaults;
    if (!reported.illegal) {
      finding.message += "; the policy makes it " + GroupText(reported.edit.to);
    }
    finding.help = help;
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
