// Compares `compat: eformer` and `compat: fjformer` with a reference that does
// what those systems do: it resolves the rules in each mode, matches the tree
// and corrects the specs, or returns the error of JAX. For random meshes, rules
// and manifests, Compile must plan the same for every parameter and mode.
//
// Example: `[fsdp, tp]` for [6, 4] on fsdp:4,tp:2. eformer removes fsdp,
// because 4 does not divide 6, and keeps tp. Under fjformer the spec is not
// corrected, and JAX refuses it. This test would fail if a plan removed tp as
// well, or made a correction under fjformer.
#include "compat_case.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "match/pattern_maker.h"
#include "plan/compile.h"
#include "reference/legalize.h"
#include "reference/match.h"
#include "reference/python_pattern.h"
#include "reference/setting.h"

namespace shardc {
namespace {

using reference::BothAxes;
using reference::PartitionRule;
using reference::PartitionSpec;
using reference::Setting;
using reference::Tree;
using reference::Value;

constexpr int kTensors = 10;
constexpr int kRules = 5;

// The spec that eformer or fjformer gives a parameter in a mode.
using Theirs = reference::Result<PartitionSpec>;

Tree Array(const Shape& shape) {
  Tree tree;
  tree.kind = Tree::Kind::kArray;
  tree.shape = shape;
  return tree;
}

Tree Branch() {
  Tree tree;
  tree.kind = Tree::Kind::kBranch;
  return tree;
}

class Case {
 public:
  Case(const Draws& draws, Compat compat)
      : compat_(compat),
        setting_(draws),
        patterns_(draws),
        rules_(setting_.ours()) {
    MakeMesh();
    MakeRules();
    MakeManifest();
    rules_.policy.compat = compat;
    if (compat == Compat::kEformer) {
      if (setting_.Chance(30)) rules_.policy.min_size = setting_.Below(40);
      if (setting_.Chance(30)) rules_.policy.illegal = IllegalPolicy::kDrop;
    }
    for (int64_t i = setting_.Below(3); i > 0; --i) {
      exclusions_.push_back(setting_.Chance(50) ? "(norm|bias|scale)"
                                                : Pattern());
    }
  }

  void Compare(Reached& reached) const {
    Findings findings;
    CompileOptions options;
    if (!exclusions_.empty()) {
      auto& patterns = options.weight_decay_exclude.emplace();
      for (const std::string& text : exclusions_)
        patterns.push_back({text, {}});
    }
    const auto compiled = Compile(mesh_, rules_, manifest_, options, findings);
    REQUIRE_MESSAGE(
        compiled, "a finding: ",
        findings.all().empty() ? "none" : findings.all()[0].message);
    const Plan& plan = compiled->plan;
    for (size_t m = 0; m < kAllModes.size(); ++m) {
      const auto theirs = Match(m);
      for (size_t i = 0; i < plan.params.size(); ++i) {
        const ParamLayout& layout = plan.layouts[plan.params[i].layout];
        const Shape& shape = *plan.types[layout.type].shape;
        INFO(plan.names[i], " ", ShapeText(shape), " in ",
             ModeName(kAllModes[m]), " on ", MeshText(mesh_), " by rule ",
             layout.rule, ": ", SpecText(layout.modes[m].resolved));
        REQUIRE(layout.modes.at(m).mode == kAllModes[m]);
        CompareOne(theirs[i], layout, layout.modes[m], shape, reached);
      }
    }
    CompareDecay(plan, reached);
  }

 private:
  // The mesh has the axes that the rules name, because fjformer knows no
  // others.
  void MakeMesh() {
    std::vector<std::string> names = Setting::Axes();
    for (size_t i = names.size(); i > 1; --i) {
      std::swap(
          names[i - 1],
          names[static_cast<size_t>(setting_.Below(static_cast<int64_t>(i)))]);
    }
    if (compat_ == Compat::kEformer) {
      names.resize(static_cast<size_t>(1 + setting_.Below(6)));
    }
    for (const std::string& name : names) {
      const auto size = setting_.Pick(std::vector<int64_t>{1, 2, 2, 3, 4});
      mesh_.axes.push_back({name, size});
      mesh_.devices *= size;
    }
  }

