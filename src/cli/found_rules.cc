// Checks rules that were found in a folder: those lints run that need neither a
// mesh nor parameters.
#include "cli/found_rules.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "importers/rules/maxtext_config.h"
#include "importers/rules/python_lists.h"
#include "lint/rules/lint.h"
#include "match/match.h"
#include "match/proof/prover.h"
#include "model/rules.h"
#include "plan/compile.h"
#include "source/config_codes.h"
#include "source/file.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr int64_t kLongestFile = int64_t{1} << 20;

// Returns whether Python's `re` refuses a pattern too. RE2 has no look-around
// and no references, which Python has.
bool IsBrokenEverywhere(const Finding& finding) {
  constexpr std::array<std::string_view, 6> kFaults = {
      "missing )",
      "missing ]",
      "missing closing",
      "unexpected )",
      "no argument for repetition",
      "bad repetition operator"};
  return std::ranges::any_of(kFaults, [&](std::string_view fault) {
    return finding.message.find(fault) != std::string::npos;
  });
}

// Adds an error for each mesh axis that a spec has twice.
void CheckRepeatedAxes(const std::vector<Rule>& rules, Findings& findings) {
  for (const Rule& rule : rules) {
    const auto* spec = std::get_if<SpecList>(&rule.spec);
    if (spec == nullptr) continue;
    std::set<std::string_view> seen;
    for (const SpecEntry& entry : spec->entries) {
      for (const SpecName& name : entry.names) {
        if (seen.insert(name.text).second) continue;
        findings.Add(code::kConfigRefused, rule.place,
                     "the spec of " + ShortQuote(rule.match) +
                         " has the mesh axis " + ShortQuote(name.text) +
                         " twice, which JAX refuses",
                     "remove one of them");
      }
    }
  }
}

// Adds a warning for each rule that no name reaches, because earlier rules
// match all its names.
void CheckNeverApplied(const std::vector<Rule>& rules, Findings& findings) {
  Findings broken;
  const auto matcher = Matcher::Compile(PatternsOf(rules), broken);
  for (const Finding& finding : broken.all()) {
    Finding one = finding;
    if (!IsBrokenEverywhere(finding)) one.level = Level::kNote;
    findings.Add(std::move(one));
  }
  if (!matcher) return;
  Prover prover(*matcher, {.work_per_question = 200'000, .work = 4'000'000});
  const auto proofs = prover.ProveRules();
  for (size_t i = 0; i < proofs.size(); ++i) {
    if (proofs[i].kind != RuleProof::Kind::kNeverWins) continue;
    Finding one;
    one.code = &kShadowedRule.code;
    one.level = kShadowedRule.code.level;
    one.place = rules[i].place;
    one.message = "rule " + ShortQuote(rules[i].match) +
                  " never applies: earlier rules match all its names";
    for (const Cover& cover : proofs[i].covers) {
      one.labels.push_back(
          {rules[cover.rule].place,
           "matches names such as " + ShortQuote(cover.name) + " first"});
    }
    one.help = "move it above them, or remove it";
    findings.Add(std::move(one));
  }
}

}  // namespace

void TakeFindings(const Findings& own, const Selection& selection,
                  CheckedTarget& target) {
  for (const Finding& finding : own.all()) {
    if (!selection.Selects(*finding.code)) continue;
    Finding one = finding;
    const bool of_config =
        IsAmong(finding.code, ConfigCodes()) ||
        finding.code == &code::kInexpressible ||
        finding.code == &kShadowedRule.code ||
        (finding.code == &code::kRegexSyntax && IsBrokenEverywhere(finding));
    if (!of_config) {
      // A file that cannot be read is not understood, which is no fault of it.
      one.level = Level::kNote;
    } else if (finding.level == finding.code->level) {
      // A level that is lower than that of the code is that of this finding.
      one.level = selection.LevelOf(finding);
    }
    target.result.findings.push_back(std::move(one));
  }
}

std::optional<CheckedTarget> CheckFoundRules(const FoundConfig& found,
                                             const Selection& selection,
                                             std::string& text) {
  CheckedTarget out;
  out.name = found.file;
  out.main_file = Place{MakeSource(found.file, "")};
  Findings own;
  const SourceRef source = ReadSource(found.file, own, kLongestFile);
  if (source == nullptr) return std::nullopt;
  if (found.format == "maxtext") {
    const std::string line = imports::CheckMaxtext(source, own);
    text += found.file + ": maxtext: " + line +
            "; what a device holds follows with the logical axes of the "
            "parameters: `shardc import maxtext --names FILE`\n";
  } else {
    const auto lists = imports::ReadPythonLists(source);
    if (lists.empty()) return std::nullopt;
    size_t rules = 0;
    int64_t literal = 0;
    for (const imports::PythonList& list : lists) {
      rules += list.rules.size();
      literal += list.literal_specs;
      CheckRepeatedAxes(list.rules, own);
      CheckNeverApplied(list.rules, own);
    }
    const auto count = static_cast<int64_t>(rules);
    text += found.file + ": rules in Python: " +
            Counted(static_cast<int64_t>(lists.size()), "list") + " of " +
            Counted(count, "rule") +
            (literal < count ? ", " + Counted(count - literal, "spec") +
                                   " of which are no literals and not checked"
                             : "") +
            "; `python3 -m shardc.import_python " + found.file +
            "` writes them as rules\n";
  }
  TakeFindings(own, selection, out);
  return out;
}

}  // namespace shardc::cli
