// Prints rules with facts that were proven about them. Each rule has a line
// with its number, pattern and place. The facts follow on the next lines. For
// example, rule 1 never wins, because rule 0 comes first and matches every name
// that rule 1 matches. The line shows one such name:
//
//   1  mlp/.*/kernel$  (rules.yaml:5)
//      never wins: [0] matches all its names, such as `mlp//kernel`
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
           (covers.size() == 1 ? "] matches all its names, such as "
                               : "] matches names such as ") +
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
      return "matches no possible name";
    case RuleProof::Kind::kNotProven:
      break;
  }
  return "not proven: the pattern is too large";
}

// Returns ascending numbers as text. Three or more consecutive numbers are
// written as a range:
//
//   0, 1, 2, 5  ->  [0] to [2], [5]
std::string RangesText(std::span<const uint32_t> numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i == 2) end = i + 1;
    out += (out.empty() ? "[" : ", [") + std::to_string(numbers[i]) + "]";
    if (end - i > 1) out += " to [" + std::to_string(numbers[end - 1]) + "]";
    i = end;
  }
  return out;
}

// Returns how the names that a rule matches are related to the names that
// earlier rules match. An earlier rule that matches all names of this rule is
// left out, because the line "never wins" already names the earlier rule. For
// example:
//
//   covers all names of [0], [2]
//   shares names with [1], such as `q_proj.bias`
std::string RelatedText(uint32_t rule, const RelatedRules& related) {
  std::vector<uint32_t> within;
  std::string shared;
  for (const auto& pair : related.pairs) {
    if (pair.second != rule) continue;
    if (pair.proof.kind == PairProof::Kind::kWithin) {
      within.push_back(pair.first);
    } else if (pair.proof.kind == PairProof::Kind::kOverlap) {
      shared += (shared.empty() ? "[" : "; [") + std::to_string(pair.first) +
                "], such as " + ShortQuote(pair.proof.both);
    }
  }
  std::string out;
  if (!within.empty()) {
    out += "     covers all names of " + RangesText(within) + "\n";
  }
  if (!shared.empty()) out += "     shares names with " + shared + "\n";
  return out;
}

std::string_view RelationName(PairProof::Kind kind) {
  switch (kind) {
    case PairProof::Kind::kApart:
      return "apart";
    case PairProof::Kind::kSame:
      return "same";
    case PairProof::Kind::kContains:
      return "contains";
    case PairProof::Kind::kWithin:
      return "within";
    case PairProof::Kind::kOverlap:
      return "overlap";
    case PairProof::Kind::kNotProven:
      break;
  }
  return "not_proven";
}

void WriteProof(JsonWriter& json, const Rule& rule, const RuleProof& proof) {
  json.BeginObject();
  json.Member("match", rule.match);
  json.Member("source", RulePlaceText(rule));
  json.Member("proof", KindName(proof.kind));
  if (!proof.name.empty()) json.Member("name", proof.name);
  if (!proof.covers.empty()) {
    json.Key("covers");
    json.BeginArray();
    for (const Cover& cover : proof.covers) {
      json.BeginObject();
      json.Member("rule", cover.rule);
      json.Member("name", cover.name);
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
}

void WritePair(JsonWriter& json, const RelatedRules::Pair& pair) {
  json.BeginObject();
  json.Member("first", pair.first);
  json.Member("second", pair.second);
  json.Member("relation", RelationName(pair.proof.kind));
  json.Member("both", pair.proof.both);
  if (!pair.proof.only_first.empty()) {
    json.Member("only_first", pair.proof.only_first);
  }
  if (!pair.proof.only_second.empty()) {
    json.Member("only_second", pair.proof.only_second);
  }
  json.EndObject();
}

}  // namespace

std::string RuleProofsText(const RuleSet& rules, const RuleProofs& proofs) {
  std::string out =
      "proven for all possible names, not only for one manifest's\n";
  for (size_t i = 0; i < proofs.of_rules.size(); ++i) {
    std::string number = std::to_string(i);
    if (number.size() < 3) number.insert(0, 3 - number.size(), ' ');
    out += number + "  " + Printable(rules.rules[i].match) + "  (" +
           Printable(RulePlaceText(rules.rules[i])) + ")\n     " +
           ProofText(proofs.of_rules[i]) + "\n" +
           RelatedText(static_cast<uint32_t>(i), proofs.related);
  }
  const int64_t open = proofs.related.pairs_not_proven;
  if (open > 0) {
    out += Counted(open, "pair") +
           " of rules not compared: too many pairs, or too large patterns\n";
  }
  return out;
}

void WriteRuleProofsJson(const RuleSet& rules, const RuleProofs& proofs,
                         Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Key("rules");
  json.BeginArray(JsonLayout::kLines);
  for (size_t i = 0; i < proofs.of_rules.size(); ++i) {
    WriteProof(json, rules.rules[i], proofs.of_rules[i]);
  }
  json.EndArray();
  json.Key("pairs");
  json.BeginArray(JsonLayout::kLines);
  for (const auto& pair : proofs.related.pairs) WritePair(json, pair);
  json.EndArray();
  json.Member("pairs_apart", proofs.related.pairs_apart);
  json.Member("pairs_not_proven", proofs.related.pairs_not_proven);
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
