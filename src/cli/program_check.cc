// Finds specs that a traced program contradicts: those that split what the
// program keeps together, and those that its ops cannot use. Only axes of
// tensor parallelism count, since the data axes' shards are gathered before
// use:
//
//   up [512, 2048], sliced at 1024, over tp 4  ->  SHD230: devices 0 and 1 have
//                                                 the gate, 2 and 3 the rest
//   up over tp and down unsharded, one factor  ->  SHD215: its activation is
//                                                 gathered
//   x sharded over tp on a dimension that a    ->  SHD237: up is resharded, and
//   dot contracts, up over tp on the other        less is sent if it is sharded
//                                                 as x is
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cli/compared_program.h"
#include "cli/program_plan.h"
#include "cost/traced_program.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/traced.h"
#include "lint/rules/all.h"
#include "model/legal_sizes.h"
#include "model/name.h"
#include "program/read.h"
#include "program/sharding.h"
#include "program/ties.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

// The most changes of weights whose cost is computed.
constexpr size_t kMostChanges = 16;

using program::Factor;
using program::FactorList;
using program::FactorRole;
using program::Facts;
using program::ParamFacts;

class ProgramCheck {
 public:
  ProgramCheck(const program::TracedProgram& traced, const shardc::Facts& facts,
               const Selection& selection)
      : program_(traced.program),
        facts_(traced.facts),
        compiled_(facts.compiled()),
        selection_(selection) {
    for (const MeshAxis& axis : facts.mesh().axes) {
      if (!facts.TensorAxes({axis.name}).empty()) tensor_.insert(axis.name);
    }
  }

