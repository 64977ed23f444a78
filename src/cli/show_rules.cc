// `shardc show rules`: prints rules files in the order of matching, or lists
// the packs (rules for a model family that are built into the program, such as
// `builtin:llama/hf`). --resolved merges the files into one file with the same
// rules. The sections `model` and `stages` are left out. With a plan, or with a
// mesh and parameters, draws the parameters that each rule won.
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/pictured.h"
#include "cli/planned.h"
#include "emit/pictures/line.h"
#include "emit/plans/rules_file.h"
#include "match/proof/prover.h"
#include "model/model_description.h"
#include "parse/rules.h"
#include "picture/fold.h"
#include "plan/compile.h"
#include "plan/mesh_purposes.h"
#include "source/json_writer.h"
#include "source/wording.h"
#include "target/choose.h"

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
  PictureFlags style;
  std::string plan, output;
  bool allow_edited = false;
  bool resolved = false;
  bool prove = false;

  // Whether there are parameters that rules win.
  bool Wins() const {
    const TargetRequest& asked = inputs.asked;
    return !plan.empty() || !asked.manifest.empty() || !asked.model.empty() ||
           !asked.mesh.empty();
  }
};

// Draws how many parameters, and how many bytes, each rule won.
int DrawWon(const RulesFlags& flags, const Common& common, Findings& findings) {
  const auto style = StyleOf(flags.style, common, findings);
  const auto target = TargetOrPlan(flags.inputs, flags.plan, findings);
  if (!target || !style) return kFailed;
  bool found = false;
  const auto planned =
      LoadPlanned(flags.inputs, flags.plan, EditedPlanOf(flags.allow_edited),
                  *target, common, found, findings);
  if (planned == nullptr) return found ? kFound : kFailed;
  const picture::FoldedPlan folded(planned->table);
  const auto write = [&](Sink& out) {
    out.Append(CoverageText(CoverageIn(*planned, folded), *style));
  };
  return PutResult(write, flags.output, findings) ? kDone : kFailed;
}

int PutProofs(const RuleSet& rules, bool json, const std::string& output,
              Findings& findings) {
  const auto matcher = Matcher::Compile(PatternsOf(rules.rules), findings);
  if (!matcher) return kFailed;
  Prover prover(*matcher);
  RuleProofs proofs;
  proofs.of_rules = prover.ProveRules();
  // The number of pairs of rules grows quadratically with the number of rules.
  // The work for all proofs together is therefore limited. Pairs that come
  // after the limit is reached are counted as not proven.
  Prover of_pairs(*matcher, {.work = 50'000'000});
  proofs.related = ProvePairs(of_pairs);
  const auto write = [&](Sink& out) {
    if (json) {
      WriteRuleProofsJson(rules, proofs, out);
    } else {
      out.Append(RuleProofsText(rules, proofs));
    }
  };
  return PutResult(write, output, findings) ? kDone : kFailed;
}

// Returns false after a finding if --all-names is given without rules, or
// together with an option that conflicts with it.
bool FlagsAgree(const RulesFlags& flags, bool named, const Common& common,
                Findings& findings) {
  if (flags.Wins() &&
      (flags.prove || flags.resolved || common.format != "text")) {
    findings.Add(code::kUsage, {},
                 "the parameters that rules won are drawn, and " +
                     std::string(flags.prove      ? "`--all-names`"
                                 : flags.resolved ? "`--resolved`"
                                                  : "`--format`") +
                     " is for rules alone",
                 "leave out the option, or the mesh and the parameters");
    return false;
  }
  if (!flags.prove) return true;
  const char* wrong = flags.resolved            ? "`--resolved`"
                      : common.format == "yaml" ? "`--format yaml`"
                                                : nullptr;
  if (wrong != nullptr) {
    findings.Add(
        code::kUsage, {},
        std::string("`--all-names` and ") + wrong + " cannot be combined",
        "give one of them");
  } else if (!named) {
    findings.Add(code::kUsage, {}, "no rules are given to prove",
                 "write `--rules FILE` or `--rules builtin:llama`");
  }
  return wrong == nullptr && named;
}

