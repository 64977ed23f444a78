// Lints about rules that match no parameter, about parameters that no rule
// matches, and about the usual causes: patterns for another system's names, for
// another separator, or in another case.
//
//   rule `self_attn/q_proj`, name `self_attn.q_proj.weight`  ->  SHD113
#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/pattern_faults.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "match/globs.h"
#include "match/sketch.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc {

// Reports that the rules were written for a model with other names, in one
// finding for the complete rule set. lint/analysis/facts.cc detects such rules.
// This file counts them for the message.
//
//   rules for JAX names, parameters with PyTorch names  ->  2 of 2 rules match
//   nothing, and 0 of 2 parameters match a rule
void CheckOtherNaming(const Facts& facts, FindingSink& sink) {
  if (!facts.OtherNaming()) return;
  int64_t specific = 0;
  int64_t dead = 0;
  int32_t first = -1;
  LintFinding finding = FindingAt(kOtherNaming.code);
  finding.reports = NamingTopics(facts);
  // If a wrong separator explains why the rules match nothing, this finding is
  // redundant.
  if (SeparatorExplainsNaming(facts)) finding.unless = {NamingTopic()};
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    if (rule.sketch.catch_all) continue;
    ++specific;
    if (rule.found > 0) continue;
    ++dead;
    if (first < 0) first = static_cast<int32_t>(r);
  }
  const auto params = static_cast<int64_t>(facts.plan().params.size());
  int64_t whole = 0;
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Replicated(group)) whole += facts.TotalBytes(group);
  }
  finding.place = facts.RulePlace(first);
  finding.message = std::to_string(dead) + " of " + Counted(specific, "rule") +
                    " match nothing here and " + CountText(facts.applied()) +
                    " of " + Counted(params, "parameter") + " (" +
                    PercentText(facts.applied(), params) + ") match" +
                    (facts.applied() == 1 ? "es" : "") +
                    " a rule other than a catch-all" +
                    (whole > 0 ? ": " + BytesText(whole) +
                                     " are replicated on " + EveryDevice(facts)
                               : "");
  const std::string& pattern = facts.rules()[static_cast<size_t>(first)].match;
  if (const auto regex = RegexOfGlob(pattern)) {
    finding.help = "a pattern is a regular expression and not a glob: write " +
                   Quoted(*regex) + " for " + Quoted(pattern);
    sink.push_back(std::move(finding));
    return;
  }
  finding.help =
      "use rules for these names; the rules seem to be written for another "
      "framework's: a parameter here is " +
      Quoted(facts.plan().names.front()) + ", the first rule has " +
      Quoted(pattern);
  sink.push_back(std::move(finding));
}