  // Returns a spec of mesh axes by name, each used once. For eformer, it may
  // have parallelism axes that the mesh lacks.
  BothAxes Literal() {
    std::set<std::string> open;
    for (const MeshAxis& axis : mesh_.axes) open.insert(axis.name);
    if (compat_ == Compat::kEformer) {
      for (AxisRule rule : ParallelismRules()) {
        const auto value = rules_.axes.Value(rule);
        open.insert(value.axes.begin(), value.axes.end());
      }
    }
    BothAxes axes;
    for (int64_t i = setting_.Below(5); i > 0; --i) {
      SpecEntry entry;
      std::vector<Value> items;
      for (int64_t k = setting_.Below(3); k > 0 && !open.empty(); --k) {
        const std::string name =
            setting_.Pick(std::vector<std::string>(open.begin(), open.end()));
        open.erase(name);
        entry.names.push_back({name, {}});
        items.push_back(Value::Name(name));
      }
      entry.is_group = items.size() > 1 || setting_.Chance(20);
      axes.theirs.push_back(entry.is_group  ? Value::Tuple(std::move(items))
                            : items.empty() ? Value::None()
                                            : items[0]);
      axes.ours.entries.push_back(std::move(entry));
    }
    return axes;
  }

  // Returns the other system's spec in each mode; nullopt if that system cannot
  // express the spec because groups are nested.
  //
  // Nulls inside a group are removed, as always in shardc. eformer takes such a
  // null for an axis that the mesh lacks, and JAX refuses it.
  std::optional<std::vector<PartitionSpec>> SpecsOf(
      const std::vector<Value>& axes, bool literal) const {
    std::vector<PartitionSpec> specs;
    for (Mode mode : kAllModes) {
      std::vector<Value> values = axes;
      if (!literal) {
        auto resolved = reference::ResolveAxis(
            setting_.axis(), setting_.registry(), axes, ModeLongName(mode));
        if (reference::Failure(resolved)) return std::nullopt;
        values = std::get<std::vector<Value>>(std::move(resolved));
        setting_.DropNullNames(values);
        for (Value& value : values) {
          std::erase_if(value.items, [](const Value& i) { return i.IsNone(); });
        }
      }
      auto made = reference::MakePartitionSpec(values);
      if (reference::Failure(made)) return std::nullopt;
      specs.push_back(std::get<PartitionSpec>(std::move(made)));
    }
    return specs;
  }

  // Returns a pattern that means the same in Python and in RE2, which shardc
  // uses.
  std::string Pattern() {
    for (;;) {
      std::string pattern = patterns_.ModelPattern('/');
      const auto python = reference::ReadPythonPattern(pattern);
      if (python.syntax == reference::PythonSyntax::kFine &&
          python.re2 == pattern) {
        return pattern;
      }
    }
  }

  void MakeRules() {
    for (int i = 0; i < kRules; ++i) {
      const bool last = i + 1 == kRules;
      AddRule(last && setting_.Chance(80) ? ".*" : Pattern());
    }
  }

  void AddRule(const std::string& pattern) {
    for (;;) {
      const bool literal = setting_.Chance(50);
      const BothAxes axes = literal ? Literal() : setting_.RandomAxes();
      const auto specs = SpecsOf(axes.theirs, literal);
      if (!specs) continue;
      Rule rule;
      rule.match = pattern;
      rule.spec = axes.ours;
      rules_.rules.push_back(std::move(rule));
      theirs_.resize(kAllModes.size());
      for (size_t m = 0; m < kAllModes.size(); ++m) {
        theirs_[m].push_back({pattern, (*specs)[m]});
      }
      return;
    }
  }

  void MakeManifest() {
    static const std::vector<int64_t> kSizes = {0, 1, 1, 2,  3,  4,
                                                6, 8, 9, 12, 16, 24};
    std::set<std::string> names;
    while (names.size() < kTensors) names.insert(patterns_.ModelName('/'));
    // eformer joins names by `/`, whatever separator the manifest has.
    const char separator = setting_.Chance(25) ? '.' : '/';
    ManifestBuilder builder;
    for (const std::string& path : names) {
      Shape shape(static_cast<size_t>(setting_.Below(5)));
      for (int64_t& size : shape) size = setting_.Pick(kSizes);
      tree_.members.emplace_back(path, Array(shape));
      std::string name = path;
      std::replace(name.begin(), name.end(), '/', separator);
      builder.Add(std::move(name), {std::move(shape), Dtype::kBF16});
    }
    manifest_ = builder.Take();
    manifest_.separator = separator;
  }

