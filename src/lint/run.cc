// Runs the lints. A lint whose inputs are missing is skipped. Lints run in the
// order of the table and do not depend on each other. Then ignore comments
// suppress findings, and ignore comments that suppressed nothing are reported.
// Redundant findings are removed last, so that a suppressed finding does not
// make another finding redundant:
//
//   no config.json  ->  SHD220 is skipped, and an unused ignore[SHD220] is not
//   reported
//   SHD101 names the dead rule of SHD105  ->  SHD105 is redundant, unless
//   SHD101 is suppressed
//
// If it is not known what devices do with the weights that an axis shards, the
// lints run a second time with the axis counted as tensor parallel. What that
// adds is reported as one finding about the axis.
#include "lint/run.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "facts/axes.h"
#include "lint/analysis/phrase.h"
#include "lint/baseline.h"
#include "lint/rules/all.h"
#include "lint/rules/lint.h"
#include "plan/mesh_purposes.h"
#include "source/config_codes.h"
#include "source/finding.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string MissingText(unsigned missing, unsigned has) {
  // The heads come from the configuration. If the configuration is missing,
  // only the configuration is reported as missing.
  if ((missing & kNeedsHeads) != 0 && (has & kNeedsModel) == 0) {
    missing = (missing & ~unsigned{kNeedsHeads}) | kNeedsModel;
  }
  constexpr std::pair<unsigned, std::string_view> kWords[] = {
      {kNeedsShapes, "shapes and data types"},
      {kNeedsModel, "a model's config.json"},
      {kNeedsBatch, "a batch"},
      {kNeedsKvLen, "a KV length"},
      {kNeedsMemory, "a device's memory"},
      {kNeedsHeads, "attention's sizes that fit the parameters"},
  };
  std::string out;
  for (const auto& [bit, words] : kWords) {
    if ((missing & bit) == 0) continue;
    AppendItem(out, ", ", words);
  }
  return out;
}

// Returns whether a traced program shows what each parameter of a finding does.
// The findings from the program are reported in its place.
bool IsAnswered(const Facts& facts, const LintFinding& finding) {
  return !finding.members.empty() &&
         std::ranges::all_of(finding.members, [&](uint32_t member) {
           return facts.TracedParam(member) != nullptr;
         });
}

// The findings of the selected lints, before ignore comments suppress any.
struct Ran {
  FindingSink found;
  std::set<int> codes;  // the numbers of the lints that ran
  std::vector<SkippedLint> skipped;
};

Ran RunSelected(const Facts& facts, const Selection& selection) {
  Ran out;
  for (const Lint* lint : AllLints()) {
    if (!selection.Selects(*lint) || lint->check == nullptr) continue;
    unsigned missing = lint->needs & ~facts.has();
    if (lint == &kHeadSplit && facts.StatesHeads()) {
      missing &= ~unsigned{kNeedsHeads};
    }
    if (missing != 0) {
      out.skipped.push_back({lint, MissingText(missing, facts.has())});
      continue;
    }
    out.codes.insert(lint->code.number);
    const auto fresh = static_cast<std::ptrdiff_t>(out.found.size());
    lint->check(facts, out.found);
    if (!lint->guesses) continue;
    out.found.erase(std::remove_if(out.found.begin() + fresh, out.found.end(),
                                   [&](const LintFinding& one) {
                                     return IsAnswered(facts, one);
                                   }),
                    out.found.end());
  }
  return out;
}

// Findings are compared by these, to find those that one reading of an axis
// adds.
using Identity = std::tuple<int, const Source*, size_t, std::string>;

Identity IdentityOf(const Finding& one) {
  return {one.code->number, one.place.source.get(), one.place.begin,
          one.message};
}

// What is written for an axis if devices compute with their shards of the
// weights, and if the shards are gathered before use.
std::string PurposeHelp(const std::string& axis) {
  AxisRules tensor, gathered;
  tensor.Set(AxisRule::kTensorParallel, {.is_null = false, .axes = {axis}});
  gathered.Set(AxisRule::kFullyShardedDataParallel,
               {.is_null = false, .axes = {axis}});
  return "write `" + AxesText(tensor) +
         "` in the rules file if devices compute with their shards, or `" +
         AxesText(gathered) + "` if weights are gathered before use";
}

std::string UseText(AxisUse use) {
  return use == AxisUse::kKept ? "tensor parallelism"
                               : "an axis over which weights are gathered";
}