// Reports parameters that no rule matches, with one finding for each parameter
// group. The tensors of a quantised checkpoint share one finding if the rules
// name the weights for which these tensors stand:
//
//   q_proj.qweight, q_proj.scales   rules for q_proj.weight  ->  one finding
//
// A scale next to a weight that a rule matches has no finding if it has at most
// one number for each output. Every device can hold it, as a norm:
//
//   q_proj.weight [4096, 4096], q_proj.weight_scale [4096, 1]  ->  none
namespace {

// The names of the tensors that stand for a module's `weight` in a quantised
// checkpoint. Each list begins with the tensor that holds the numbers.
constexpr std::array<std::array<std::string_view, 5>, 2> kQuantised = {{
    {"qweight", "qzeros", "scales", "g_idx", "zeros"},
    {"weight_packed", "weight_scale", "weight_shape", "weight_zero_point",
     "weight_g_idx"},
}};

// The unmatched tensors of quantised weights whose modules have a rule for
// `weight`.
struct QuantisedTensors {
  std::vector<const ParameterGroup*> groups;
  int64_t params = 0, bytes = 0;
  std::string weight;         // the weight for which the first tensor stands
  bool packs_output = false;  // whether numbers hold columns, as in AWQ
};

std::string_view NameOf(const Facts& facts, const ParameterGroup& group) {
  return facts.plan().names[facts.Members(group).front()];
}

// Returns the module of a tensor and the list of kQuantised that has its name.
std::pair<std::string_view, size_t> ModuleOf(std::string_view name,
                                             char separator) {
  const size_t at = name.rfind(separator);
  size_t list = kQuantised.size();
  if (at == name.npos) return {name, list};
  for (size_t i = 0; i < kQuantised.size(); ++i) {
    if (IsAmong(name.substr(at + 1), kQuantised[i])) list = i;
  }
  return {name.substr(0, at), list};
}

QuantisedTensors QuantisedTensorsOf(const Facts& facts) {
  QuantisedTensors out;
  const char separator = facts.separator();
  std::map<std::string_view, std::vector<const ParameterGroup*>> modules;
  std::vector<std::string> weights;
  std::vector<std::string_view> of;
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.LayoutOf(group).unmatched) continue;
    const std::string_view name = NameOf(facts, group);
    const auto [module, list] = ModuleOf(name, separator);
    if (list == kQuantised.size()) continue;
    modules[module].push_back(&group);
    if (!name.ends_with(kQuantised[list].front())) continue;
    of.push_back(module);
    weights.push_back(std::string(module) + separator + "weight");
  }
  if (weights.empty() || facts.compiled().matcher == nullptr) return out;
  const std::vector<std::string_view> names(weights.begin(), weights.end());
  const Matches matches = facts.compiled().matcher->Match(names, separator);
  for (size_t i = 0; i < names.size(); ++i) {
    if (matches.first[i] < 0) continue;
    if (out.weight.empty()) out.weight = weights[i];
    int64_t columns = 0, scales = 0;
    for (const ParameterGroup* group : modules.at(of[i])) {
      const std::string_view name = NameOf(facts, *group);
      const auto& shape = facts.TypeOf(*group).shape;
      out.groups.push_back(group);
      out.params += group->count();
      out.bytes += facts.TotalBytes(*group);
      if (!shape || shape->size() != 2) continue;
      if (name.ends_with("qweight")) columns = shape->back();
      if (name.ends_with("scales")) scales = shape->back();
    }
    out.packs_output = out.packs_output || (columns > 0 && columns < scales);
  }
  return out;
}

// Returns whether the tensors are scales with at most one number for each
// output of the weight next to them, which a rule matches. llm-compressor
// writes such scales next to weights in 8 bits.
bool AreScalesOfWeights(const Facts& facts, const ParameterGroup& group) {
  constexpr std::array<std::string_view, 2> kScales = {"weight_scale",
                                                       "input_scale"};
  const std::string_view name = NameOf(facts, group);
  const size_t at = name.rfind(facts.separator());
  if (at == name.npos || !IsAmong(name.substr(at + 1), kScales)) return false;
  const std::string weight = std::string(name.substr(0, at + 1)) + "weight";
  const auto& plan = facts.plan();
  for (size_t i = 0; i < plan.names.size(); ++i) {
    if (plan.names[i] != weight) continue;
    const auto& layout = plan.layouts[plan.params[i].layout];
    const auto& shape = plan.types[layout.type].shape;
    const auto numbers = facts.TypeOf(group).Elements();
    return !layout.unmatched && shape && shape->size() > 1 && numbers &&
           *numbers <= shape->front();
  }
  return false;
}

LintFinding QuantisedFinding(const Facts& facts, const QuantisedTensors& all) {
  const std::string_view first = NameOf(facts, *all.groups.front());
  const bool packed = first.find("weight_") != first.npos;
  const std::string scheme = packed             ? "compressed-tensors"
                             : all.packs_output ? "AWQ"
                                                : "GPTQ";
  LintFinding out = FindingAt(kUnmatchedParameter.code);
  out.message = "this is a tree of " + scheme + ": no rule matches " +
                Counted(all.params, "tensor") + " of quantised weights, " +
                BytesText(all.bytes) + " in all, such as " + Quoted(first) +
                "; the rules name " + Quoted(all.weight);
  out.help =
      std::string(
          "use rules for the stored tensors, which `shardc suggest` "
          "writes") +
      (packed ? ""
       : all.packs_output
           ? ": `weight` is [out, in], `qweight` is [in, out / N] with N "
             "weights in a number"
           : ": `weight` is [out, in], `qweight` is [in / N, out] with N "
             "weights in a number");
  for (const ParameterGroup* group : all.groups) {
    facts.AddNames(facts.Members(*group), out);
  }
  return out;
}

}  // namespace

