// Reports rules files whose separator is wrong. The separator, `/` or `.`, is
// the character between the parts of a name. lint/analysis/facts.cc tests
// whether a dead rule (a rule that matches nothing) would match with the other
// separator. All such rules of a file are one finding, because the separator is
// a setting of the file.
//
//   `self_attn\.q_proj` in a file with separator `/`  ->  reported, because the
//   pattern matches if the names are written with dots
#include <map>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
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

}  // namespace shardc