// Returns the finding about an axis of which it is not known whether devices
// compute with their shards of weights, or whose name denies what the specs
// show. `more` are the findings of lints that depend on it. The result is
// nullopt if the name denies nothing and there are none.
std::optional<Finding> OpenAxis(const Facts& facts, const AxisFacts& axis,
                                const std::vector<Finding>& more) {
  if (!axis.denial && more.empty()) return std::nullopt;
  Finding out;
  if (axis.denial) {
    out = FindingAt(kAxisNameDenied.code, facts.RulePlace(axis.out_rule));
    const bool kept = axis.denial->specs == AxisUse::kKept;
    out.message =
        "by its name, " + Quoted(axis.axis) + " is " +
        UseText(axis.denial->name) + ", and the specs of projections show " +
        UseText(axis.denial->specs) + ": they split " +
        (kept ? "the inner dimension of a block over it on both sides"
              : "the residual stream over it on both sides of a block");
    if (axis.in_rule != axis.out_rule) {
      out.labels.push_back(
          {facts.RulePlace(axis.in_rule), "the projection out of the block"});
    }
  } else {
    out = FindingAt(kAxisNotKnown.code, more.front().place);
    out.message =
        "whether devices compute with their shards of the weights "
        "that " +
        Quoted(axis.axis) + " of size " +
        std::to_string(facts.mesh().SizeOf(axis.axis)) +
        " splits, or gather them before use, is not known";
  }
  out.help = PurposeHelp(axis.axis);
  if (more.empty()) return out;
  std::vector<std::string> codes;
  for (const Finding& one : more) AddOnce(codes, one.code->Id());
  std::ranges::sort(codes);
  out.message += (axis.denial ? ". With tensor parallelism, "
                              : ": with tensor parallelism, ") +
                 ListText(codes) + (codes.size() == 1 ? " applies" : " apply") +
                 "; with FSDP, none does";
  for (const Finding& one : more) {
    out.labels.push_back({one.place, one.code->Id() + ": " + one.message});
    out.params.insert(out.params.end(), one.params.begin(), one.params.end());
  }
  return out;
}

}  // namespace

LintResult RunLints(Facts& facts, const Selection& selection, FindingSink extra,
                    const MoreLints& more) {
  LintResult out;
  std::vector<Ignore> ignores;
  std::vector<Place> malformed;
  for (const SourceRef& source : facts.compiled().rules.sources) {
    IgnoreComments found = IgnoreCommentsIn(source);
    std::ranges::move(found.ignores, std::back_inserter(ignores));
    std::ranges::move(found.malformed, std::back_inserter(malformed));
  }
  // Returns the findings with the axes as they are read now.
  const auto run = [&]() {
    Ran ran = RunSelected(facts, selection);
    FindingSink found = extra;
    if (more) std::ranges::move(more(facts), std::back_inserter(found));
    std::ranges::move(ran.found, std::back_inserter(found));
    ran.found = std::move(found);
    return ran;
  };
  const auto once = [&](FindingSink found) {
    return OnceEach(std::move(found), facts.plan().names);
  };
  Ran ran = run();
  const size_t before = ran.found.size();
  ApplyIgnores(ignores, ran.found);
  out.ignored = static_cast<int64_t>(before - ran.found.size());
  out.skipped = std::move(ran.skipped);
  // An axis may have two readings. What one of them adds is reported in one
  // finding for each axis.
  std::vector<Finding> of_axes;
  const AxisGroup open = facts.OpenAxes();
  std::set<Identity> known;
  if (!open.empty()) {
    for (const Finding& one : once(ran.found)) known.insert(IdentityOf(one));
  }
  for (const AxisFacts& axis : facts.axes()) {
    const Code& code = axis.denial ? kAxisNameDenied.code : kAxisNotKnown.code;
    std::vector<Finding> added;
    if (selection.Ignores(code)) continue;
    if (IsAmong(axis.axis, open)) {
      facts.Assume(axis.axis);
      FindingSink kept = run().found;
      facts.Assume({});
      ApplyIgnores(ignores, kept);
      added = once(std::move(kept));
      std::erase_if(added, [&](const Finding& one) {
        return known.contains(IdentityOf(one));
      });
    }
    if (added.empty() && !selection.Selects(code)) continue;
    if (auto finding = OpenAxis(facts, axis, added)) {
      of_axes.push_back(std::move(*finding));
    }
  }
  FindingSink found = std::move(ran.found);
  FindingSink about_axes(of_axes.begin(), of_axes.end());
  ApplyIgnores(ignores, about_axes);
  std::ranges::move(about_axes, std::back_inserter(found));
  if (selection.Selects(kUnusedIgnore)) {
    ReportMalformed(malformed, found);
    ReportUnused(ignores, ran.codes, found);
  }
  out.findings = once(std::move(found));
  for (Finding& finding : out.findings) {
    finding.level = selection.LevelOf(finding);
  }
  return out;
}