void CheckUnmatchedParameter(const Facts& facts, FindingSink& sink) {
  if (facts.compiled().Unmatched() != UnmatchedPolicy::kError) return;
  const QuantisedTensors quantised = QuantisedTensorsOf(facts);
  if (!quantised.groups.empty()) {
    sink.push_back(QuantisedFinding(facts, quantised));
  }
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.LayoutOf(group).unmatched) continue;
    if (IsAmong(&group, quantised.groups) || AreScalesOfWeights(facts, group)) {
      continue;
    }
    LintFinding finding = GroupFinding(
        facts, kUnmatchedParameter.code, group,
        "no rule matches " + ParametersText(facts, group) +
            (facts.TotalBytes(group) > 0
                 ? ", " + BytesText(facts.TotalBytes(group)) + " in all"
                 : ""),
        "write a rule for it, or set `policy: {unmatched: replicate}`");
    // Findings without a subject are not joined. Each parameter group needs its
    // own rule, so each has its own finding.
    finding.subject.clear();
    finding.unless = {UnmatchedTopic(facts.Example(group))};
    if (const auto intended = facts.nearest().Of(group.name)) {
      finding.labels.push_back(
          {facts.RulePlace(intended->rule),
           "the nearest rule has " + Quoted(intended->written) +
               " where the name has " + Quoted(intended->found)});
      // The help names a second rule if that rule is almost as near to the
      // name.
      const auto second = facts.nearest().Of(
          group.name, NearestRules::Among::kAll, {intended->rule});
      const bool two = second && second->rule != intended->rule &&
                       second->matched >= intended->matched &&
                       EditsOf(*second) <= EditsOf(*intended) + 1;
      if (two) {
        finding.labels.push_back(
            {facts.RulePlace(second->rule),
             "as near: this rule has " + Quoted(second->written) +
                 " where the name has " + Quoted(second->found)});
      }
      if (!intended->rewrite.empty()) {
        finding.help = "was " + Quoted(intended->rewrite) +
                       (two && !second->rewrite.empty() &&
                                second->rewrite != intended->rewrite
                            ? " or " + Quoted(second->rewrite)
                            : "") +
                       " intended?";
      }
    }
    sink.push_back(std::move(finding));
  }
}

