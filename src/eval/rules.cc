// Implements the functions of `shardc eval` that work on complete parameter
// trees. They match rules, compute masks and correct specs, in the same way as
// a plan with the policy `compat`. A tree has the form of a manifest, and rules
// have the form of a rules file. For example, the pattern `w$` matches the
// parameter a/w:
//
//   match_partition_rules
//       {"rules": {"rules": [{"match": "w$", "spec": ["tp"]}]},
//        "tree": {"a": {"w": {"shape": [8], "dtype": "F32"}}}}
//     ->  {"specs": {"a/w": ["tp"]}}
#include <algorithm>
#include <functional>
#include <iterator>

#include "eval/call.h"
#include "legalize/legalize.h"
#include "parse/manifest.h"
#include "plan/compile.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::eval {
namespace {

using Names = std::vector<std::string>;

std::optional<Manifest> TreeOf(Call& call) {
  const SourceRef source = call.Source("tree", "tree");
  if (source == nullptr) {
    call.Fail("member `tree` is missing");
    return std::nullopt;
  }
  const auto document = JsonDocument::Parse(source, call.findings());
  if (document == nullptr) return std::nullopt;
  auto manifest = ParseManifest(*document, call.findings());
  // eformer joins keys by a slash, even if the keys contain slashes.
  if (manifest) manifest->separator = '/';
  return manifest;
}

// Adds the axes that the rule's spec names to the mesh, each with size 1. If
// the mesh lacked one of these axes, Compile() would correct the spec.
void AddAxes(const SpecSource& source, Mesh& mesh) {
  const auto* list = std::get_if<SpecList>(&source);
  if (list == nullptr) return;
  for (const SpecEntry& entry : list->entries) {
    for (const SpecName& name : entry.names) {
      if (FindToken(name.text) == nullptr && !mesh.Find(name.text)) {
        mesh.axes.push_back({name.text, 1});
      }
    }
  }
}

// Returns the spec that eformer's or fjformer's own function for matching rules
// returns. This function knows no mesh, so it corrects no axes. Its result is
// empty if the parameter is a scalar or too small, and the resolved spec
// otherwise. eformer also removes entries beyond the rank.
Spec MatchedSpec(const ModeLayout& layout, const std::optional<Shape>& shape,
                 Compat compat) {
  const bool by_size = std::any_of(layout.edits.begin(), layout.edits.end(),
                                   [](const Edit& edit) {
                                     return edit.reason == Reason::kScalar ||
                                            edit.reason == Reason::kMinSize;
                                   });
  if (by_size) return {};
  Spec spec = layout.resolved;
  if (compat == Compat::kEformer && shape && spec.size() > shape->size()) {
    spec.resize(shape->size());
  }
  return spec;
}

// Matches the call's rules to the parameters of its tree, as eformer or
// fjformer does, and returns the spec of each parameter. Returns null after a
// finding.
std::unique_ptr<const Compiled> CompileTree(Call& call, bool strict,
                                            Compat compat) {
  auto rules = RulesOf(call);
  auto tree = TreeOf(call);
  call.Find("implementation");
  call.Find("strict");
  if (!rules || !tree || !call.Finish()) return nullptr;
  if (!strict) {
    // The parameters are compiled without shapes. Compile() then does not
    // correct the specs of scalars and of small parameters, and does not
    // shorten specs that are longer than the rank.
    for (TensorType& type : tree->types) type.shape.reset();
  }
  Mesh mesh = MeshFor(call, rules->axes);
  for (const Rule& rule : rules->rules) AddAxes(rule.spec, mesh);
  CompileOptions options;
  options.modes = {Mode::kTrain};
  options.policy.compat = compat;
  return Compile(std::move(mesh), std::move(*rules), std::move(*tree), options,
                 call.findings());
}

bool MatchRules(Call& call, Reply& reply) {
  const std::string system = call.TextOr("implementation", "eformer");
  const bool strict = call.Flag("strict", true);
  if (system != "eformer" && system != "fjformer") {
    call.Fail("`" + system + "` is neither eformer nor fjformer");
    return false;
  }
  const Compat compat =
      system == "eformer" ? Compat::kEformer : Compat::kFjformer;
  const auto compiled = CompileTree(call, strict, compat);
  if (compiled == nullptr) return false;
  const Plan& plan = compiled->plan;
  JsonWriter& json = reply.json();
  json.Key("specs");
  json.BeginObject();
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const std::string name(plan.names[i]);
    const ParamLayout& layout = plan.layouts[plan.params[i].layout];
    const auto& shape = plan.types[layout.type].shape;
    // A leaf without a shape is a Python value on the host. eformer replicates
    // it, and fjformer reports an error.
    const bool host = strict && !shape;
    if (host && compat == Compat::kFjformer) {
      call.Fail("`" + name + "` has no shape, which fjformer needs");
      return false;
    }
    if (layout.unmatched && !host) {
      call.Fail("no rule matches `" + name + "`",
                "add a rule such as `{match: '.*', spec: []}`");
      return false;
    }
    const Spec spec =
        host ? Spec() : MatchedSpec(layout.modes[0], shape, compat);
    // One rule may match many parameters, so the result may be far longer than
    // the input.
    int64_t letters = 1;
    for (const AxisGroup& group : spec) {
      for (const std::string& axis : group) letters += std::ssize(axis) + 4;
    }
    if (!call.Reserve({{letters}})) return false;
    json.Member(name, WrittenBy(WriteSpec, spec));
  }
  json.EndObject();
  return true;
}