// Removes redundant findings. A topic is a fact that a finding reports. Each
// finding lists the topics that it reports (`reports`), and may list topics
// that make it redundant (`unless`). A finding without `unless` always stays.
// The other findings are visited by level, and within a level the findings that
// report the most topics come first. A finding is removed if the findings that
// stay so far report all topics of its `unless`:
//
//   SHD101 reports the topic "dead rule 4", so SHD105 about rule 4 is removed.
//   If SHD101 is ignored, no finding reports the topic, and SHD105 stays.
//
// Then findings with the same cause, or with messages that differ only in their
// parameters, are joined. The places of all findings except the first become
// labels:
//
//   "`a` is split", "`b` is split" at one rule  ->  "`a` and `b` are split"

namespace {

// Returns, indexed by finding, whether the finding stays because it is not
// redundant.
std::vector<bool> Untold(const FindingSink& findings) {
  std::vector<size_t> order(findings.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto rank = [&](size_t i) {
    const LintFinding& one = findings[i];
    return std::tuple(!one.unless.empty(), static_cast<int>(one.level),
                      -static_cast<int64_t>(one.reports.size()),
                      one.code->number);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(a) < rank(b); });
  std::vector<bool> stays(findings.size());
  std::set<Topic> reported;
  for (size_t i : order) {
    const LintFinding& one = findings[i];
    stays[i] =
        one.unless.empty() || std::any_of(one.unless.begin(), one.unless.end(),
                                          [&](const Topic& topic) {
                                            return reported.count(topic) == 0;
                                          });
    if (stays[i]) reported.insert(one.reports.begin(), one.reports.end());
  }
  return stays;
}

// Findings with equal keys are joined. If the finding has a cause, its key has
// the code, the level and the cause. Otherwise it has the code, the level, the
// place, the help, and the words of the message around the parameters.
using Key = std::tuple<int, int, const Source*, size_t, std::string,
                       std::string, std::string>;

// The key of a label: its place and its text. Labels with equal keys are equal.
using LabelKey = std::tuple<const Source*, size_t, std::string>;

struct Joined {
  size_t at = 0;  // index of the joined finding in the result
  std::vector<std::string> subjects;
  // The text of the joined message before its subjects, and after them.
  std::string before, after;
  // The subjects and labels that have been joined, for look-ups. Empty until a
  // second finding is joined to the first one.
  std::unordered_set<std::string> known;
  std::set<LabelKey> labels;
};

Key KeyOf(const LintFinding& one, const Joined& fresh) {
  const int code = one.code->number;
  const int level = static_cast<int>(one.level);
  if (!one.several.cause.empty()) {
    return {code, level, nullptr, 0, one.several.cause, "", ""};
  }
  return {code,
          level,
          one.place.source.get(),
          one.place.begin,
          fresh.before,
          fresh.after,
          one.help};
}

// Splits a message at its subject. Returns nullopt if it has no subject.
std::optional<Joined> Cut(const LintFinding& one) {
  const size_t at =
      one.subject.empty() ? std::string::npos : one.message.find(one.subject);
  if (at == std::string::npos) return std::nullopt;
  Joined out;
  out.subjects = {one.subject};
  out.before = one.message.substr(0, at);
  out.after = one.message.substr(at + one.subject.size());
  return out;
}

// Changes the words around the subject from singular to plural, such as " is "
// to " are ".
void MakeSeveral(const LintFinding& one, Joined& joined) {
  if (!one.several.cause.empty()) {
    joined.before = one.several.before;
    joined.after = one.several.after;
  } else if (joined.before.empty() && joined.after.starts_with(" is ")) {
    // The verb after the subject becomes plural, as in "`a` is split" and "`a`
    // and `b` are split", but not in "the size of `a` is 4".
    joined.after.replace(0, 4, " are ");
  }
}

bool SamePlace(const Place& a, const Place& b) {
  return a.source == b.source && a.begin == b.begin;
}

LabelKey KeyOf(const Label& label) {
  return {label.place.source.get(), label.place.begin, label.text};
}

void Join(Joined& joined, LintFinding& into, LintFinding&& more) {
  if (joined.known.empty()) {
    joined.known.insert(joined.subjects.front());
    for (const Label& label : into.labels) joined.labels.insert(KeyOf(label));
  }
  if (joined.known.insert(more.subject).second) {
    joined.subjects.push_back(more.subject);
    MakeSeveral(more, joined);
  }
  into.message = joined.before + ListText(joined.subjects) + joined.after;
  into.members.insert(into.members.end(), more.members.begin(),
                      more.members.end());
  std::ranges::move(more.params, std::back_inserter(into.params));
  if (!SamePlace(into.place, more.place)) {
    more.labels.insert(more.labels.begin(), {more.place, "and here"});
  }
  for (Label& label : more.labels) {
    if (joined.labels.insert(KeyOf(label)).second) {
      into.labels.push_back(std::move(label));
    }
  }
}

// Appends the names of each finding's members to its parameters. One parameter
// can be a member of several findings that were joined: an axis that three
// dimensions share is repeated twice. Each finding names it once.
std::vector<Finding> WithNames(FindingSink findings, const Texts& names) {
  std::vector<Finding> out;
  out.reserve(findings.size());
  // Element p is the position in `out`, counted from 1, of the last finding
  // that names parameter p, or 0 if none does.
  std::vector<size_t> last;
  for (LintFinding& one : findings) {
    Finding& finding = out.emplace_back(std::move(static_cast<Finding&>(one)));
    if (one.members.empty()) continue;
    if (last.empty()) last.resize(names.size());
    finding.params.reserve(finding.params.size() + one.members.size());
    for (const uint32_t member : one.members) {
      if (last[member] == out.size()) continue;
      last[member] = out.size();
      finding.params.emplace_back(names[member]);
    }
  }
  return out;
}

}  // namespace