// Reports rules that match no parameter (dead rules) as warnings. A dead rule
// is only a note if the last parts of its pattern name a parameter that only
// some models of a family have, such as a bias. It stays a warning if a large
// parameter has a similar name and no rule, or only a catch-all, matches this
// parameter.
//
//   self_attn/q_proj/bias  ->  note      unbiased/kernel  ->  warning
namespace {

// Parts of names that mark a parameter as optional, because only some models of
// a family have it. The last part of the name is in kOptionalLeaves, as in
// `q_proj/bias`, or in kOptionalModules, as in `lm_head`. If the last part is
// in kLeaves, the part before it may be in kOptionalModules, as in
// `lm_head/kernel`.
constexpr std::array<std::string_view, 3> kOptionalLeaves = {"bias", "scale",
                                                             "scales"};
constexpr std::array<std::string_view, 6> kLeaves = {
    "kernel", "weight", "bias", "scale", "embedding", "weights"};
constexpr std::array<std::string_view, 11> kOptionalModules = {
    "lm_head",
    "score",
    "classifier",
    "head",
    "wte",
    "wpe",
    "pooler",
    "embed_tokens",
    "embed_positions",
    "position_embeddings",
    "position_embedding"};

bool IsNorm(std::string_view word) {
  while (!word.empty() && word.back() >= '0' && word.back() <= '9') {
    word.remove_suffix(1);
  }
  if (word.ends_with('_')) word.remove_suffix(1);
  return word.ends_with("norm") || word.ends_with("Norm") ||
         word.starts_with("ln_") || word == "ln";
}

// Returns the text without kWild and kAnyChar, which represent wildcards.
std::string Literal(std::string text) {
  std::erase(text, Sketch::kWild);
  std::erase(text, Sketch::kAnyChar);
  return text;
}

// Returns whether a pattern's text ends with a parameter or module that not
// every model has. Complete parts are compared, because `unbiased` contains
// `bias` but is not a bias.
//
//   ln_f/scale  ->  optional     head_proj/kernel  ->  not optional
bool IsOptionalText(std::string_view text, char separator) {
  const std::vector<std::string> parts = SketchSegments(text, separator);
  if (parts.empty()) return false;
  const std::string last = Literal(parts.back());
  if (IsAmong(last, kOptionalLeaves)) return true;
  const std::string module = parts.size() > 1 && IsAmong(last, kLeaves)
                                 ? Literal(parts[parts.size() - 2])
                                 : last;
  return IsAmong(module, kOptionalModules) || IsNorm(module);
}

bool IsOptional(const Sketch& sketch, char separator) {
  return !sketch.texts.empty() &&
         std::all_of(sketch.texts.begin(), sketch.texts.end(),
                     [&](const std::string& text) {
                       return IsOptionalText(text, separator);
                     });
}

struct NearName {
  const ParameterGroup* group = nullptr;
  std::string rewrite;
  int64_t edits = 0;
  // The pattern rewritten to match a second name, whose edit distance to the
  // pattern is at most 1 more than that of the first name. Empty if there is no
  // such name.
  std::string also;
};

// Returns the dead rules that were probably intended for a large parameter that
// no rule, or only a catch-all, matches.
std::set<int32_t> Intended(const Facts& facts) {
  std::set<int32_t> out;
  for (const ParameterGroup& group : facts.groups()) {
    const bool fallen =
        group.rule < 0 ||
        facts.rule_facts()[static_cast<size_t>(group.rule)].sketch.catch_all;
    if (!fallen || facts.Elements(group) < kLargeElements) continue;
    const auto near =
        facts.nearest().Of(group.name, NearestRules::Among::kDead);
    if (near) out.insert(near->rule);
  }
  return out;
}

// Returns, keyed by dead rule, the name in the tree that is nearest to the
// rule's pattern, and the pattern rewritten to match that name. Returns an
// empty map if there are so many names and rules that comparing them would take
// long.
std::map<int32_t, NearName> NearNames(const Facts& facts) {
  constexpr size_t kMostComparisons = 200000;
  std::map<int32_t, NearName> out;
  const size_t rules = facts.rule_facts().size();
  if (rules * facts.groups().size() > kMostComparisons) return out;
  for (const ParameterGroup& group : facts.groups()) {
    const auto near =
        facts.nearest().Of(group.name, NearestRules::Among::kDead);
    if (!near || near->rewrite.empty()) continue;
    const int64_t edits = EditsOf(*near);
    const auto longest = static_cast<int64_t>(
        std::max(near->written.size(), near->found.size()));
    // If more than half of the letters differ, the name is another word and not
    // a typing error.
    if (2 * edits > longest) continue;
    NearName& best = out[near->rule];
    if (best.group == nullptr || edits < best.edits) {
      best = {&group, near->rewrite, edits, {}};
    } else if (edits <= best.edits + 1 && near->rewrite != best.rewrite &&
               best.also.empty()) {
      best.also = near->rewrite;
    }
  }
  return out;
}

std::string HelpFor(const Facts& facts, const NearName& near) {
  return "the tree has " + Quoted(GroupName(facts, *near.group)) + ": write " +
         Quoted(near.rewrite) +
         (near.also.empty() ? "" : " or " + Quoted(near.also)) +
         ", or remove the rule";
}

}  // namespace

void CheckDeadRule(const Facts& facts, FindingSink& sink) {
  if (facts.plan().params.empty()) return;
  const std::set<int32_t> intended = Intended(facts);
  const std::map<int32_t, NearName> near_names = NearNames(facts);
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    if (rule.found > 0 || rule.builtin) continue;
    const std::string& pattern = facts.rules()[r].match;
    const auto bounded = WithLowerBounds(pattern);
    const bool optional = !bounded &&
                          intended.count(static_cast<int32_t>(r)) == 0 &&
                          IsOptional(rule.sketch, facts.rules()[r].separator);
    LintFinding finding;
    // If another finding explains why the rule is dead, this finding is
    // redundant.
    finding.unless = {DeadRuleTopic(r)};
    finding.code = &kDeadRule.code;
    finding.level = optional ? Level::kNote : kDeadRule.code.level;
    finding.place = facts.RulePlace(static_cast<int32_t>(r));
    finding.message = "rule " + Quoted(pattern) + " matches no parameter";
    const auto near = near_names.find(static_cast<int32_t>(r));
    const auto regex = RegexOfGlob(pattern);
    finding.help =
        regex ? "a pattern is a regular expression and not a glob: write " +
                    Quoted(*regex)
        : bounded ? "RE2 matches a repetition without a lower bound literally, "
                    "unlike Python's `re`: write " +
                        Quoted(*bounded)
        : optional ? "remove it if none of your models has such a parameter"
        : near == near_names.end() ? "correct the path, or remove the rule"
                                   : HelpFor(facts, near->second);
    sink.push_back(std::move(finding));
  }
}