  reference::Result<reference::Specs> MatchTree(size_t mode,
                                                const Tree& tree) const {
    if (compat_ == Compat::kFjformer) {
      return reference::MatchFjformer(theirs_[mode], tree);
    }
    return reference::MatchEformer(
        theirs_[mode], tree, {.min_size = rules_.policy.min_size.value_or(0)});
  }

  // Returns the spec that the other system gives each parameter. If the system
  // stops at a parameter without a rule, each parameter is matched on its own.
  std::vector<Theirs> Match(size_t mode) const {
    std::vector<Theirs> out;
    const auto all = MatchTree(mode, tree_);
    if (const auto* specs = reference::Get<reference::Specs>(all)) {
      for (const auto& leaf : tree_.members) {
        out.emplace_back(specs->at(leaf.first));
      }
      return out;
    }
    for (const auto& leaf : tree_.members) {
      Tree alone = Branch();
      alone.members.push_back(leaf);
      const auto one = MatchTree(mode, alone);
      if (const auto* error = reference::Failure(one)) {
        out.emplace_back(*error);
      } else {
        out.emplace_back(std::get<reference::Specs>(one).at(leaf.first));
      }
    }
    return out;
  }

  void CompareOne(const Theirs& matched, const ParamLayout& layout,
                  const ModeLayout& ours, const Shape& shape,
                  Reached& reached) const {
    const auto* missed = reference::Failure(matched);
    CHECK((missed != nullptr) == layout.unmatched);
    if (missed != nullptr) {
      CHECK(missed->kind == "rule_not_found");
      CHECK(ours.spec.empty());
      ++reached.unmatched;
      return;
    }
    ++reached.specs;
    if (!IsReplicated(ours.spec)) ++reached.sharded;
    if (!ours.edits.empty()) ++reached.corrected;
    if (!ours.problems.empty()) ++reached.refused;
    const auto& spec = std::get<PartitionSpec>(matched);
    if (compat_ == Compat::kEformer) {
      CompareCorrected(spec, ours, shape);
    } else {
      CHECK(SpecText(ours.spec) == SpecText(reference::AxesOf(spec)));
      CHECK(ours.problems.empty() ==
            !reference::Refusal(spec, shape, mesh_).has_value());
    }
  }

  void CompareCorrected(const PartitionSpec& spec, const ModeLayout& ours,
                        const Shape& shape) const {
    const auto corrected =
        reference::CorrectedNamedSharding(shape, spec, mesh_);
    if (const auto* error = reference::Failure(corrected)) {
      CHECK(error->kind == "duplicate_mesh_axis");
      CHECK_FALSE(ours.problems.empty());
      for (const Edit& problem : ours.problems) {
        CHECK(problem.reason == Reason::kRepeatedAxis);
      }
      return;
    }
    CHECK(ours.problems.empty());
    const bool early =
        std::any_of(ours.edits.begin(), ours.edits.end(), [](const Edit& edit) {
          return edit.reason == Reason::kScalar ||
                 edit.reason == Reason::kMinSize;
        });
    CHECK(early <= ours.spec.empty());
    CHECK(SpecText(ours.spec) ==
          SpecText(reference::AxesOf(std::get<PartitionSpec>(corrected))));
  }

  void CompareDecay(const Plan& plan, Reached& reached) const {
    CHECK(plan.has_weight_decay == !exclusions_.empty());
    if (manifest_.separator != '/') return;  // exclusions are written for `/`
    const auto mask = reference::WeightDecayMask(exclusions_, tree_);
    const auto* decays = reference::Get<std::map<std::string, bool>>(mask);
    REQUIRE(decays != nullptr);
    for (size_t i = 0; i < plan.params.size(); ++i) {
      CAPTURE(plan.names[i]);
      CHECK(plan.WeightDecayOf(i) == decays->at(std::string(plan.names[i])));
      if (!plan.WeightDecayOf(i)) ++reached.undecayed;
    }
  }

  Compat compat_;
  Setting setting_;
  PatternMaker patterns_;
  Mesh mesh_;
  RuleSet rules_;
  std::vector<std::vector<PartitionRule>> theirs_;  // by mode
  Manifest manifest_;
  Tree tree_ = Branch();  // the same, a member for each
  std::vector<std::string> exclusions_;
};

}  // namespace

void CompareCompat(const Draws& draws, Compat compat, Reached& reached) {
  Case(draws, compat).Compare(reached);
}

}  // namespace shardc
