// Reads rules and specs from the JSON input of a call of `shardc eval`. Their
// JSON text is passed to the reader of rules files, so that it has the same
// meaning as in a file. For example:
//
//   {"rules": {"axes": {"head": "ep"}}}  ->  the rules of `axes: {head: ep}`
#include "eval/inputs.h"

#include "parse/rules.h"
#include "source/file.h"

namespace shardc::eval {

std::optional<RuleSet> RulesOf(Call& call) {
  const std::string name = "rules";
  const SourceRef source = call.Source(name, name);
  if (source == nullptr) return RuleSet{};
  const FileTexts texts = {{FileIdOf(name), std::string(source->text())}};
  const PackLookup no_packs = [](std::string_view) { return nullptr; };
  return ReadRules(std::span(&name, 1), no_packs, call.findings(), nullptr,
                   &texts);
}

std::optional<SpecSource> SpecOf(Call& call, std::string_view key) {
  const SourceRef source = call.Source(key, std::string(key));
  if (source == nullptr) {
    call.Fail("member `" + std::string(key) + "` is missing");
    return std::nullopt;
  }
  return ParseSpec(source, call.findings());
}

std::optional<Spec> MeshSpecOf(Call& call, std::string_view key) {
  const auto source = SpecOf(call, key);
  if (!source) return std::nullopt;
  const auto* list = std::get_if<SpecList>(&*source);
  if (list == nullptr) {
    call.Fail("`" + std::string(key) + "` is no list of mesh axes");
    return std::nullopt;
  }
  Spec spec;
  for (const SpecEntry& entry : list->entries) {
    AxisGroup group;
    for (const SpecName& name : entry.names) group.push_back(name.text);
    spec.push_back(std::move(group));
  }
  return spec;
}

std::optional<Mode> ModeOf(Call& call, std::string_view key) {
  const auto given = call.Find(key);
  const std::string text =
      given && given->IsString() ? std::string(given->string()) : "";
  const auto mode = ParseMode(text);
  if (!mode) {
    call.Fail("`" + std::string(key) + "` is no mode",
              "the modes are train, prefill, decode and insert");
  }
  return mode;
}

Mesh MeshFor(Call& call, const AxisRules& axes) {
  if (call.Has("mesh")) return call.MeshOf("mesh");
  Mesh mesh;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    for (const std::string& axis : axes.Value(static_cast<AxisRule>(i)).axes) {
      if (!mesh.Find(axis)) mesh.axes.push_back({axis, 1});
    }
  }
  return mesh;
}

}  // namespace shardc::eval