  FindingSink Run() {
    const Plan& plan = compiled_.plan;
    const auto params = ParamsOfPlan(facts_, plan);
    for (size_t i = 0; i < params.size(); ++i) {
      numbers_.emplace(plan.names[i], static_cast<uint32_t>(i));
      if (params[i] == nullptr) continue;
      const ParamLayout& layout = plan.layouts[plan.params[i].layout];
      for (const ModeLayout& mode : layout.modes) {
        CheckParam(*params[i], static_cast<uint32_t>(i), layout, mode);
      }
    }
    CheckTogether();
    CheckOps();
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

  // Returns whether a rule with these parts of a dimension divides the parts
  // that the dimension's first factor has. Stated sizes must be theirs.
  bool DividesParts(const PartsOfDim& stated, const FactorList& dim) const {
    if (stated.sizes.empty()) return stated.several();
    const int64_t inner = facts_.SizeOf({dim.begin() + 1, dim.end()});
    return std::ranges::equal(stated.sizes, facts_.factors[dim[0]].parts,
                              [&](int64_t size, const FactorList& part) {
                                return size == facts_.SizeOf(part) * inner;
                              });
  }

  // Returns " at model.py:12" for the first line with this use.
  std::string LineOf(const Factor& factor, program::Use use) const {
    for (const program::Evidence& one : factor.evidence) {
      if (one.use == use && one.at.known()) {
        return LineText(one.at);
      }
    }
    return "";
  }

  // Adds a finding about a parameter. Its message begins with `before` and the
  // name; parameters of several layers are members of one finding.
  void Add(const Lint& lint, uint32_t param, int32_t rule,
           const std::string& before, const std::string& message,
           std::string help) {
    LintFinding* const finding =
        Add(lint, param, rule, TemplateOf(param) + message, std::move(help));
    if (finding == nullptr) return;
    const auto count = std::ssize(finding->members);
    finding->subject = count == 1 ? ShortQuote(compiled_.plan.names[param])
                                  : TemplateOf(param) + " (" +
                                        Counted(count, "parameter") + ")";
    finding->message = before + finding->subject + message;
  }

  LintFinding* Add(const Lint& lint, std::optional<uint32_t> param,
                   int32_t rule, const std::string& message, std::string help) {
    if (!selection_.Selects(lint)) return nullptr;
    auto [at, fresh] = found_.try_emplace({lint.code.number, rule, message});
    LintFinding& finding = at->second;
    if (fresh) {
      finding.code = &lint.code;
      finding.level = lint.code.level;
      finding.place = RulePlace(rule);
      finding.message = message;
      finding.help = std::move(help);
    }
    if (param &&
        std::ranges::find(finding.members, *param) == finding.members.end()) {
      finding.members.push_back(*param);
    }
    return &finding;
  }

  // Returns the name with `*` for the numbers of layers.
  std::string TemplateOf(uint32_t param) const {
    return ShortQuote(NameTemplate(compiled_.plan.names[param],
                                   compiled_.manifest.separator));
  }

  Place RulePlace(int32_t rule) const {
    if (rule < 0) return {compiled_.manifest.source};
    const Rule& written = compiled_.rules.rules[AsIndex(rule)];
    return written.match_place.HasPosition() ? written.match_place
                                             : written.place;
  }

  static std::string DimensionOf(size_t d) {
    return "dimension " + std::to_string(d) + " of ";
  }

  void CheckParam(const ParamFacts& param, uint32_t number,
                  const ParamLayout& layout, const ModeLayout& mode) {
    const int32_t rule = layout.rule;
    for (size_t d = 0; d < param.dims.size(); ++d) {
      const FactorList& dim = param.dims[d];
      if (dim.empty()) continue;
      const Factor& lead = facts_.factors[dim[0]];
      if (lead.role == FactorRole::kLayers) {
        CheckLayers(param, number, rule, mode.spec, d);
        continue;
      }
      const AxisGroup axes = TensorAxes(mode.spec, d);
      if (lead.parts.empty()) {
        places_[dim[0]].push_back({number, rule, axes});
      }
      if (axes.empty()) continue;
      const int64_t parts = compiled_.mesh.Parts(axes).value_or(1);
      if (!lead.parts.empty()) {
        if (DividesParts(PartsAt(layout.parts, d), dim)) continue;
        Add(kFusedContiguous, number, rule, DimensionOf(d),
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
        Add(kHeadSplit, number, rule, DimensionOf(d),
            " is " + facts_.Text(dim) + ", and " + AxesText(axes) +
                " splits inside of it",
            "use a size that divides " + facts_.Text({dim[0]}));
      }
      for (const uint32_t factor : sharded) {
        const Factor& one = facts_.factors[factor];
        if (LineOf(one, program::Use::kOpaque).empty()) continue;
        Add(kClashMovesActivation, number, rule, DimensionOf(d),
            " is sharded over " + AxesText(axes) +
                ", and an op that is not known reads it" +
                LineOf(one, program::Use::kOpaque) +
                ", so that its operand is gathered",
            "leave it unsharded, or run the op in `jax.shard_map`");
      }
    }
  }

  // Every axis of a dimension that a loop runs over is gathered, but that of
  // pipeline stages.
  void CheckLayers(const ParamFacts& param, uint32_t number, int32_t rule,
                   const Spec& spec, size_t d) {
    AxisGroup axes = d < spec.size() ? spec[d] : AxisGroup();
    std::erase_if(axes, [&](const std::string& axis) {
      return axis == compiled_.stage_axis || IsPipelineAxis(axis) ||
             compiled_.mesh.SizeOf(axis) <= 1;
    });
    if (axes.empty()) return;
    Add(kLayersSplit, number, rule, DimensionOf(d),
        " counts " + facts_.Text(param.dims[d]) + ", which a loop runs over" +
            LineOf(facts_.factors[param.dims[d][0]], program::Use::kScanned) +
            ", and is sharded over " + AxesText(axes) +
            ": every turn of the loop gathers its layer",
        "leave the layer dimension unsharded, and shard another one");
  }

  // Reports parameters that have a factor in common of which only some are
  // sharded over an axis.
  void CheckTogether() {
    for (const auto& [index, places] : places_) {
      const Factor& factor = facts_.factors[index];
      const bool heads = program::CountsHeads(factor.role);
      if (!heads && factor.role != FactorRole::kInner) continue;
      const Led* sharded = nullptr;
      for (const Led& one : places) {
        if (!one.axes.empty()) sharded = &one;
      }
      if (sharded == nullptr) continue;
      for (const Led& one : places) {
        if (one.axes == sharded->axes) continue;
        Add(heads ? kAttentionReshard : kMlpReshard, one.param, one.rule, "",
            " is not sharded over " + AxesText(sharded->axes) + " as " +
                TemplateOf(sharded->param) + " is, but both have " +
                facts_.Text({index}) + ", which a dot contracts" +
                LineOf(factor, program::Use::kContracted),
            "shard both over the same axis");
      }
    }
  }

  // Weights of one rule that an axis shards on another dimension than their
  // activations. The axis and the dimension of the weights that the activations
  // have are in the key.
  struct Clash {
    std::set<uint32_t> inputs;        // numbers of the program's inputs
    const program::Op* op = nullptr;  // the first one
    program::ValueId activation = 0;
    int64_t ops = 0;
  };
  using Clashes = std::map<std::tuple<int32_t, std::string, size_t>, Clash>;

  // Reports the dots of a program of JAX of which an axis shards two
  // dimensions, and whose results no constraint fixes.
  void CheckUnfixed(const program::Ties& ties,
                    const program::Sharding& sharding) {
    if (program_.IsOfTorch()) return;
    std::set<program::ValueId> fixed;
    for (const program::Op* const op : ties.ops) {
      if (op->kind == program::OpKind::kConstraint) fixed.insert(op->in[0]);
    }
    const program::Op* first = nullptr;
    AxisGroup axes;
    int64_t dots = 0;
    for (const program::Op* const op : ties.ops) {
      const auto at = sharding.ops.find(op);
      if (op->phase != program::Phase::kForward ||
          op->kind != program::OpKind::kDot || at == sharding.ops.end() ||
          fixed.contains(op->out[0])) {
        continue;
      }
      const auto clash = std::ranges::find_if(
          at->second.gathered,
          [](const program::Gathered& one) { return !one.needed; });
      if (clash == at->second.gathered.end()) continue;
      if (++dots > 1) continue;
      first = op;
      axes = clash->axes;
    }
    if (first == nullptr) return;
    Add(kConstraintMissing, std::nullopt, -1,
        AxesText(axes) +
            " shards different dimensions of the operands of a dot" +
            LineText(first->at) +
            ", and no constraint fixes how its result is sharded" +
            (dots > 1 ? ", nor those of " + Counted(dots - 1, "more dot")
                      : "") +
            ": XLA chooses what is gathered",
        "use `shardc.constrain`, or write the shardings that `shardc export "
        "constraints` prints");
  }

  // Reports dots that reshard a weight because their activation is sharded on
  // another dimension, and ops that gather because nothing is known of them.
  void CheckOps() {
    if (!selection_.Selects(kClashMovesActivation) &&
        !selection_.Selects(kConstraintMissing)) {
      return;
    }
    const std::vector<Mode>& modes = compiled_.options.modes;
    if (modes.empty()) return;
    const ProgramPlan plan = PlanOfCompiled(program_, compiled_, modes.front(),
                                            PlannedParts::kContiguous);
    Findings refused;
    if (!CanRunOn(program_, plan.mesh, refused)) return;
    const program::Sharding sharding =
        program::ShardProgram(program_, plan.mesh, plan.specs);
    const program::Ties ties = program::TieDimensions(program_);
    CheckUnfixed(ties, sharding);
    Clashes clashes;
    for (const program::Op* const op : ties.ops) {
      const auto at = sharding.ops.find(op);
      if (op->phase != program::Phase::kForward || at == sharding.ops.end()) {
        continue;
      }
      for (const program::Gathered& one : at->second.gathered) {
        if (one.needed) {
          AddOpaque(*op, one);
        } else if (op->kind == program::OpKind::kDot) {
          AddClash(ties, plan, *op, at->second, one, clashes);
        }
      }
    }
    ReportClashes(plan, clashes);
  }

  // Weights are covered by the evidence of their factors.
  void AddOpaque(const program::Op& op, const program::Gathered& one) {
    if (!program::IsOpaque(program_, op)) return;
    AxisGroup axes = one.axes;
    std::erase_if(
        axes, [&](const std::string& axis) { return tensor_.contains(axis); });
    if (axes.empty()) return;
    Add(kClashMovesActivation, std::nullopt, -1,
        "an op that is not known, " + ShortQuote(program::OpaqueName(op)) +
            LineText(op.at) + ", gathers dimension " + std::to_string(one.dim) +
            " of its operand " +
            ShapeText(program_.ShapeOf(op.in[one.operand])) + " over " +
            AxesText(axes),
        "run the op in `jax.shard_map`");
  }

  // Adds a dot that gathers its weight over an axis of tensor parallelism, if
  // the weight has the dimension on which the axis shards the activation.
  void AddClash(const program::Ties& ties, const ProgramPlan& plan,
                const program::Op& op, const program::OpSharding& sharding,
                const program::Gathered& one, Clashes& out) const {
    const size_t other = 1 - one.operand;
    const uint32_t origin = ties.origin[op.in[one.operand]];
    if (origin == 0 || ties.origin[op.in[other]] != 0) return;
    const program::Input& input = program_.inputs[origin - 1];
    const auto number = NumberOf(input.name);
    if (input.kind != program::InputKind::kParam || !number) return;
    for (const std::string& axis : one.axes) {
      if (!tensor_.contains(axis)) continue;
      const Spec& held = sharding.in[other];
      const auto at = std::ranges::find_if(held, [&](const AxisGroup& axes) {
        return std::ranges::find(axes, axis) != axes.end();
      });
      if (at == held.end()) continue;
      const auto factors = ties.table.Resolve(
          ties.dims[op.in[other]][AsIndex(at - held.begin())]);
      const auto& dims = ties.dims[input.value];
      size_t dim = 0;
      while (dim < dims.size() && ties.table.Resolve(dims[dim]) != factors) {
        ++dim;
      }
      if (factors.empty() || dim >= plan.specs[origin - 1].size()) continue;
      const int32_t rule =
          compiled_.plan.layouts[compiled_.plan.params[*number].layout].rule;
      Clash& clash = out[{rule, axis, dim}];
      clash.inputs.insert(origin - 1);
      ++clash.ops;
      if (clash.op == nullptr) {
        clash.op = &op;
        clash.activation = op.in[other];
      }
    }
  }

  // Reports the conflicts for which the program sends less if the axis shards
  // the weights as it shards the activations.
  void ReportClashes(const ProgramPlan& plan, const Clashes& clashes) {
    if (clashes.empty() || clashes.size() > kMostChanges) return;
    cost::ProgramRequest request;
    request.program = &program_;
    request.mesh = plan.mesh;
    request.specs = plan.specs;
    const int64_t now = cost::CostOfProgram(request).Sent();
    for (const auto& [key, clash] : clashes) {
      const auto& [rule, axis, dim] = key;
      request.specs = plan.specs;
      bool divides = true;
      for (const uint32_t input : clash.inputs) {
        Spec& spec = request.specs[input];
        for (AxisGroup& axes : spec) std::erase(axes, axis);
        spec[dim].push_back(axis);
        const auto parts = plan.mesh.Parts(spec[dim]);
        const Shape& shape = program_.ShapeOf(program_.inputs[input].value);
        divides = divides && parts && shape[dim] % *parts == 0;
      }
      if (!divides) continue;
      const int64_t less = cost::CostOfProgram(request).Sent();
      // A saving of less than a hundredth of the step is not reported.
      if (less > now - now / 100) continue;
      for (const uint32_t input : clash.inputs) {
        const std::string& name = program_.inputs[input].name;
        Add(kClashMovesActivation, *NumberOf(name), rule,
            "a dot" + LineText(clash.op->at) + " reshards its weight " +
                ShortQuote(program_.inputs[*clash.inputs.begin()].name) +
                " over `" + axis + "`, which shards its activation " +
                ShapeText(program_.ShapeOf(clash.activation)) +
                " on another dimension" +
                (clash.ops > 1 ? ", as do " + Counted(clash.ops - 1, "more dot")
                               : "") +
                ". The program sends " + BytesText(now) + " a device, and " +
                BytesText(less) + " with `" + axis + "` on dimension " +
                std::to_string(dim) + " of the weight",
            "shard dimension " + std::to_string(dim) + " over `" + axis + "`");
      }
    }
  }

  // Returns the parameter of the plan with this name.
  std::optional<uint32_t> NumberOf(std::string_view name) const {
    const auto at = numbers_.find(name);
    return at == numbers_.end() ? std::nullopt : std::optional(at->second);
  }

  std::string LineText(program::Line at) const {
    return at.known() ? " at " + program_.LineText(at) : "";
  }

  const program::Program& program_;
  const Facts& facts_;
  const Compiled& compiled_;
  const Selection& selection_;
  std::set<std::string, std::less<>> tensor_;
  // The number of each parameter of the plan, by its name.
  std::unordered_map<std::string_view, uint32_t> numbers_;
  // Keyed by the index of the factor.
  std::map<uint32_t, std::vector<Led>> places_;
  // By code, rule and message. Parameters for which these are equal are members
  // of one finding.
  std::map<std::tuple<int, int32_t, std::string>, LintFinding> found_;
};

}  // namespace

FindingSink ProgramFindings(const program::TracedProgram& traced,
                            const shardc::Facts& facts,
                            const Selection& selection) {
  return ProgramCheck(traced, facts, selection).Run();
}

}  // namespace shardc::cli
