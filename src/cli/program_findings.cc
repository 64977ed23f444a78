// Finds specs that split what the program keeps together. Only axes of tensor
// parallelism count, since the data axes' shards are gathered before use:
//
//   up [512, 2048], sliced at 1024, over tp 4  ->  SHD230: devices 0 and 1 have
//                                                 the gate, 2 and 3 the rest
//   up over tp and down unsharded, one factor  ->  SHD215: its activation is
//                                                 gathered
#include "cli/program_findings.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lint/rules/all.h"
#include "model/dim_parts.h"
#include "source/index.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

using program::Factor;
using program::FactorList;
using program::FactorRole;
using program::Facts;
using program::ParamFacts;

class ProgramCheck {
 public:
  ProgramCheck(const TracedProgram& traced, const Compiled& compiled,
               const Selection& selection)
      : program_(traced.program),
        facts_(traced.facts),
        compiled_(compiled),
        selection_(selection) {
    constexpr AxisRule kTensor[] = {
        AxisRule::kTensorParallel, AxisRule::kHead, AxisRule::kKvHead,
        AxisRule::kMlpIntermediate, AxisRule::kVocab};
    for (const AxisRule rule : kTensor) {
      for (const std::string& axis : compiled.rules.axes.Value(rule).axes) {
        tensor_.insert(axis);
      }
    }
  }

  FindingSink Run() {
    std::unordered_map<std::string_view, uint32_t> params;
    for (uint32_t i = 0; i < facts_.params.size(); ++i) {
      params.emplace(facts_.params[i].name, i);
    }
    for (size_t i = 0; i < compiled_.plan.params.size(); ++i) {
      const auto at = params.find(compiled_.plan.names[i]);
      if (at == params.end()) continue;
      const ParamLayout& layout =
          compiled_.plan.layouts[compiled_.plan.params[i].layout];
      const ParamFacts& param = facts_.params[at->second];
      if (compiled_.plan.types[layout.type].shape != param.shape) continue;
      for (const ModeLayout& mode : layout.modes) {
        CheckParam(param, static_cast<uint32_t>(i), layout, mode);
      }
    }
    CheckTogether();
    FindingSink out;
    for (auto& [key, one] : found_) out.push_back(std::move(one));
    return out;
  }

 private:
  // A parameter of which a factor leads a dimension.
  struct Led {
    uint32_t param = 0;
    int32_t rule = -1;
    AxisGroup axes;
  };

  AxisGroup TensorAxes(const Spec& spec, size_t d) const {
    AxisGroup out;
    if (d >= spec.size()) return out;
    for (const std::string& axis : spec[d]) {
      if (tensor_.contains(axis) && compiled_.mesh.SizeOf(axis) > 1) {
        out.push_back(axis);
      }
    }
    return out;
  }

  std::string AxesText(const AxisGroup& axes) const {
    std::string out;
    for (const std::string& axis : axes) {
      out += (out.empty() ? "`" : " and `") + axis + "` of size " +
             std::to_string(compiled_.mesh.SizeOf(axis));
    }
    return out;
  }

  // Returns " at model.py:12" for the first line with this use.
  std::string LineOf(const Factor& factor, program::Use use) const {
    for (const program::Evidence& one : factor.evidence) {
      if (one.use == use && one.at.known()) {
        return " at " + program_.LineText(one.at);
      }
    }
    return "";
  }

  void Add(const Lint& lint, uint32_t param, int32_t rule,
           const std::string& subject, std::string message, std::string help) {
    if (!selection_.Selects(lint)) return;
    auto [at, fresh] = found_.try_emplace({lint.code.number, rule, message});
    LintFinding& finding = at->second;
    if (fresh) {
      finding.code = &lint.code;
      finding.level = lint.code.level;
      finding.place = RulePlace(rule);
      finding.message = subject + message;
      finding.help = std::move(help);
    }
    if (std::ranges::find(finding.members, param) == finding.members.end()) {
      finding.members.push_back(param);
    }
  }

  Place RulePlace(int32_t rule) const {
    if (rule < 0) return {compiled_.manifest.source};
    const Rule& written = compiled_.rules.rules[AsIndex(rule)];
    return written.match_place.HasPosition() ? written.match_place
                                             : written.place;
  }

