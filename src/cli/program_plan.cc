// Compiles the rules for the parameters of a traced program, or reads a plan of
// them, for the commands that take a program in place of a model: `verify step
// --program` and `cost --program`. A parameter that the plan lacks is
// replicated, with a note.
#include "cli/program_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cli/output.h"
#include "cli/plan_findings.h"
#include "cli/planned.h"
#include "cost/traced_program.h"
#include "facts/axes.h"
#include "model/mesh_layout.h"
#include "model/option_value.h"
#include "plan/mesh_purposes.h"
#include "plan/read.h"
#include "program/read.h"
#include "program/sharding.h"
#include "search/rule_options.h"
#include "source/file.h"
#include "source/list.h"
#include "source/wording.h"
#include "suggest/by_program.h"
#include "suggest/parameter_groups.h"
#include "verify/program/proof.h"

namespace shardc::cli {
namespace {

// The mesh of a plan, the specs of parameters by name, and the axes of batches.
struct NamedSpecs {
  Mesh mesh;
  std::map<std::string, Spec, std::less<>> specs;
  // The parts of dimensions that axes divide, by the name of a parameter.
  std::map<std::string, DimParts, std::less<>> parts;
  AxisGroup batch;
  std::vector<std::string> notes;
  std::optional<int64_t> memory;
  bool found = false;  // whether the plan has errors, which were added

