// Reports bundles and registrations that nothing uses. All names that specs,
// bundles, registrations, attention's tensors and the `model:` section use are
// collected. Surrounding underscores of a name are ignored. Definitions in
// packs (rules inside the program) are not reported. For example:
//
//   bundles: {QKV: ...}, and no `spec: QKV`  ->  bundle `QKV` is unused
#include <set>
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "model/model_description.h"
#include "model/pack_name.h"
#include "resolve/attention.h"

namespace shardc {
namespace {

bool InPack(const Place& place) {
  return place.source != nullptr && IsPackName(place.source->name());
}

std::string Bare(std::string_view name) {
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) {
    name = name.substr(2, name.size() - 4);
  }
  return std::string(name);
}

class Uses {
 public:
  explicit Uses(const Facts& facts) {
    const RuleSet& set = facts.compiled().rules;
    for (const Rule& rule : set.rules) {
      Take(rule.spec);
      for (const auto& [mode, spec] : rule.modes) Take(spec);
    }
    for (const Bundle& bundle : set.bundles) TakeList(bundle.axes);
    for (const Registration& one : set.registrations) {
      TakeRule(one.rule);
      if (one.generation) TakeRule(*one.generation);
    }
    const auto& resolver = facts.compiled().resolver;
    if (resolver) {
      for (const auto& tensor : AttentionSpecs(*resolver, Mode::kTrain, {})) {
        for (const std::string_view token : tensor.tokens) {
          names_.insert(Bare(token));
        }
      }
    }
    if (set.model == nullptr) return;
    for (const auto& [dim, axis] : set.model->axes) names_.insert(Bare(axis));
  }
  bool HasName(const std::string& name) const {
    return names_.count(Bare(name)) > 0;
  }
  bool HasBundle(const std::string& name) const {
    return bundles_.count(name) > 0;
  }

 private:
  void TakeList(const SpecList& list) {
    for (const SpecEntry& entry : list.entries) {
      for (const SpecName& name : entry.names) {
        if (!name.is_mesh_axis) names_.insert(Bare(name.text));
      }
    }
  }
  void TakeRule(const RegisteredRule& rule) {
    for (const auto& name : rule.names) {
      if (!name.forced_axis) names_.insert(Bare(name.text));
    }
  }
  void Take(const SpecSource& spec) {
    if (const auto* list = std::get_if<SpecList>(&spec)) TakeList(*list);
    if (const auto* bundle = std::get_if<SpecBundle>(&spec)) {
      bundles_.insert(bundle->name);
    }
  }
  std::set<std::string> names_;
  std::set<std::string> bundles_;
};

void Report(FindingSink& sink, const Place& place, const std::string& what,
            const std::string& name) {
  LintFinding finding = FindingAt(kUnusedDefinition.code, place);
  finding.message = what + " " + Quoted(name) + " is used by no spec";
  finding.help = "remove it";
  sink.push_back(std::move(finding));
}

}  // namespace

void CheckUnusedDefinition(const Facts& facts, FindingSink& sink) {
  const RuleSet& set = facts.compiled().rules;
  const Uses uses(facts);
  for (const Bundle& bundle : set.bundles) {
    if (!InPack(bundle.place) && !uses.HasBundle(bundle.name)) {
      Report(sink, bundle.place, "bundle", bundle.name);
    }
  }
  for (const Registration& one : set.registrations) {
    if (!InPack(one.place) && !uses.HasName(one.name)) {
      Report(sink, one.place,
             one.override_existing ? "override" : "registration", one.name);
    }
  }
}

}  // namespace shardc
