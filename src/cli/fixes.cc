// Determines which fixes of rules files are safe. A fix is safe if every target
// that reads the file compiles to the same specs with the fix. No compilation
// is needed if the old and the new rules are proven to have the same effect on
// all names. All fixes are tried together first, so that many safe fixes need
// few compilations. If a group of fixes is unsafe, its first half is tried, and
// then its second half, down to single fixes. Each try includes the fixes that
// are already known to be safe. For example, c is the only one of the fixes a,
// b, c and d that changes specs. The tries are:
//
//   a b c d      unsafe, so each half is tried
//   a b          safe
//   a b + c d    unsafe, so each half of c d is tried
//   a b + c      unsafe
//   a b + d      safe, so a, b and d are the safe fixes
#include "cli/fixes.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "emit/emit.h"
#include "emit/findings/formats.h"
#include "emit/plans/rules_file.h"
#include "match/proof/prover.h"
#include "plan/difference/plan_difference.h"
#include "source/file.h"
#include "source/json_writer.h"
#include "source/wording.h"
#include "target/open.h"

namespace shardc::cli {
namespace {

using Fixes = std::vector<RuleFix>;

std::map<FileId, Fixes> ByFile(const Fixes& fixes) {
  std::map<FileId, Fixes> out;
  for (const RuleFix& fix : fixes) out[fix.file].push_back(fix);
  return out;
}

FileTexts TextsWith(const Fixes& fixes) {
  FileTexts out;
  for (const auto& [file, own] : ByFile(fixes)) {
    out[file] = Fixed(own.front().source->text(), own);
  }
  return out;
}

bool SameLayout(const ParamLayout& a, const ParamLayout& b) {
  return a.unmatched == b.unmatched && a.parts == b.parts &&
         std::equal(a.modes.begin(), a.modes.end(), b.modes.begin(),
                    b.modes.end(),
                    [](const ModeLayout& x, const ModeLayout& y) {
                      return x.spec == y.spec &&
                             x.problems.empty() == y.problems.empty();
                    });
}

// Returns whether two plans of the same parameters have the same specs,
// placements and weight decay, and the same unmatched parameters and illegal
// specs. Many parameters share a layout (rule, type and specs), so a layout of
// `a` and a layout of `b` are compared only once.
bool SameSpecs(const Plan& a, const Plan& b) {
  std::map<std::pair<uint32_t, uint32_t>, bool> known;
  for (size_t i = 0; i < a.params.size(); ++i) {
    const PlannedParam& x = a.params[i];
    const PlannedParam& y = b.params[i];
    if (a.CoordinateOf(x) != b.CoordinateOf(y) ||
        a.WeightDecayOf(i) != b.WeightDecayOf(i)) {
      return false;
    }
    const auto [at, fresh] = known.try_emplace({x.layout, y.layout}, false);
    if (fresh) {
      at->second = SameLayout(a.layouts[x.layout], b.layouts[y.layout]);
    }
    if (!at->second) return false;
  }
  return true;
}

// The effect of fixes on specs, from best to worst. The outcome for several
// targets is the worst outcome of a target.
// - kUnread: no target reads the rules files that the fixes change.
// - kProven: the fixes change no spec for any names of parameters.
// - kSame: the fixes change no spec of the targets' parameters.
// - kOther: a spec changes, or two fixes edit the same bytes.
// - kBroken: the fixed rules do not compile.
enum class FixOutcome { kUnread, kProven, kSame, kOther, kBroken };

// Returns the pattern of each rule with a number that identifies the rule's
// effect (its specs and other members). `numbers` has the number of each effect
// that was seen before, and new effects are added. If the rules before and
// after a fix are passed with the same `numbers`, equal effects have equal
// numbers.
std::vector<RuledPattern> Ruled(const RuleSet& rules,
                                std::map<std::string, uint32_t>& numbers) {
  std::vector<RuledPattern> out;
  for (const Rule& rule : rules.rules) {
    Rule effect = rule;
    // A rule with `like: \1.weight` copies the spec of another parameter. The
    // text that the pattern matches determines which parameter that is. Two
    // such rules therefore have equal effects only if their patterns are equal.
    const auto rewrites = [](const SpecSource& spec) {
      return std::holds_alternative<SpecLike>(spec);
    };
    const bool own_match =
        rewrites(rule.spec) ||
        std::any_of(rule.modes.begin(), rule.modes.end(),
                    [&](const auto& mode) { return rewrites(mode.second); });
    if (!own_match) effect.match.clear();
    const std::string text = TextOf([&](Sink& sink) {
      JsonWriter json(sink);
      json.BeginObject();
      WriteRuleMembers(json, effect, SpecForm::kShortest);
      json.EndObject();
    });
    const auto next = static_cast<uint32_t>(numbers.size());
    out.push_back({{rule.match, {}, rule.separator},
                   numbers.try_emplace(text, next).first->second});
  }
  return out;
}

// Returns whether two sets of rules define bundles (specs with names) and
// logical axes with the same names. What the names stand for is not compared,
// because a fix removes definitions but never changes one.
bool SameDefinitions(const RuleSet& a, const RuleSet& b) {
  const auto same = [](const auto& mine, const auto& other) {
    return std::equal(
        mine.begin(), mine.end(), other.begin(), other.end(),
        [](const auto& x, const auto& y) { return x.name == y.name; });
  };
  return same(a.bundles, b.bundles) && same(a.registrations, b.registrations);
}

PatternProof SameForAllNames(const RuleSet& before, const RuleSet& after) {
  std::map<std::string, uint32_t> numbers;
  const auto old_rules = Ruled(before, numbers);
  const auto new_rules = Ruled(after, numbers);
  return SameOutcomes(old_rules, new_rules);
}

// A target and its plan before any fix. Plans that are compiled with fixes are
// compared with this plan.
class TargetSpecs {
 public:
  // Returns null if the target does not compile without fixes. Such a target
  // has no specs that a fix could change.
  static std::unique_ptr<const TargetSpecs> Make(const Target& target,
                                                 const InputFlags& inputs,
                                                 const Common& common) {
    auto out = std::make_unique<TargetSpecs>();
    Findings findings;
    out->target_ = target;
    out->boundary_ = RulesBoundary(target, inputs.asked);
    if (inputs.held.texts != nullptr) out->texts_ = *inputs.held.texts;
    out->opened_ = LoadTarget(inputs, target, common, findings);
    if (!out->opened_) return nullptr;
    out->opened_->options.modes = {kAllModes.begin(), kAllModes.end()};
    out->before_ = out->CompileWith({});
    if (out->before_ == nullptr) return nullptr;
    return out;
  }