  void AddParts(std::string_view name, const DimParts& of) {
    if (!of.empty()) parts.emplace(name, of);
  }
};

// Sets the axes of batches: those of the axis rules, and those that published
// names give this purpose, each with a note.
void SetBatchAxes(const AxisRules& rules, NamedSpecs& out) {
  std::vector<AxisFacts> facts =
      FindAxisFacts({.mesh = &out.mesh, .rules = &rules});
  out.batch = CompletedAxes(rules, facts).Value(AxisRule::kBatch).axes;
  std::erase_if(facts, [](const AxisFacts& one) {
    return one.tokens != AxisTokens::kBatch;
  });
  out.notes = NotesOfCompleted(rules, facts);
}

// Returns why no input of data is sharded.
std::string ReplicatedData(const NamedSpecs& plan) {
  AxisGroup there;
  for (const std::string& axis : plan.batch) {
    if (plan.mesh.SizeOf(axis) > 1) there.push_back(axis);
  }
  if (!there.empty()) {
    return "data is replicated, since no axis of batches (" +
           Join(there, ", ") + ") divides its first dimension";
  }
  std::string example;
  for (const MeshAxis& axis : plan.mesh.axes) {
    if (example.empty() && axis.size > 1) example = axis.name;
  }
  return "data is replicated, since no axis of the mesh is known to divide the "
         "batch: write the axes that do in the rules, such as `axes: {batch: "
         "[" +
         example + "]}`";
}

std::optional<NamedSpecs> SpecsOfFile(const std::string& file,
                                      const InputFlags& flags, Mode mode,
                                      Findings& findings) {
  if (!RefuseInputs(flags, "the plan is that of `--plan`", findings)) {
    return std::nullopt;
  }
  const auto plan = ReadPlanFile(file, EditedPlan::kRefused, findings);
  if (!plan || !CheckMode(plan->modes, mode, findings) ||
      HasIllegalSpec(*plan, findings)) {
    return std::nullopt;
  }
  NamedSpecs out;
  out.mesh = plan->mesh;
  for (const ReadParam& param : plan->params) {
    out.specs[param.name] = param.SpecOf(mode);
    out.AddParts(param.name, param.parts);
  }
  SetBatchAxes(AxisRules(), out);
  return out;
}

NamedSpecs SpecsOf(const Compiled& compiled, Mode mode) {
  NamedSpecs out;
  out.mesh = compiled.mesh;
  SetBatchAxes(compiled.rules.axes, out);
  const Plan& plan = compiled.plan;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    for (const ModeLayout& one : plan.layouts[plan.params[i].layout].modes) {
      if (one.mode == mode) out.specs[std::string(plan.names[i])] = one.spec;
    }
    out.AddParts(plan.names[i], plan.layouts[plan.params[i].layout].parts);
  }
  return out;
}

std::optional<NamedSpecs> SpecsOfRules(const InputFlags& flags,
                                       const program::Program& program,
                                       Mode mode, const Common& common,
                                       Findings& findings) {
  const auto target = ChooseTarget(flags.asked, findings);
  if (!target) return std::nullopt;
  if (target->rules.empty()) {
    findings.Add(
        code::kUsage, {}, "no rules are given",
        "write `--rules FILE`, or `--plan FILE` in place of a mesh and "
        "rules");
    return std::nullopt;
  }
  auto mesh = LoadMesh(flags, *target, findings);
  Manifest manifest = program::ManifestOf(program);
  auto rules =
      OpenRules(target->rules, target->project_dir, &manifest, "", findings,
                nullptr, RulesBoundary(*target, flags.asked));
  if (!mesh || !rules) return std::nullopt;
  ChoosePackAxes(*rules, nullptr, *mesh);
  CompileOptions options;
  options.modes = {Mode::kTrain};
  if (mode != Mode::kTrain) options.modes.push_back(mode);
  options.threads = std::max(common.threads, 1);
  const auto compiled = Compile(std::move(*mesh), std::move(*rules),
                                std::move(manifest), options, findings);
  if (compiled == nullptr) return std::nullopt;
  NamedSpecs out = SpecsOf(*compiled, mode);
  Findings wrong = PlanFindings(*compiled);
  out.found = wrong.HasErrors();
  findings.Append(std::move(wrong));
  out.memory = target->memory_bytes;
  return out;
}

// Notes constraints over axes that the mesh lacks, once for each line.
void NoteConstraints(const program::Program& program,
                     const std::vector<program::Op>& ops, const Mesh& mesh,
                     std::vector<std::string>& notes) {
  for (const program::Op& op : ops) {
    for (const program::Body& body : op.bodies) {
      NoteConstraints(program, body.ops, mesh, notes);
    }
    if (program::FollowsConstraint(op, mesh)) continue;
    const std::string line = program.LineText(op.at);
    std::string note = "the constraint at " +
                       (line.empty() ? "an unknown line" : Printable(line)) +
                       " is not followed, since the mesh lacks one of its axes";
    if (std::ranges::find(notes, note) == notes.end()) {
      notes.push_back(std::move(note));
    }
  }
}

// Gives each input of the program its spec.
ProgramPlan PlanOf(const program::Program& program, NamedSpecs plan,
                   PlannedParts planned) {
  ProgramPlan out;
  out.found = plan.found;
  out.memory = plan.memory;
  out.notes = plan.notes;
  const bool splits = planned == PlannedParts::kSplit && program.IsOfTorch();
  std::vector<Spec> specs;
  std::vector<EqualParts> parts;
  for (const program::Input& input : program.inputs) {
    if (input.kind != program::InputKind::kParam) continue;
    EqualParts& of = parts.emplace_back();
    const auto at = plan.specs.find(input.name);
    specs.push_back(at == plan.specs.end() ? Spec() : at->second);
    if (at == plan.specs.end()) {
      out.notes.push_back(ShortQuote(input.name) +
                          " is replicated, since the plan lacks it");
    }
    const auto divided = plan.parts.find(input.name);
    if (divided == plan.parts.end()) continue;
    const DimParts sharded = ShardedParts(divided->second, specs.back());
    if (sharded.empty()) continue;
    auto equal = EqualPartsOf(sharded);
    if (splits && equal && PartsDivide(sharded, program.ShapeOf(input.value))) {
      specs.back() = SplitSpec(specs.back(), *equal);
      of = std::move(*equal);
      continue;
    }
    out.notes.push_back(
        ShortQuote(input.name) +
        " is sharded in contiguous ranges here, and the plan divides it" +
        InPartsText(sharded) + ": what a part needs of other ranges is sent");
  }
  if (std::ranges::any_of(parts,
                          [](const EqualParts& of) { return !of.empty(); })) {
    out.split = program::SplitParts(program, parts);
  }
  if (const auto refined = RefinedMesh(plan.mesh, specs)) {
    plan.mesh = *refined;
    for (Spec& spec : specs) spec = RefinedSpec(*refined, spec);
    plan.batch = RefinedGroup(*refined, plan.batch);
  }
  out.specs = verify::InputSpecs(out.Of(program), plan.mesh, specs, plan.batch,
                                 out.notes);
  bool has_data = false;
  bool shards_data = false;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].kind != program::InputKind::kData) continue;
    has_data = true;
    shards_data = shards_data || !IsReplicated(out.specs[i]);
  }
  if (has_data && !shards_data && plan.mesh.devices > 1) {
    out.notes.push_back(ReplicatedData(plan));
  }
  NoteConstraints(program, program.ops, plan.mesh, out.notes);
  out.mesh = std::move(plan.mesh);
  return out;
}

}  // namespace