bool WeightDecayMask(Call& call, Reply& reply) {
  const auto exclusions = call.Names("exclusions");
  auto tree = TreeOf(call);
  if (!tree || !call.Finish()) return false;
  CompileOptions options;
  options.modes = {Mode::kTrain};
  options.policy.unmatched = UnmatchedPolicy::kReplicate;
  options.policy.compat = Compat::kEformer;
  auto& patterns = options.weight_decay_exclude.emplace();
  for (const std::string& text : exclusions) patterns.push_back({text, {}});
  const auto compiled = Compile(MeshFor(call, AxisRules()), RuleSet(),
                                std::move(*tree), options, call.findings());
  if (compiled == nullptr) return false;
  JsonWriter& json = reply.json();
  json.Key("mask");
  json.BeginObject();
  for (size_t i = 0; i < compiled->plan.params.size(); ++i) {
    json.Member(compiled->plan.names[i], compiled->plan.WeightDecayOf(i));
  }
  json.EndObject();
  return true;
}

// Visits the leaves of a tree in the order of JAX: the keys of an object in
// ascending order of their code points, and the items of a list by their index.
// A node is a leaf if its keys, joined by slashes, are one of `names`.
void VisitLeaves(JsonValue node, const std::set<std::string_view>& names,
                 const std::string& joined, Names& path,
                 const std::function<void(const Names&)>& visit) {
  if (names.contains(joined)) {
    visit(path);
    return;
  }
  std::map<std::string_view, JsonValue> members;
  std::vector<std::pair<std::string, JsonValue>> children;
  if (node.IsObject()) {
    for (JsonMember member : node.members()) {
      members.emplace(member.name(), member.value);
    }
    for (const auto& [key, value] : members) children.emplace_back(key, value);
  } else if (node.IsArray()) {
    for (JsonValue item : node.items()) {
      children.emplace_back(std::to_string(children.size()), item);
    }
  }
  for (const auto& [key, value] : children) {
    path.push_back(key);
    VisitLeaves(value, names, joined.empty() ? key : joined + "/" + key, path,
                visit);
    path.pop_back();
  }
}

// Writes the path of each leaf in the order of JAX. Its keys are joined by
// `separator`, or are a list if `separator` is null.
bool NamedTree(Call& call, Reply& reply) {
  const auto tree = TreeOf(call);
  const auto given = call.Find("separator");
  const bool joined = !given || !given->IsNull();
  const std::string separator = call.TextOr("separator", "/");
  if (!tree || !call.Finish()) return false;
  std::set<std::string_view> names;
  for (const Tensor& tensor : tree->tensors) names.insert(tensor.name);
  JsonWriter& json = reply.json();
  json.Key("names");
  json.BeginArray();
  size_t visited = 0;
  Names path;
  VisitLeaves(*call.Find("tree"), names, {}, path, [&](const Names& keys) {
    ++visited;
    if (!joined) return json.Array(keys);
    std::string name = keys[0];
    for (size_t i = 1; i < keys.size(); ++i) name += separator + keys[i];
    json.String(name);
  });
  // A manifest in list form is a dictionary of its names.
  if (visited == 0) {
    for (const std::string_view name : names) {
      if (joined) {
        json.String(name);
      } else {
        json.Array(Names{std::string(name)});
      }
    }
  }
  json.EndArray();
  return true;
}

