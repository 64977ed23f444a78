// `shardc rules`: rules files together as they are matched, or the packs.
// --resolved makes one file of them, which --rules reads back to the same.
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "emit/plans/rules_file.h"
#include "emit/plans/rules_text.h"
#include "source/json_writer.h"
#include "source/wording.h"
#include "target/packs.h"

namespace shardc::cli {
namespace {

void WritePacks(bool json, Sink& out) {
  if (json) {
    JsonWriter(out).Array(BuiltinPacks(), &BuiltinPack::FullName);
    out.Put('\n');
    return;
  }
  for (const BuiltinPack& pack : BuiltinPacks()) {
    out.Append(pack.FullName() + "\n");
  }
}

struct RulesFlags {
  InputFlags inputs;
  bool resolved = false;
};

// The one file's text as it stands, with its comments; others are told apart
// by showing them one at a time.
int PutText(const Target& target, const RuleSet& rules, Findings& findings) {
  if (target.rules.size() == 1) {
    return PutOut(rules.sources.front()->text(), findings) ? kDone : kFailed;
  }
  findings.Add(code::kUsage, {},
               "`--format yaml` prints one file as it stands, and " +
                   Counted(static_cast<int64_t>(target.rules.size()), "file") +
                   " are named",
               "name one, or take `--resolved`, which makes one of all");
  return kFailed;
}

// Whether one file can mean what all of them mean together.
bool FitsOneFile(const RuleSet& rules, Findings& findings) {
  if (!HasMixedSeparators(rules)) return true;
  findings.Add(code::kSeparator, rules.rules[0].place,
               "these rules are written for both separators, and one file "
               "has one",
               "show the files one at a time");
  return false;
}

int RunRules(const RulesFlags& all, const Common& common, Findings& findings) {
  const InputFlags& flags = all.inputs;
  const bool json = common.format == "json";
  Target target;
  target.rules = flags.asked.rules;
  if (!flags.asked.target.empty() || !flags.asked.project.empty()) {
    const auto chosen = ChooseTarget(flags.asked, findings);
    if (!chosen) return kFailed;
    target = *chosen;
  }
  if (target.rules.empty() && !all.resolved) {
    const auto write = [&](Sink& out) { WritePacks(json, out); };
    return PutOut(write, findings) ? kDone : kFailed;
  }
  // Without files, the defaults of every axis rule.
  auto rules =
      target.rules.empty()
          ? std::optional(RuleSet{})
          : OpenRules(target.rules, target.project_dir, nullptr, "", findings);
  if (rules) {
    SettleSeparators(*rules, '/', rules->policy.compat.value_or(Compat::kNone),
                     findings);
    CheckPatterns(*rules, findings);
  }
  if (!rules || findings.HasErrors()) return kFailed;
  if (common.format == "yaml" && !all.resolved) {
    return PutText(target, *rules, findings);
  }
  if (all.resolved && !FitsOneFile(*rules, findings)) return kFailed;
  const auto write = [&](Sink& out) {
    if (all.resolved) {
      WriteRulesFileJson(*rules, out);
    } else if (json) {
      WriteRulesJson(*rules, out);
    } else {
      out.Append(RulesText(*rules));
    }
  };
  return PutOut(write, findings) ? kDone : kFailed;
}

Options OptionsOf(RulesFlags& flags) {
  Options options = {
      {.name = "--resolved",
       .to = &flags.resolved,
       .help = "one rules file of all, in JSON, with every axis rule's value; "
               "`--rules` reads it back"}};
  Append(options, RulesInputs(flags.inputs));
  Append(options, ProjectInputs(flags.inputs));
  return options;
}

}  // namespace

const Command kRules = {
    .name = "rules",
    .summary = "show rules files together, or the packs",
    .about = R"(
Shows rules files as they are read, with what they extend; without `--rules`,
lists the packs. With `--format yaml` one file or pack is printed as it stands,
comments included, to start one of your own from.)",
    .example = "shardc rules --rules builtin:llama/flax",
    .formats = "text|json|yaml",
    .declare = [] { return Declare(OptionsOf, RunRules); },
};

}  // namespace shardc::cli