std::optional<program::Program> ReadTracedProgram(const std::string& path,
                                                  Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  return program::ReadProgram(source, findings);
}

std::optional<ProgramPlan> PlanOfProgram(const program::Program& program,
                                         const std::string& file,
                                         const InputFlags& flags, Mode mode,
                                         PlannedParts parts,
                                         const Common& common,
                                         Findings& findings) {
  auto plan = file.empty()
                  ? SpecsOfRules(flags, program, mode, common, findings)
                  : SpecsOfFile(file, flags, mode, findings);
  if (!plan) return std::nullopt;
  return PlanOf(program, std::move(*plan), parts);
}

FactorSearch::FactorSearch(const program::TracedProgram& traced,
                           const Mesh& mesh, const Manifest& manifest)
    : traced_(traced),
      mesh_(mesh),
      tree_(suggest::ParameterGroupsOf(manifest)),
      axes_(suggest::AxesOf(mesh)),
      by_program_(tree_, traced.facts, axes_) {}

search::FactorChoice FactorSearch::Cheapest(bool divides_parts) const {
  const AxisGroup batch = axes_.renamed.Value(AxisRule::kBatch).axes;
  // The program with the parts of the last choice, which few choices change.
  std::vector<EqualParts> parts;
  program::Program split;
  return search::CheapestFactors(
      by_program_, divides_parts, [&](const suggest::Choices& choices) {
        std::vector<EqualParts> now = by_program_.DividedBy(choices);
        std::vector<Spec> specs = by_program_.SpecsOf(choices);
        bool whole = true;
        for (size_t i = 0; i < now.size(); ++i) {
          specs[i].resize(traced_.facts.params[i].shape.size());
          specs[i] = SplitSpec(specs[i], now[i]);
          whole = whole && now[i].empty();
        }
        if (!whole && now != parts) {
          split = program::SplitParts(traced_.program, now);
          parts = std::move(now);
        }
        cost::ProgramRequest request;
        request.program = whole ? &traced_.program : &split;
        request.mesh = mesh_;
        std::vector<std::string> notes;
        request.specs =
            verify::InputSpecs(*request.program, mesh_, specs, batch, notes);
        return cost::CostOfProgram(request);
      });
}

std::vector<EqualParts> FactorSearch::DividedBy(
    const std::set<uint32_t>& factors) const {
  return by_program_.DividedBy(
      by_program_.Choose(factors, /*divides_parts=*/true));
}

ProgramPlan PlanOfCompiled(const program::Program& program,
                           const Compiled& compiled, Mode mode,
                           PlannedParts parts) {
  return PlanOf(program, SpecsOf(compiled, mode), parts);
}

bool CanRunOn(const program::Program& program, const Mesh& mesh,
              Findings& findings) {
  auto fault = program::FormFault(program);
  if (!fault) fault = verify::RegionFault(program, mesh);
  if (!fault) return true;
  findings.Add(code::kUsage, {},
               "the program of " + ShortQuote(program.function) +
                   " cannot be run: " + *fault,
               "choose the mesh for which the function was traced, or trace "
               "it again");
  return false;
}

bool CheckDonate(bool donate, const std::string& program, Findings& findings) {
  if (!donate || !program.empty()) return true;
  findings.Add(code::kUsage, {},
               "`--donate` has an effect only with `--program`",
               "give the traced program of your function, or leave it out");
  return false;
}

bool RefuseOptions(const Options& given, const Options& usual,
                   std::initializer_list<std::string_view> allowed,
                   Findings& findings, const NoEffect& of) {
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string& name = given[i].name;
    if (std::ranges::find(allowed, name) != allowed.end()) continue;
    if (!IsGiven(given[i], usual[i])) continue;
    const auto* const text = std::get_if<std::string*>(&given[i].to);
    const auto* const list = std::get_if<Strings*>(&given[i].to);
    findings.Add(code::kUsage,
                 FlagPlace(name, text != nullptr   ? **text
                                 : list != nullptr ? (*list)->front()
                                                   : "true"),
                 "`" + name + "` has no effect on " + std::string(of.reason),
                 std::string(of.help));
  }
  return !findings.HasErrors();
}

}  // namespace shardc::cli