// Makes a spec legal for a shape by eformer's rules: for example, drops axes
// that do not divide their dimension. Returns nullopt after a finding.
std::optional<Spec> Corrected(Call& call, const Spec& spec, const Shape& shape,
                              const Mesh& mesh) {
  LegalizeOptions options;
  options.compat = Compat::kEformer;
  Legal legal = Legalize(spec, shape, mesh, options);
  if (legal.problems.empty()) return std::move(legal.spec);
  const Edit& problem = legal.problems[0];
  call.Fail("axis `" + problem.axis + "` occurs twice in spec " +
                SpecText(legal.spec),
            "a mesh axis can split one dimension only");
  return std::nullopt;
}

bool CorrectedSharding(Call& call, Reply& reply) {
  const Shape shape = call.Integers("shape");
  const auto spec = MeshSpecOf(call, "spec");
  const Mesh mesh = call.MeshOf("mesh");
  const bool needs_mesh = call.Flag("raise_mesh_error", true);
  if (!spec || !call.Finish()) return false;
  if (mesh.axes.empty() && needs_mesh) {
    call.Fail("there is no mesh", "give one, or `\"raise_mesh_error\": false`");
    return false;
  }
  const auto corrected =
      mesh.axes.empty() ? Spec() : Corrected(call, *spec, shape, mesh);
  if (!corrected) return false;
  reply.json().Key("spec");
  WriteSpec(reply.json(), *corrected);
  return true;
}

// Reports what JAX refuses when a spec is applied as it is: an axis that occurs
// twice, more entries than dimensions, and a dimension that its axes do not
// divide. Returns false after a finding.
bool JaxApplies(Call& call, const Spec& spec, const Shape& shape,
                const Mesh& mesh) {
  std::string why;
  if (spec.size() > shape.size()) {
    why = "has " +
          Counted(static_cast<int64_t>(spec.size()), "entry", "entries") +
          ", and the array has rank " + std::to_string(shape.size());
  } else {
    const Legal legal = Legalize(spec, shape, mesh, {});
    if (legal.problems.empty()) return true;
    const Edit& problem = legal.problems[0];
    why = problem.reason == Reason::kRepeatedAxis
              ? "names axis `" + problem.axis + "` twice"
              : "splits a dimension of " + std::to_string(problem.size) +
                    " into " + std::to_string(problem.parts) + " parts";
  }
  call.Fail("JAX refuses the spec " + SpecText(spec) + ": it " + why);
  return false;
}

// Writes the result of applying a sharding constraint. Without a mesh, eformer
// leaves the array unchanged. It also ignores an empty spec, and corrects any
// other spec. fjformer applies the spec as it is, and only if the mesh has all
// its axes. A spec without axes is therefore applied even if there is no mesh,
// which JAX refuses.
bool ShardingConstraint(Call& call, Reply& reply) {
  const std::string system = call.TextOr("implementation", "eformer");
  const Shape shape = call.Integers("shape");
  const auto spec = MeshSpecOf(call, "spec");
  const Mesh mesh = call.MeshOf("mesh");
  if (system != "eformer" && system != "fjformer") {
    call.Fail("`" + system + "` is neither eformer nor fjformer");
  }
  if (!spec || !call.Finish()) return false;
  bool applied = true;
  if (system == "fjformer") {
    for (const AxisGroup& group : *spec) {
      for (const std::string& axis : group) {
        applied = applied && mesh.Find(axis).has_value();
      }
    }
    if (applied && mesh.axes.empty()) {
      call.Fail("there is no mesh, which JAX needs to apply a spec",
                "give a mesh");
      return false;
    }
    if (applied && !JaxApplies(call, *spec, shape, mesh)) return false;
  } else {
    applied = !mesh.axes.empty() && !spec->empty();
  }
  auto result = std::optional(*spec);
  if (applied && system == "eformer") {
    result = Corrected(call, *spec, shape, mesh);
    if (!result) return false;
  }
  reply.json().Member("applied", applied);
  reply.json().Key("spec");
  if (applied) {
    WriteSpec(reply.json(), *result);
  } else {
    reply.json().Null();
  }
  return true;
}

constexpr Function kOfRules[] = {
    {"get_corrected_named_sharding",
     "a spec made legal for a shape: shape, spec, mesh, raise_mesh_error",
     CorrectedSharding},
    {"get_weight_decay_mask", "which leaves decay: exclusions, tree",
     WeightDecayMask},
    {"match_partition_rules",
     "specs of a tree's leaves: rules, tree, implementation (eformer or "
     "fjformer), strict",
     MatchRules},
    {"named_tree_map",
     "the paths of a tree's leaves in JAX's order: tree, separator", NamedTree},
    {"with_sharding_constraint",
     "the spec that a constraint applies: shape, spec, mesh, implementation",
     ShardingConstraint},
};

}  // namespace

std::span<const Function> RuleFunctions() { return kOfRules; }

}  // namespace shardc::eval
