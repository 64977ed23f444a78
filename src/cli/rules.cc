// `shardc rules`: rules files together as they are matched, or the packs.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/builtin_packs.h"
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "emit/rules_file.h"
#include "emit/rules_text.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

std::string PacksText(bool json) {
  std::string out = json ? "[" : "";
  bool first = true;
  for (const BuiltinPack& pack : BuiltinPacks()) {
    if (json) {
      out += (first ? "" : ", ") + JsonString(pack.FullName());
    } else {
      out += pack.FullName() + "\n";
    }
    first = false;
  }
  return json ? out + "]\n" : out;
}

struct RulesFlags {
  InputFlags inputs;
  bool resolved = false;
};

// One file that means what all of them mean together.
std::optional<std::string> ResolvedFile(const RuleSet& rules,
                                        Findings& findings) {
  if (HasMixedSeparators(rules)) {
    findings.Add(code::kSeparator, rules.rules[0].place,
                 "these rules are written for both separators, and one file "
                 "has one",
                 "show the files one at a time");
    return std::nullopt;
  }
  return RulesFileJson(rules);
}

int RunRules(const RulesFlags& all, const Common& common, Findings& findings) {
  const InputFlags& flags = all.inputs;
  const bool json = common.format == "json";
  Target target;
  target.rules = flags.rules;
  if (!flags.target.empty() || !flags.project.empty()) {
    const auto chosen = ChooseTarget(flags, findings);
    if (!chosen) return kFailed;
    target = *chosen;
  }
  if (target.rules.empty() && !all.resolved) {
    return PutOut(PacksText(json), findings) ? kDone : kFailed;
  }
  // Without files, the defaults of every axis rule.
  const auto rules =
      target.rules.empty()
          ? std::optional(RuleSet{})
          : LoadRules(target.rules, target.project_dir, nullptr, "", findings);
  if (rules) CheckPatterns(*rules, findings);
  if (!rules || findings.HasErrors()) return kFailed;
  if (all.resolved) {
    const auto file = ResolvedFile(*rules, findings);
    return file && PutOut(*file, findings) ? kDone : kFailed;
  }
  return PutOut(json ? RulesJson(*rules) : RulesText(*rules), findings)
             ? kDone
             : kFailed;
}

}  // namespace

Run DeclareRules(CLI::App& app) {
  auto flags = std::make_shared<RulesFlags>();
  app.add_flag("--resolved", flags->resolved,
               "one rules file of all, in JSON, with every axis rule's value; "
               "`--rules` reads it back");
  AddRulesFlags(app, flags->inputs);
  AddProjectFlags(app, flags->inputs);
  return [flags](const Common& common, Findings& findings) {
    return RunRules(*flags, common, findings);
  };
}

}  // namespace shardc::cli
