// Computes the completions at a cursor. The keys above the cursor in the YAML
// tree decide which values and keys are valid there. Names of axes, bundles and
// so on are taken from the last version of the file that compiled. So they are
// available while a line is incomplete. Here `|` is the cursor:
//
//   spec: [FS|  ->  logical axes, axis rules and mesh axes
#include "lsp/complete.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "devices/profiles.h"
#include "lint/rules/lint.h"
#include "parse/keys.h"
#include "target/packs.h"

namespace shardc::lsp {
namespace {

using Kind = Completion::Kind;

class Collector {
 public:
  Collector(const Workspace& workspace, const Document& document, size_t offset)
      : scopes_(workspace.ScopesOf(document)),
        kind_(workspace.KindOf(document)),
        context_(ContextAt(document.text, offset)) {}

  Completions Run() {
    out_.begin = context_.begin;
    if (context_.at == Context::At::kIgnore) {
      Codes();
    } else if (context_.at != Context::At::kComment) {
      switch (kind_) {
        case FileKind::kRules:
          Rules();
          break;
        case FileKind::kMesh:
          MeshKeys(0);
          break;
        case FileKind::kProject:
          Project();
          break;
        case FileKind::kOther:
          break;
      }
    }
    return std::move(out_);
  }

 private:
  using Path = std::initializer_list<std::string_view>;

  bool IsKey() const { return context_.at == Context::At::kKey; }

  void Add(std::string_view label, Kind kind, std::string detail) {
    if (!seen_.insert(std::string(label)).second) return;
    out_.items.push_back({std::string(label), kind, std::move(detail)});
  }

  void Keys(const KeyTable& table, Path path) {
    if (!IsKey() || !context_.In(path)) return;
    for (const std::string_view key : table.keys) {
      Add(key, Kind::kProperty, std::string(table.what));
    }
  }

  template <class Names>
  void Values(Path path, const Names& names, Kind kind, std::string detail) {
    if (!context_.In(path)) return;
    for (const auto& name : names) Add(name, kind, detail);
  }

  void Codes() {
    for (const Lint* lint : AllLints()) {
      Add(lint->code.Id(), Kind::kEvent,
          std::string(lint->code.name) + ": " +
              std::string(lint->code.meaning));
    }
    for (const Lint* lint : AllLints()) {
      Add(lint->code.name, Kind::kEvent, lint->code.Id());
    }
  }

  void Packs(bool automatic) {
    for (const std::string& name : PackNames()) {
      if (name == "auto" && !automatic) continue;
      Add(name, Kind::kModule, "rule pack");
    }
  }

  std::vector<std::string> Modes() const {
    std::vector<std::string> out;
    for (const Mode mode : kAllModes) out.emplace_back(ModeName(mode));
    return out;
  }

  void Axes() {
    for (const NameScope& scope : scopes_) {
      for (const MeshAxis& axis : scope.resolver->mesh().axes) {
        Add(axis.name, Kind::kVariable,
            scope.compiled == nullptr
                ? "mesh axis"
                : "mesh axis of " + std::to_string(axis.size));
      }
    }
  }

  // Returns the text that explains an axis rule, such as
  // `batch: ["fsdp", "dp"]`: its name, and the mesh axes to which the first
  // target maps it.
  std::string Meaning(AxisRule rule) const {
    const AxisValue value = scopes_.empty()
                                ? AxisRules{}.Value(rule)
                                : scopes_[0].resolver->axes().Value(rule);
    return std::string(AxisRuleName(rule)) + ": " + GroupText(value.axes);
  }

  void AxisRuleNames() {
    for (size_t i = 0; i < kAxisRuleCount; ++i) {
      const auto rule = static_cast<AxisRule>(i);
      Add(AxisRuleName(rule), Kind::kValue, "axis rule, " + Meaning(rule));
    }
  }

  void Tokens() {
    for (const Token& token : BuiltinTokens()) {
      Add(token.short_name, Kind::kConstant,
          token.rule ? "logical axis, " + Meaning(*token.rule) : "unsharded");
    }
    for (const NameScope& scope : scopes_) {
      for (const Registration& one : scope.rules->registrations) {
        Add(one.name, Kind::kConstant, "registered");
      }
    }
  }

  void Bundles() {
    for (const NameScope& scope : scopes_) {
      for (const std::string& name : scope.resolver->BundleNames()) {
        Add(name, Kind::kStruct, "bundle");
      }
    }
    for (const Bundle& bundle : BuiltinBundles()) {
      Add(bundle.name, Kind::kStruct, "bundle");
    }
  }

  void SpecNames(Path path, bool bundles) {
    if (!context_.In(path)) return;
    // A bundle replaces an entire spec (`spec: ColumnWise`). An entry of a list
    // (`spec: [HEAD, tp]`) cannot be a bundle.
    if (bundles && context_.behind_colon) return Bundles();
    Tokens();
    Axes();
    AxisRuleNames();
  }

