#include "random_case.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace shardc {
namespace {

const std::vector<std::string> kAxes = {"dp", "fsdp", "ep", "tp", "sp", "x"};
const std::vector<std::string> kTokens = {
    "BATCH", "QUERY_LENGTH", "HEAD", "KV_HEAD", "EMBED", "VOCAB",   "DP",
    "FSDP",  "TP",           "EP",   "SP",      "_",     "HEAD_DIM"};
const std::vector<std::string> kRegistered = {"R0", "R1", "R2"};

void RenameNames(SpecList& list, const std::set<std::string>& axes) {
  for (SpecEntry& entry : list.entries) {
    for (SpecName& name : entry.names) {
      if (axes.contains(name.text)) name.text = Renamed(name.text);
    }
  }
}

void RenameSource(SpecSource& source, const std::set<std::string>& axes) {
  if (auto* list = std::get_if<SpecList>(&source)) RenameNames(*list, axes);
}

void RenameRule(RegisteredRule& rule, const std::set<std::string>& axes) {
  for (auto& name : rule.names) {
    if (axes.contains(name.text)) name.text = Renamed(name.text);
  }
}

}  // namespace

uint64_t FirstSeed() {
  const char* text = std::getenv("SHARDC_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

Mesh RandomCase::RandomMesh() {
  std::vector<std::string> names = kAxes;
  std::shuffle(names.begin(), names.end(), random_);
  Mesh mesh;
  const int64_t count = 1 + Below(5);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t size = Pick(std::vector<int64_t>{1, 2, 2, 3, 4, 8});
    mesh.axes.push_back({names[static_cast<size_t>(i)], size});
    mesh.devices *= size;
  }
  return mesh;
}

Shape RandomCase::RandomShape() {
  static const std::vector<int64_t> kSizes = {0, 1, 2,  3,  4,  6,  7,
                                              8, 9, 12, 16, 24, 48, 96};
  Shape shape(static_cast<size_t>(Below(5)));
  for (int64_t& size : shape) size = Pick(kSizes);
  return shape;
}

AxisGroup RandomCase::RandomGroup(const std::vector<std::string>& axes,
                                  int most) {
  AxisGroup group;
  for (int64_t i = Below(most + 1); i > 0; --i) group.push_back(Pick(axes));
  return group;
}

Spec RandomCase::RandomSpec() {
  Spec spec(static_cast<size_t>(Below(6)));
  for (AxisGroup& group : spec) group = RandomGroup(kAxes, 3);
  return spec;
}

SpecList RandomCase::RandomList(const std::vector<std::string>& names) {
  SpecList list;
  std::set<std::string> written;  // an axis may be written once
  for (int64_t i = Below(5); i > 0; --i) {
    SpecEntry entry;
    for (const std::string& name : RandomGroup(names, 2)) {
      const bool axis =
          std::find(kAxes.begin(), kAxes.end(), name) != kAxes.end();
      if (axis && !written.insert(name).second) continue;
      entry.names.push_back({name, {}});
    }
    entry.is_group = entry.names.size() > 1;
    list.entries.push_back(std::move(entry));
  }
  return list;
}

RuleSet RandomCase::RandomRules(const Mesh& mesh) {
  RuleSet rules;
  for (AxisRule rule : ParallelismRules()) {
    rules.axes.Set(rule, rules.axes.Value(rule));
  }
  for (size_t i = ParallelismRules().size(); i < kAxisRuleCount; ++i) {
    if (!Chance(25)) continue;
    AxisValue value;
    value.is_null = Chance(30);
    std::set<std::string> seen;
    if (!value.is_null) {
      for (const std::string& axis : RandomGroup(kAxes, 2)) {
        if (seen.insert(axis).second) value.axes.push_back(axis);
      }
    }
    rules.axes.Set(static_cast<AxisRule>(i), value);
  }
  for (size_t i = 0; i < kRegistered.size(); ++i) {
    Registration registration;
    registration.name = kRegistered[i];
    registration.rule.is_null = false;
    // A rule names only registrations before its own, so there is no cycle.
    std::vector<std::string> names = {"head", "kv_head", "query_sequence",
                                      "BATCH"};
    names.insert(names.end(), kAxes.begin(), kAxes.end());
    names.insert(names.end(), kRegistered.begin(),
                 kRegistered.begin() + static_cast<ptrdiff_t>(i));
    for (const std::string& name : RandomGroup(names, 2)) {
      registration.rule.names.push_back({name, false});
    }
    rules.registrations.push_back(std::move(registration));
  }
  std::vector<std::string> names = kTokens;
  names.insert(names.end(), kRegistered.begin(), kRegistered.end());
  names.insert(names.end(), {"head", "decode_head", "kv_head"});
  for (const MeshAxis& axis : mesh.axes) names.push_back(axis.name);
  for (int i = 0; i < 6; ++i) {
    Rule rule;
    rule.match = i == 5 ? ".*" : "p" + std::to_string(i) + "$";
    rule.spec = RandomList(names);
    if (Chance(30)) rule.modes[Mode::kDecode] = RandomList(names);
    if (Chance(10)) rule.min_size = Below(40);
    rules.rules.push_back(std::move(rule));
  }
  rules.policy.illegal = Pick(std::vector<IllegalPolicy>{
      IllegalPolicy::kError, IllegalPolicy::kDrop, IllegalPolicy::kShrink});
  return rules;
}

Manifest RandomCase::RandomManifest() {
  ManifestBuilder builder;
  for (int i = 0; i < 12; ++i) {
    builder.Add("a" + std::to_string(i) + "/p" + std::to_string(Below(7)),
                {RandomShape(), Dtype::kBF16});
  }
  Manifest manifest = builder.Take();
  manifest.separator = '/';
  return manifest;
}

std::string Renamed(const std::string& axis) { return "renamed " + axis; }

Mesh Renamed(Mesh mesh) {
  for (MeshAxis& axis : mesh.axes) axis.name = Renamed(axis.name);
  return mesh;
}

Spec Renamed(Spec spec) {
  for (AxisGroup& group : spec) {
    for (std::string& axis : group) axis = Renamed(axis);
  }
  return spec;
}

RuleSet Renamed(RuleSet rules, const Mesh& mesh) {
  std::set<std::string> axes(kAxes.begin(), kAxes.end());
  for (const MeshAxis& axis : mesh.axes) axes.insert(axis.name);
  for (auto& given : rules.axes.given) {
    if (!given) continue;
    for (std::string& axis : given->axes) axis = Renamed(axis);
  }
  for (Registration& registration : rules.registrations) {
    RenameRule(registration.rule, axes);
    if (registration.generation) RenameRule(*registration.generation, axes);
  }
  for (Rule& rule : rules.rules) {
    RenameSource(rule.spec, axes);
    for (auto& [mode, source] : rule.modes) RenameSource(source, axes);
  }
  return rules;
}

}  // namespace shardc