std::vector<Finding> OnceEach(FindingSink findings, const Texts& names) {
  const std::vector<bool> stays = Untold(findings);
  FindingSink out;
  std::map<Key, Joined> seen;
  for (size_t i = 0; i < findings.size(); ++i) {
    if (!stays[i]) continue;
    LintFinding& one = findings[i];
    auto fresh = Cut(one);
    if (!fresh) {
      out.push_back(std::move(one));
      continue;
    }
    fresh->at = out.size();
    const auto [entry, first] = seen.try_emplace(KeyOf(one, *fresh), *fresh);
    if (first) {
      out.push_back(std::move(one));
    } else {
      Join(entry->second, out[entry->second.at], std::move(one));
    }
  }
  return WithNames(std::move(out), names);
}

namespace {

std::vector<const Code*> MakeCodes() {
  std::vector<const Code*> out(ReadingCodes().begin(), ReadingCodes().end());
  for (const Lint* lint : AllLints()) out.push_back(&lint->code);
  out.insert(out.end(), StageCodes().begin(), StageCodes().end());
  out.insert(out.end(), AuditCodes().begin(), AuditCodes().end());
  out.insert(out.end(), ConfigCodes().begin(), ConfigCodes().end());
  // The numbers of the stage codes are between those of the lints, so all codes
  // are sorted.
  std::stable_sort(out.begin(), out.end(), [](const Code* a, const Code* b) {
    return a->number < b->number;
  });
  return out;
}

}  // namespace

std::span<const Code* const> AllCodes() {
  static const std::vector<const Code*> codes = MakeCodes();
  return codes;
}

const Code* FindCode(std::string_view text) {
  int number = -1;
  std::string_view digits = text;
  if (digits.starts_with("SHD") || digits.starts_with("shd")) {
    digits.remove_prefix(3);
  }
  if (digits.size() == 3) {
    const char* end = digits.data() + digits.size();
    const auto [at, error] = std::from_chars(digits.data(), end, number);
    if (error != std::errc() || at != end) number = -1;
  }
  for (const Code* code : AllCodes()) {
    if (code->number == number || code->name == text) return code;
  }
  return nullptr;
}

const Lint* FindLint(const Code& code) {
  for (const Lint* lint : AllLints()) {
    if (&lint->code == &code) return lint;
  }
  return nullptr;
}

// Selects lints by picks. A pick is an entry of `select` or `ignore`: a code
// (`SHD105`, or its name), or a family of codes with the same first digit
// (`SHD1`). `ignore` overrides `select`. A lint in preview runs only if its own
// code is selected, or with --preview.
//
//   select [SHD1], ignore [SHD105]  ->  all codes SHD1xx without SHD105, and
//                                       without SHD117, which is in preview