  static std::string Subject(size_t d, std::string_view name) {
    return "dimension " + std::to_string(d) + " of " + ShortQuote(name);
  }

  void CheckParam(const ParamFacts& param, uint32_t number,
                  const ParamLayout& layout, const ModeLayout& mode) {
    const int32_t rule = layout.rule;
    for (size_t d = 0; d < param.dims.size(); ++d) {
      const FactorList& dim = param.dims[d];
      if (dim.empty()) continue;
      const AxisGroup axes = TensorAxes(mode.spec, d);
      const Factor& lead = facts_.factors[dim[0]];
      if (lead.parts.empty()) {
        places_[dim[0]].push_back({number, rule, axes});
      }
      if (axes.empty()) continue;
      const int64_t parts = compiled_.mesh.Parts(axes).value_or(1);
      if (!lead.parts.empty()) {
        if (PartsAt(layout.parts, d) > 1) continue;
        Add(kFusedContiguous, number, rule, Subject(d, param.name),
            " holds " + std::to_string(lead.parts.size()) +
                " parts one after the other, " + facts_.Text(dim) +
                ", which the program separates" +
                LineOf(lead, program::Use::kDivided) + ", and " +
                AxesText(axes) + " shards it in contiguous ranges",
            "leave the dimension unsharded, or store the parts as a dimension "
            "of their own");
        continue;
      }
      const FactorList sharded = facts_.Sharded(dim, parts);
      const bool inside =
          sharded.size() > 1 &&
          facts_.factors[sharded.back()].role == FactorRole::kHeadDim;
      if (sharded.empty() || inside) {
        Add(kHeadSplit, number, rule, Subject(d, param.name),
            " is " + facts_.Text(dim) + ", and " + AxesText(axes) +
                " splits inside of it",
            "use a size that divides " + facts_.Text({dim[0]}));
      }
      for (const uint32_t factor : sharded) {
        const Factor& one = facts_.factors[factor];
        if (LineOf(one, program::Use::kOpaque).empty()) continue;
        Add(kClashMovesActivation, number, rule, Subject(d, param.name),
            " is sharded over " + AxesText(axes) +
                ", and an op that is not known reads it" +
                LineOf(one, program::Use::kOpaque) +
                ", so that its operand is gathered",
            "leave it unsharded, or run the op in `jax.shard_map`");
      }
    }
  }

  // Reports parameters that have a factor in common of which only some are
  // sharded over an axis.
  void CheckTogether() {
    for (const auto& [index, places] : places_) {
      const Factor& factor = facts_.factors[index];
      const bool heads = factor.role == FactorRole::kHeads ||
                         factor.role == FactorRole::kKvHeads;
      if (!heads && factor.role != FactorRole::kInner) continue;
      const Led* sharded = nullptr;
      for (const Led& one : places) {
        if (!one.axes.empty()) sharded = &one;
      }
      if (sharded == nullptr) continue;
      for (const Led& one : places) {
        if (one.axes == sharded->axes) continue;
        Add(heads ? kAttentionReshard : kMlpReshard, one.param, one.rule,
            ShortQuote(compiled_.plan.names[one.param]),
            " is not sharded over " + AxesText(sharded->axes) + " as " +
                ShortQuote(compiled_.plan.names[sharded->param]) +
                " is, but both have " + facts_.Text({index}) +
                ", which a dot contracts" +
                LineOf(factor, program::Use::kContracted),
            "shard both over the same axis");
      }
    }
  }

  const program::Program& program_;
  const Facts& facts_;
  const Compiled& compiled_;
  const Selection& selection_;
  std::set<std::string, std::less<>> tensor_;
  // Keyed by the index of the factor.
  std::map<uint32_t, std::vector<Led>> places_;
  // Keyed by code, rule, and the message without the parameter's name.
  std::map<std::tuple<int, int32_t, std::string>, LintFinding> found_;
};

}  // namespace

FindingSink ProgramFindings(const TracedProgram& traced,
                            const Compiled& compiled,
                            const Selection& selection) {
  return ProgramCheck(traced, compiled, selection).Run();
}

}  // namespace shardc::cli