  void Rules() {
    Keys(keys::kRules, {});
    if (context_.In({"rules"})) Keys(keys::kRule, {"rules"});
    Keys(keys::kPolicy, {"policy"});
    Keys(keys::kWeightDecay, {"weight_decay"});
    Keys(keys::kStages, {"stages"});
    Keys(keys::kStacked, {"stages", "stacked"});
    Keys(keys::kLike, {"rules", "spec"});
    Keys(keys::kPlace, {"rules", "place"});
    Keys(keys::kRegistration, {"register", "*"});
    Keys(keys::kBundle, {"bundles", "*"});
    if (context_.In({"extends"})) Packs(false);
    SpecNames({"rules", "spec"}, true);
    SpecNames({"rules", "modes", "*"}, true);
    SpecNames({"bundles", "*"}, false);
    SpecNames({"bundles", "*", "axes"}, false);
    SpecNames({"register", "*", "rule"}, false);
    SpecNames({"register", "*", "generation"}, false);
    if (context_.In({"axes"})) AxisRuleNames();
    if (context_.In({"axes", "*"}) || context_.In({"rules", "place", "axis"})) {
      Axes();
    }
    Values({"rules", "modes"}, Modes(), Kind::kProperty, "mode");
    Values({"bundles", "*", "mode"}, Modes(), Kind::kValue, "mode");
    constexpr std::array<std::string_view, 4> kIllegal = {"error", "drop",
                                                          "shrink", "pad"};
    constexpr std::array<std::string_view, 2> kUnmatched = {"error",
                                                            "replicate"};
    constexpr std::array<std::string_view, 3> kCompat = {"none", "eformer",
                                                         "fjformer"};
    Values({"rules", "illegal"}, kIllegal, Kind::kValue, "policy");
    Values({"policy", "illegal"}, kIllegal, Kind::kValue, "policy");
    Values({"policy", "unmatched"}, kUnmatched, Kind::kValue, "policy");
    Values({"policy", "compat"}, kCompat, Kind::kValue, "policy");
  }

  // Adds the keys that a mesh may have at the cursor. `depth` is the number of
  // keys above the mesh: 0 in a mesh file, and more in a project file.
  void MeshKeys(size_t depth) {
    if (context_.keys.size() < depth) return;
    const std::vector<std::string> below(
        context_.keys.begin() + static_cast<std::ptrdiff_t>(depth),
        context_.keys.end());
    if (below.empty() && IsKey()) {
      for (const std::string_view key : keys::kMesh.keys) {
        Add(key, Kind::kProperty, std::string(keys::kMesh.what));
      }
    }
    if (below.empty()) return;
    if (below[0] == "axis_types") {
      for (const char* type : {"auto", "explicit", "manual"}) {
        Add(type, Kind::kValue, "axis type");
      }
    } else if (below[0] == "axes" && IsKey()) {
      for (const AxisRule rule : ParallelismRules()) {
        Add(AxisRules{}.Value(rule).axes[0], Kind::kVariable, "axis");
      }
    } else if (below[0] == "device" && below.size() == 1) {
      for (const std::string_view name : DeviceNames()) {
        Add(name, Kind::kValue, "device");
      }
    }
  }

  void Project() {
    Keys(keys::kProject, {});
    Keys(keys::kTarget, {"targets", "*"});
    Keys(keys::kLint, {"lint"});
    if (context_.In({"targets", "*", "rules"})) Packs(true);
    Values({"targets", "*", "modes"}, Modes(), Kind::kValue, "mode");
    Values({"targets", "*", "operations"}, Modes(), Kind::kProperty, "mode");
    for (const char* key : {"select", "ignore", "severity"}) {
      if (context_.In({"lint", key})) Codes();
    }
    constexpr std::array<std::string_view, 4> kLevels = {"error", "warning",
                                                         "note", "never"};
    Values({"lint", "fail_on"}, kLevels, Kind::kValue, "level");
    if (context_.In({"lint", "severity", "*"})) {
      Values({"lint", "severity", "*"}, std::span(kLevels).first(3),
             Kind::kValue, "level");
    }
    if (context_.keys.size() > 2 && context_.keys[0] == "targets" &&
        context_.keys[2] == "mesh") {
      MeshKeys(3);
    }
  }

  std::vector<NameScope> scopes_;
  FileKind kind_;
  Context context_;
  Completions out_;
  std::set<std::string> seen_;
};

}  // namespace

Completions CompletionsAt(const Workspace& workspace, const Document& document,
                          size_t offset) {
  return Collector(workspace, document, offset).Run();
}

}  // namespace shardc::lsp