  FixOutcome With(const FileTexts& texts) const {
    if (!Reads(texts)) return FixOutcome::kUnread;
    auto rules = RulesWith(texts);
    if (!rules) return FixOutcome::kBroken;
    // SettleSeparators adds findings about separators in rules files. They are
    // dropped, because `check` has already reported them for the files without
    // fixes.
    Findings findings;
    SettleSeparators(*rules, opened_->manifest.separator, before_->CompatMode(),
                     findings);
    if (findings.HasErrors()) return FixOutcome::kBroken;
    // The proof compares the texts of specs. It is valid only if a name in a
    // spec has the same definition in both sets of rules.
    if (SameDefinitions(before_->rules, *rules) &&
        SameForAllNames(before_->rules, *rules).answer == Answer::kYes) {
      return FixOutcome::kProven;
    }
    const auto after = CompileOf(std::move(*rules));
    if (after == nullptr) return FixOutcome::kBroken;
    return SameSpecs(before_->plan, after->plan) ? FixOutcome::kSame
                                                 : FixOutcome::kOther;
  }

  // Returns the specs that `texts` change, one line for each change. `texts`
  // are new contents of rules files.
  std::string Changes(const FileTexts& texts) const {
    if (!Reads(texts)) return {};
    const auto after = CompileWith(texts);
    if (after == nullptr) return {};
    const auto text = [](const Compiled& compiled) {
      return MakeSource("plan", TextOf([&](Sink& out) {
                          WritePlanJson(compiled.plan, {}, out);
                        }));
    };
    Findings findings;
    const auto difference =
        ComparePlans(text(*before_), text(*after), findings);
    std::string out;
    if (!difference) return out;
    for (const FieldChange& one : difference->fields) {
      if (!one.names.empty()) out += "  " + Printable(one.message) + "\n";
    }
    return out;
  }

  const std::string& name() const { return target_.name; }

