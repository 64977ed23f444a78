// A rule a line, as RulesText has them, and what is proven of it:
//
//   1  mlp/.*/kernel$  (rules.yaml:5)
//      never wins: [0] takes every name, such as `mlp//kernel`
#include "emit/plans/rule_proofs.h"

#include "emit/plans/rules_text.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string_view KindName(RuleProof::Kind kind) {
  switch (kind) {
    case RuleProof::Kind::kWins:
      return "wins";
    case RuleProof::Kind::kNeverWins:
      return "never_wins";
    case RuleProof::Kind::kMatchesNothing:
      return "matches_nothing";
    case RuleProof::Kind::kNotProven:
      break;
  }
  return "not_proven";
}

std::string CoversText(std::span<const Cover> covers) {
  std::string out;
  for (const Cover& cover : covers) {
    out += (out.empty() ? "" : ", ") + ("[" + std::to_string(cover.rule)) +
           (covers.size() == 1 ? "] takes every name, such as "
                               : "] takes names such as ") +
           ShortQuote(cover.name);
  }
  return out;
}

std::string ProofText(const RuleProof& proof) {
  switch (proof.kind) {
    case RuleProof::Kind::kWins:
      return "wins names such as " + ShortQuote(proof.name);
    case RuleProof::Kind::kNeverWins:
      return "never wins: " + CoversText(proof.covers);
    case RuleProof::Kind::kMatchesNothing:
      return "is found in no name at all";
    case RuleProof::Kind::kNotProven:
      break;
  }
  return "is too large to say";
}

}  // namespace

std::string RuleProofsText(const RuleSet& rules,
                           std::span<const RuleProof> proofs) {
  std::string out = "of all names, not only of one manifest's\n";
  for (size_t i = 0; i < proofs.size(); ++i) {
    std::string number = std::to_string(i);
    if (number.size() < 3) number.insert(0, 3 - number.size(), ' ');
    out += number + "  " + Printable(rules.rules[i].match) + "  (" +
           Printable(RulePlaceText(rules.rules[i])) + ")\n     " +
           ProofText(proofs[i]) + "\n";
  }
  return out;
}

void WriteRuleProofsJson(const RuleSet& rules,
                         std::span<const RuleProof> proofs, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Key("rules");
  json.BeginArray(JsonLayout::kLines);
  for (size_t i = 0; i < proofs.size(); ++i) {
    json.BeginObject();
    json.Member("match", rules.rules[i].match);
    json.Member("source", RulePlaceText(rules.rules[i]));
    json.Member("proof", KindName(proofs[i].kind));
    if (!proofs[i].name.empty()) json.Member("name", proofs[i].name);
    if (!proofs[i].covers.empty()) {
      json.Key("covers");
      json.BeginArray();
      for (const Cover& cover : proofs[i].covers) {
        json.BeginObject();
        json.Member("rule", cover.rule);
        json.Member("name", cover.name);
        json.EndObject();
      }
      json.EndArray();
    }
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
