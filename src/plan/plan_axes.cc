#include "plan/plan_axes.h"

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "source/json_form.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

void WriteRules(JsonWriter& json, const AxisRules& rules) {
  std::map<std::string_view, const AxisValue*> given;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    if (const auto& value = rules.Given(rule)) {
      given.emplace(AxisRuleName(rule), &*value);
    }
  }
  json.BeginObject();
  for (const auto& [name, value] : given) {
    if (value->is_null) {
      json.Member(name, nullptr);
    } else {
      json.Member(name, value->axes);
    }
  }
  json.EndObject();
}

}  // namespace

void WritePlanAxes(JsonWriter& json, const PlanAxes& axes) {
  json.BeginObject();
  if (!axes.facts.empty()) {
    json.Records("facts", axes.facts, [&](const AxisFacts& one) {
      json.Members("axis", one.axis, "in_specs", one.in_specs, "tokens",
                   Record("evidence", AxisEvidenceWord(one.tokens_evidence),
                          "have", AxisTokensWord(one.tokens)),
                   "weights",
                   Record("evidence", AxisEvidenceWord(one.use_evidence), "use",
                          AxisUseWord(one.use)));
    });
  }
  json.Key("rules");
  WriteRules(json, axes.rules);
  json.EndObject();
}

std::optional<PlanAxes> ReadPlanAxes(const JsonValue& value, const Mesh& mesh,
                                     Findings& findings) {
  PlanAxes out;
  for (const JsonMember member : MemberOrNull(value, "rules").members()) {
    AxisValue axes;
    axes.is_null = member.value.IsNull();
    for (const JsonValue axis : member.value.items()) {
      axes.axes.emplace_back(axis.string());
    }
    out.rules.Set(*ParseAxisRule(member.name()), std::move(axes));
  }
  for (const JsonValue item : MemberOrNull(value, "facts").items()) {
    const JsonValue name = MemberOrNull(item, "axis");
    if (!mesh.Find(std::string(name.string()))) {
      findings.Add(code::kUnknownName, name.place(),
                   "the plan's mesh has no axis " + ShortQuote(name.string()));
      return std::nullopt;
    }
    const JsonValue tokens = MemberOrNull(item, "tokens");
    const JsonValue weights = MemberOrNull(item, "weights");
    const auto word = [](const JsonValue& of, std::string_view key) {
      return MemberOrNull(of, key).string();
    };
    AxisFacts& facts = out.facts.emplace_back();
    facts.axis = name.string();
    facts.in_specs = MemberOrNull(item, "in_specs").boolean();
    facts.tokens = *ParseAxisTokens(word(tokens, "have"));
    facts.tokens_evidence = *ParseAxisEvidence(word(tokens, "evidence"));
    facts.use = *ParseAxisUse(word(weights, "use"));
    facts.use_evidence = *ParseAxisEvidence(word(weights, "evidence"));
  }
  return out;
}

}  // namespace shardc