 private:
  bool Reads(const FileTexts& texts) const {
    const auto& sources = before_->rules.sources;
    return std::any_of(sources.begin(), sources.end(),
                       [&](const SourceRef& source) {
                         return texts.contains(FileIdOf(source->name()));
                       });
  }

  std::optional<RuleSet> RulesWith(const FileTexts& texts) const {
    FileTexts all = texts;
    all.insert(texts_.begin(), texts_.end());
    Findings findings;
    return OpenRules(target_.rules, target_.project_dir, &opened_->manifest,
                     opened_->model ? opened_->model->model_type : "", findings,
                     &all, boundary_);
  }

  std::unique_ptr<const Compiled> CompileOf(RuleSet rules) const {
    Findings findings;
    return Compile(opened_->mesh, std::move(rules), opened_->manifest,
                   opened_->options, findings);
  }

  std::unique_ptr<const Compiled> CompileWith(const FileTexts& texts) const {
    auto rules = RulesWith(texts);
    return rules ? CompileOf(std::move(*rules)) : nullptr;
  }

  Target target_;
  Boundary boundary_;
  // The texts of documents that are open in an editor, or that earlier fixes
  // have changed. They are used instead of the contents of these files.
  FileTexts texts_;
  std::optional<Opened> opened_;
  std::unique_ptr<const Compiled> before_;
};

class Maker {
 public:
  explicit Maker(std::vector<std::unique_ptr<const TargetSpecs>> targets)
      : targets_(std::move(targets)) {}

  // Divides the fixes into `safe_`, which together change no spec, and
  // `unsafe_`.
  void Prove(std::span<const RuleFix> fixes) {
    if (fixes.empty()) return;
    Fixes with = safe_;
    with.insert(with.end(), fixes.begin(), fixes.end());
    const FixOutcome outcome = AnyMeet(with) ? FixOutcome::kOther : Judge(with);
    if (outcome <= FixOutcome::kSame) {
      safe_ = std::move(with);
      outcome_ = outcome;
    } else if (fixes.size() == 1) {
      unsafe_.push_back(fixes.front());
    } else {
      const size_t half = fixes.size() / 2;
      Prove(fixes.first(half));
      Prove(fixes.subspan(half));
    }
  }

  // Returns whether all fixes that were passed to Prove() are safe.
  bool AllSafe() const { return unsafe_.empty(); }

  FixResult Result(bool unsafe) const {
    FixResult out;
    Fixes made = safe_;
    FixOutcome outcome = outcome_;
    for (const RuleFix& fix : unsafe_) {
      Fixes with = made;
      with.push_back(fix);
      if (AnyMeet(with)) continue;
      const FixOutcome judged = Judge(with);
      if (judged == FixOutcome::kBroken) continue;
      ++out.unsafe;
      if (!unsafe) continue;
      made = std::move(with);
      outcome = judged;
    }
    out.made = static_cast<int64_t>(made.size());
    for (const auto& [file, own] : ByFile(made)) {
      const Source& source = *own.front().source;
      out.files.push_back({source.name(), std::string(source.text()),
                           Fixed(source.text(), own)});
    }
    std::sort(
        out.files.begin(), out.files.end(),
        [](const FixedFile& a, const FixedFile& b) { return a.name < b.name; });
    out.proven = outcome == FixOutcome::kProven;
    return out;
  }

  // Returns the specs that `texts` change in all targets, one line for each
  // change. `texts` are new contents of rules files.
  std::string Changes(const FileTexts& texts) const {
    std::string out;
    for (const auto& target : targets_) {
      const std::string own = target->Changes(texts);
      if (own.empty()) continue;
      out += target->name().empty()
                 ? "the plan changes:\n"
                 : "the plan of target `" + target->name() + "` changes:\n";
      out += own;
    }
    return out;
  }

 private:
  static bool AnyMeet(const Fixes& fixes) {
    for (size_t i = 0; i < fixes.size(); ++i) {
      for (size_t j = i + 1; j < fixes.size(); ++j) {
        if (Meet(fixes[i], fixes[j])) return true;
      }
    }
    return false;
  }

  FixOutcome Judge(const Fixes& fixes) const {
    const FileTexts texts = TextsWith(fixes);
    FixOutcome out = FixOutcome::kUnread;
    for (const auto& target : targets_) {
      out = std::max(out, target->With(texts));
      if (out == FixOutcome::kBroken) break;
    }
    return out;
  }