// Prints the text of the target's rules file, with its comments. Several files
// cannot be printed as one, so they are an error.
int PutText(const Target& target, const RuleSet& rules,
            const std::string& output, Findings& findings) {
  if (target.rules.size() == 1) {
    return PutResult(rules.sources.front()->text(), output, findings) ? kDone
                                                                      : kFailed;
  }
  findings.Add(code::kUsage, {},
               "`--format yaml` prints one file unchanged, and " +
                   Counted(static_cast<int64_t>(target.rules.size()), "file") +
                   " are given",
               "give one file, or use `--resolved`, which merges them");
  return kFailed;
}

// Returns whether the rules files can be merged into one file with the same
// meaning. Otherwise adds a finding.
bool FitsOneFile(const RuleSet& rules, Findings& findings) {
  if (!HasMixedSeparators(rules)) return true;
  findings.Add(
      code::kSeparator, rules.rules[0].place,
      "these rules use both separators, and one file can only have one",
      "print the files one at a time");
  return false;
}

// Prints a note for each section that WriteRulesFileJson leaves out. A pack
// (rules that are built into the program) may shard KV heads on the condition
// that the model has several of them. The merged file cannot state this
// condition, so a note is printed for it too.
void PrintOmitted(const RuleSet& rules, const Common& common) {
  if (rules.model != nullptr) {
    const std::string& file = rules.model->source->name();
    PrintMessage(common, "note: the `model:` section of `" + file +
                             "` is left out; `\"model\": {\"extends\": " +
                             JsonString(file) + "}` in the result adds it\n");
  }
  if (ChoosesByModel(rules)) {
    constexpr auto kAt = static_cast<size_t>(AxisRule::kKvHead);
    PrintMessage(common,
                 "note: the result replicates KV heads, which `" +
                     rules.axes_places[kAt].source->name() +
                     "` shards if a model has several and the mesh divides "
                     "them; without `kv_head` and `decode_kv_head` the result "
                     "shards them\n");
  }
  Findings reported;
  const auto stages = DeclaredStages({}, rules, {}, reported);
  if (!stages) return;
  PrintMessage(common, "note: the `stages:` section of `" +
                           stages->place.source->name() +
                           "` is left out; copy it to the result\n");
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
  if (!FlagsAgree(all, !target.rules.empty(), common, findings)) return kFailed;
  if (all.Wins()) return DrawWon(all, common, findings);
  if (target.rules.empty() && !all.resolved) {
    const auto write = [&](Sink& out) { WritePacks(json, out); };
    return PutResult(write, all.output, findings) ? kDone : kFailed;
  }
  // With --resolved and without rules files, the defaults of all axis rules are
  // printed.
  auto rules = target.rules.empty()
                   ? std::optional(RuleSet{})
                   : OpenRulesAlone(target, findings, nullptr,
                                    RulesBoundary(target, flags.asked));
  if (rules) {
    SettleSeparators(*rules, '/', rules->policy.compat.value_or(Compat::kNone),
                     findings);
    CheckPatterns(*rules, findings);
    CheckNames(*rules, findings);
  }
  if (!rules || findings.HasErrors()) return kFailed;
  if (all.prove) return PutProofs(*rules, json, all.output, findings);
  if (common.format == "yaml" && !all.resolved) {
    return PutText(target, *rules, all.output, findings);
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
  if (!PutResult(write, all.output, findings)) return kFailed;
  if (all.resolved) PrintOmitted(*rules, common);
  return kDone;
}

Options OptionsOf(RulesFlags& flags) {
  Options options = {
      {.name = "--resolved",
       .need = HelpNeed::kOften,
       .to = &flags.resolved,
       .help = "merge all files to one in JSON; with the value of "
               "every axis rule and without the sections `model` "
               "and `stages`; `--rules` can read it"},
      OutputOption(&flags.output),
      {.name = "--all-names",
       .need = HelpNeed::kOften,
       .to = &flags.prove,
       .help = "prove for all possible names whether each rule ever wins"},
      {.name = "--plan",
       .need = HelpNeed::kOften,
       .to = &flags.plan,
       .value = "FILE",
       .help = "plan file whose rules are drawn, with what each won"},
      AllowEditedOption(&flags.allow_edited)};
  Append(options, OptionsOf(flags.style));
  Append(options, AllInputs(flags.inputs));
  return options;
}

}  // namespace

Declared DeclareShowRules() { return Declare(OptionsOf, RunRules); }

}  // namespace shardc::cli