std::optional<Selection::Pick> Selection::ParsePick(
    const std::string& text, std::string_view flag,
    const LintSettings& settings, Findings& findings) {
  if (const Code* code = FindCode(text)) return Pick{code, -1};
  // The families are SHD0 to SHD7. Any other family is a typing error and would
  // select nothing.
  if (text.size() == 4 && text.starts_with("SHD") && text[3] >= '0' &&
      text[3] <= '7') {
    return Pick{nullptr, text[3] - '0'};
  }
  std::vector<std::string> names;
  for (const Code* code : AllCodes()) {
    names.emplace_back(code->name);
    names.push_back(code->Id());
  }
  const auto at = settings.places.find(text);
  const bool in_file = at != settings.places.end();
  // A number is not misspelt: the nearest one would be of another diagnostic.
  const bool is_number =
      FoldCase(text).starts_with("shd") &&
      text.find_first_not_of("0123456789", 3) == std::string::npos;
  const std::string otherwise =
      "`shardc explain --codes` lists them: give a code such as `SHD101`, a "
      "name, or a family such as `SHD1`";
  findings.Add(in_file ? code::kReference : code::kUsage,
               in_file ? at->second : Place{},
               "`" + text + "` in `" + std::string(flag) + "` is no diagnostic",
               is_number ? otherwise : DidYouMean(text, names, otherwise));
  return std::nullopt;
}

std::optional<Selection> Selection::Make(const LintSettings& settings,
                                         bool preview, Findings& findings) {
  Selection out;
  out.preview_ = preview;
  const size_t before = findings.errors();
  for (const std::string& text : settings.select) {
    if (auto pick = ParsePick(text, "select", settings, findings)) {
      out.select_.push_back(*pick);
    }
  }
  for (const std::string& text : settings.ignore) {
    if (auto pick = ParsePick(text, "ignore", settings, findings)) {
      out.ignore_.push_back(*pick);
    }
  }
  for (const auto* levels : {&settings.severity, &settings.flag_severity}) {
    std::vector<std::pair<Pick, Level>> codes;
    const auto set = [&](const Pick& pick, Level level) {
      for (const Code* code : AllCodes()) {
        if (pick.Covers(*code)) out.severity_[code->number] = level;
      }
    };
    for (const auto& [text, level] : *levels) {
      const auto pick = ParsePick(text, "severity", settings, findings);
      if (!pick) continue;
      if (pick->code != nullptr) {
        codes.emplace_back(*pick, level);
      } else {
        set(*pick, level);
      }
    }
    // The level of a code overrides that of its family.
    for (const auto& [pick, level] : codes) set(pick, level);
  }
  const std::string& fail_on = settings.fail_on;
  if (fail_on == "never") {
    out.fail_on_.reset();
  } else if (fail_on == "warning") {
    out.fail_on_ = Level::kWarning;
  } else if (fail_on == "note") {
    out.fail_on_ = Level::kNote;
  } else if (!fail_on.empty() && fail_on != "error") {
    findings.Add(code::kUsage, {}, "`" + fail_on + "` in `fail_on` is no level",
                 "give error, warning, note or never");
  }
  if (findings.errors() > before) return std::nullopt;
  return out;
}

bool Selection::Selects(const Lint& lint) const {
  const bool by_code =
      std::any_of(select_.begin(), select_.end(),
                  [&](const Pick& pick) { return pick.code == &lint.code; });
  if (lint.preview && !preview_ && !by_code) return false;
  return Selects(lint.code);
}

bool Selection::Selects(const Code& code) const {
  const auto covers = [&](const Pick& pick) { return pick.Covers(code); };
  if (Ignores(code)) return false;
  return select_.empty() || std::any_of(select_.begin(), select_.end(), covers);
}

bool Selection::Ignores(const Code& code) const {
  return std::any_of(ignore_.begin(), ignore_.end(),
                     [&](const Pick& pick) { return pick.Covers(code); });
}

Level Selection::LevelOf(const Finding& finding) const {
  const auto at = severity_.find(finding.code->number);
  return at == severity_.end() ? finding.level : at->second;
}

bool Selection::Fails(Level level) const {
  return fail_on_ && static_cast<int>(level) <= static_cast<int>(*fail_on_);
}

}  // namespace shardc