  std::vector<std::unique_ptr<const TargetSpecs>> targets_;
  Fixes safe_, unsafe_;
  // The outcome of all fixes in `safe_` together.
  FixOutcome outcome_ = FixOutcome::kUnread;
};

std::vector<std::unique_ptr<const TargetSpecs>> SpecsOfTargets(
    std::span<const Target> targets, const InputFlags& inputs,
    const Common& common) {
  std::vector<std::unique_ptr<const TargetSpecs>> all;
  for (const Target& target : targets) {
    if (auto specs = TargetSpecs::Make(target, inputs, common)) {
      all.push_back(std::move(specs));
    }
  }
  return all;
}

// Returns the fixes that can be made, sorted by file and line. A fix that
// several targets have is returned once. Two kinds of fixes are left out: those
// that only editors offer (RuleFix::by_hand), and those of rules that are in no
// file, such as rules that are built into the program.
Fixes AllFixes(std::span<const CheckedTarget> checked) {
  Fixes out;
  for (const CheckedTarget& target : checked) {
    for (const RuleFix& fix : target.fixes) {
      if (fix.by_hand || !IsFile({fix.source, 0, 0})) continue;
      const bool known =
          std::any_of(out.begin(), out.end(), [&](const RuleFix& other) {
            return other.file == fix.file && other.edits == fix.edits;
          });
      if (!known) out.push_back(fix);
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const RuleFix& a, const RuleFix& b) {
                     return std::tie(a.source->name(), a.edits[0].begin) <
                            std::tie(b.source->name(), b.edits[0].begin);
                   });
  return out;
}

// Adds the result of one more round of fixes to `all`, the result of the
// earlier rounds.
void AddRound(FixResult round, bool unsafe, FixResult& all) {
  all.made += round.made;
  all.unsafe = unsafe ? all.unsafe + round.unsafe : round.unsafe;
  all.proven = all.proven && (round.made == 0 || round.proven);
  for (FixedFile& file : round.files) {
    const auto known = std::find_if(
        all.files.begin(), all.files.end(),
        [&](const FixedFile& other) { return other.name == file.name; });
    if (known == all.files.end()) {
      all.files.push_back(std::move(file));
    } else {
      known->after = std::move(file.after);
    }
  }
  std::sort(
      all.files.begin(), all.files.end(),
      [](const FixedFile& a, const FixedFile& b) { return a.name < b.name; });
}

// A fix may make another fix possible: a pattern with a corrected escape may
// equal another pattern, so that its rule is a duplicate. Such chains are
// short. The limit ends the rounds if two fixes undo each other.
constexpr int kMostRounds = 10;

}  // namespace

FixResult MakeFixes(std::span<const CheckedTarget> checked,
                    const FixRequest& request, const Selection& selection,
                    const Common& common) {
  const Fixes fixes = AllFixes(checked);
  if (fixes.empty()) return {};
  Maker first(SpecsOfTargets(request.all, request.options.inputs, common));
  first.Prove(fixes);
  FixResult out = first.Result(request.unsafe);
  CheckOptions options = request.options;
  FileTexts texts;
  if (options.inputs.held.texts != nullptr) texts = *options.inputs.held.texts;
  options.inputs.held.texts = &texts;
  int64_t made = out.made;
  for (int round = 1; round < kMostRounds && made > 0; ++round) {
    for (const FixedFile& file : out.files) {
      texts[FileIdOf(file.name)] = file.after;
    }
    const auto again =
        CheckTargets(request.checked, options, selection, common);
    const Fixes left = AllFixes(again);
    FixResult more;
    if (!left.empty()) {
      Maker next(SpecsOfTargets(request.all, options.inputs, common));
      next.Prove(left);
      more = next.Result(request.unsafe);
    }
    made = more.made;
    AddRound(std::move(more), request.unsafe, out);
  }
  if (request.unsafe && out.unsafe > 0) {
    FileTexts changed;
    for (const FixedFile& file : out.files) {
      changed[FileIdOf(file.name)] = file.after;
    }
    out.changes = first.Changes(changed);
  }
  return out;
}

bool IsSafe(const RuleFix& fix, std::span<const Target> targets,
            const InputFlags& inputs, const Common& common) {
  Maker maker(SpecsOfTargets(targets, inputs, common));
  maker.Prove({&fix, 1});
  return maker.AllSafe();
}

}  // namespace shardc::cli