// Reports rules files whose separator is wrong. The separator, `/` or `.`, is
// the character between the parts of a name. lint/analysis/facts.cc tests
// whether a dead rule (a rule that matches nothing) would match with the other
// separator. All such rules of a file are one finding, because the separator is
// a setting of the file.
//
//   `self_attn\.q_proj` in a file with separator `/`  ->  reported, because the
//   pattern matches if the names are written with dots
namespace {

// Returns the text of this separator in a pattern.
std::string Written(char separator) { return separator == '.' ? "\\." : "/"; }

// Returns whether the file has a rule that matches and whose pattern contains
// the file's separator. With the other separator, this rule would match
// nothing.
bool NeedsSeparator(const Facts& facts, const Source* file) {
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    const Rule& rule = facts.rules()[r];
    if (rule.place.source.get() != file || facts.rule_facts()[r].found == 0) {
      continue;
    }
    if (rule.match.find(Written(rule.separator)) != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

void CheckSeparatorMismatch(const Facts& facts, FindingSink& sink) {
  std::vector<std::pair<const Source*, std::vector<int32_t>>> files;
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    if (facts.rule_facts()[r].cause != DeadCause::kSeparator) continue;
    const Source* file = facts.rules()[r].place.source.get();
    if (files.empty() || files.back().first != file) {
      files.push_back({file, {}});
    }
    files.back().second.push_back(static_cast<int32_t>(r));
  }
  const bool explains = SeparatorExplainsNaming(facts);
  for (const auto& [file, dead] : files) {
    const Rule& rule = facts.rules()[static_cast<size_t>(dead.front())];
    const char other = rule.separator == '/' ? '.' : '/';
    const auto group = static_cast<size_t>(
        facts.rule_facts()[static_cast<size_t>(dead.front())].would_match);
    LintFinding finding =
        FindingAt(kSeparatorMismatch.code, facts.RulePlace(dead.front()));
    if (explains) {
      finding.reports = NamingTopics(facts);
      finding.reports.push_back(NamingTopic());
    }
    for (int32_t one : dead) {
      finding.reports.push_back(DeadRuleTopic(static_cast<size_t>(one)));
    }
    finding.message =
        Counted(static_cast<int64_t>(dead.size()), "rule") +
        (dead.size() == 1 ? " matches nothing because its pattern is"
                          : " match nothing because their patterns are") +
        " written with " + Quoted(std::string(1, other)) +
        " and the file's separator is " +
        Quoted(std::string(1, rule.separator)) + ": " + Quoted(rule.match) +
        " would match " + Quoted(facts.Example(facts.groups()[group]));
    finding.help =
        NeedsSeparator(facts, file)
            ? "write " + Quoted(Written(rule.separator)) + " for " +
                  Quoted(Written(other)) +
                  (dead.size() == 1 ? " in the pattern" : " in the patterns")
            : "set `separator: \"" + std::string(1, other) +
                  "\"` in the rules file";
    sink.push_back(std::move(finding));
  }
}

void CheckCaseMismatch(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    if (rule.cause != DeadCause::kCase) continue;
    LintFinding finding =
        FindingAt(kCaseMismatch.code, facts.RulePlace(static_cast<int32_t>(r)));
    finding.reports = {DeadRuleTopic(r)};
    finding.message =
        "rule " + Quoted(facts.rules()[r].match) +
        " matches nothing; if case is ignored, it matches " +
        Quoted(facts.Example(
            facts.groups()[static_cast<size_t>(rule.would_match)]));
    finding.help = "write the pattern in the case of the names";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
