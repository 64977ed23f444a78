// Reads, writes and applies baselines: lists of known findings that `check`
// accepts. A baseline lists names for each code. The names are the parameters
// of a finding or, for a finding without parameters, the first text that its
// message quotes. Layer and expert numbers in names are replaced by `*`, so one
// entry covers the tensors of all layers. Applying a baseline removes the known
// names from each finding. If no names remain, the finding is removed:
//
//   SHD207 of layers.0.a and layers.1.b, the baseline has SHD207: [layers.*.a]
//     ->  SHD207 of layers.1.b
#include "lint/baseline.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lint/rules/all.h"
#include "model/name.h"
#include "plan/difference/plan_difference.h"
#include "source/file.h"
#include "source/json.h"
#include "source/json_writer.h"
#include "source/sink.h"
#include "source/wording.h"
#include "yaml/yaml.h"

namespace shardc {
namespace {

constexpr std::string_view kBaselineSchema = "shardc.baseline/v1";

// Returns the name of a finding without parameters: the first text that its
// message quotes. Returns an empty text if the message quotes nothing.
std::string Subject(const Finding& finding) {
  const size_t open = finding.message.find('`');
  if (open == std::string::npos) return {};
  const size_t close = finding.message.find('`', open + 1);
  if (close == std::string::npos) return {};
  return finding.message.substr(open + 1, close - open - 1);
}

// Returns the template `layers.*.up` for `layers.3.up`. The separator is
// inferred from the name.
std::string Folded(const std::string& name) {
  return NameTemplate(name, SeparatorOf(name));
}

std::vector<std::string> KeysOf(const Finding& finding) {
  if (finding.params.empty()) return {Subject(finding)};
  std::vector<std::string> out;
  for (const std::string& name : finding.params) out.push_back(Folded(name));
  return out;
}

// Returns whether the baseline has a name. Files of older versions have
// complete names in place of templates.
bool Knows(const std::set<std::string>& keys, const std::string& name) {
  return keys.contains(name) || keys.contains(Folded(name));
}

}  // namespace

void Baseline::Add(const Finding& finding) {
  std::set<std::string>& keys = known[finding.code->Id()];
  for (std::string& key : KeysOf(finding)) keys.insert(std::move(key));
}

int64_t Baseline::Apply(std::vector<Finding>& findings) const {
  const size_t before = findings.size();
  std::erase_if(findings, [&](Finding& finding) {
    const auto at = known.find(finding.code->Id());
    if (at == known.end()) return false;
    if (finding.params.empty()) {
      return at->second.count(Subject(finding)) > 0;
    }
    std::erase_if(finding.params, [&](const std::string& name) {
      return Knows(at->second, name);
    });
    return finding.params.empty();
  });
  return static_cast<int64_t>(before - findings.size());
}

void Baseline::Write(Sink& out) const {
  WriteDocument(out, kBaselineSchema, [&](JsonWriter& json) {
    json.Key("findings");
    json.BeginObject(JsonLayout::kLines);
    for (const auto& [code, keys] : known) {
      json.Lines(code, keys);
    }
    json.EndObject();
  });
}

std::optional<Baseline> ReadBaseline(const std::string& path,
                                     Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  const JsonValue root = document->root();
  const auto wrong = [&](const JsonValue& value) {
    findings.Add(code::kSchema, value.place(),
                 "this is not a baseline of `shardc check`",
                 "write a baseline with `--write-baseline`");
    return std::nullopt;
  };
  if (SchemaOf(root) != kBaselineSchema) return wrong(root);
  const auto by_code = root.Find("findings");
  if (!by_code || !by_code->IsObject()) return wrong(root);
  Baseline out;
  for (const JsonMember member : by_code->members()) {
    if (!member.value.IsArray()) return wrong(member.value);
    std::set<std::string>& keys = out.known[std::string(member.name())];
    for (const JsonValue key : member.value.items()) {
      if (!key.IsString()) return wrong(key);
      keys.emplace(key.string());
    }
  }
  return out;
}

// Compares a committed plan with the current plan. If the committed plan is up
// to date, both have the same bytes, so the bytes are compared while the
// current plan is written. If a byte differs, the current plan is written to
// memory, parsed and compared member by member. Differences beyond a limit are
// counted but not listed:
//
//   23 differences, limit 20  ->  20 findings and `3 more differences`

namespace {

Finding MakeFinding(Place place, std::string message, Level level,
                    std::string help) {
  Finding out;
  out.code = &kPlanOutOfDate.code;
  out.level = level;
  // Only the first character is marked, because the place may be a large
  // object.
  if (place.HasPosition()) place.end = place.begin + 1;
  out.place = std::move(place);
  out.message = std::move(message);
  out.help = std::move(help);
  return out;
}

bool IsUpToDate(const WritePlan& give, std::string_view committed) {
  MatchingSink sink(committed);
  give(sink);
  return sink.Matches();
}

std::optional<PlanDifference> CompareWithCommitted(const WritePlan& give,
                                                   const SourceRef& committed,
                                                   Findings& errors,
                                                   Committed kind) {
  const SourceRef now = MakeSource("the plan of the inputs", TextOf(give));
  return kind == Committed::kStep ? CompareSteps(committed, now, errors)
                                  : ComparePlans(committed, now, errors);
}

// Returns the finding that counts the differences beyond the limit.
Finding MoreDifferences(Place whole, size_t more, const std::string& help) {
  return MakeFinding(std::move(whole),
                     Counted(static_cast<int64_t>(more), "more difference"),
                     Level::kError, help);
}

}  // namespace

std::optional<PlanDifference> DifferenceFrom(const WritePlan& give,
                                             const SourceRef& committed,
                                             Findings& errors, Committed kind) {
  if (IsUpToDate(give, committed->text())) return PlanDifference();
  return CompareWithCommitted(give, committed, errors, kind);
}

FindingSink CompareLocked(const WritePlan& give, const SourceRef& committed,
                          Findings& errors, Committed kind, size_t limit) {
  if (IsUpToDate(give, committed->text())) return {};
  auto difference = CompareWithCommitted(give, committed, errors, kind);
  if (!difference) return {};
  const Place whole{committed, 0, committed->text().size()};
  if (difference->empty()) {
    return {
        MakeFinding(whole,
                    std::string("the committed ") +
                        (kind == Committed::kStep ? "step program" : "plan") +
                        " has the meaning that the inputs give in another "
                        "spelling: order, spacing, `source` or what an "
                        "earlier version left out",
                    Level::kNote, "`shardc plan --write-locked` rewrites it")};
  }
  const std::string help =
      "look at the change, then run `shardc plan --write-locked`";
  // If layers move to another stage, the move is reported once, and not again
  // for each parameter of these layers.
  std::erase_if(difference->fields, [&](const FieldChange& one) {
    return one.detailed && !difference->layers.empty() &&
           (one.field == "stages" || one.field == "slices");
  });
  const size_t differences = difference->layers.size() +
                             difference->fields.size() +
                             difference->steps.size();
  FindingSink out;
  for (const LayerMove& move : difference->layers) {
    if (out.size() == limit) break;
    out.push_back(
        MakeFinding(move.place, LayerMoveText(move), Level::kError, help));
  }
  for (FieldChange& one : difference->fields) {
    if (out.size() == limit) break;
    Finding& finding = out.emplace_back(
        MakeFinding(one.place, std::move(one.message), Level::kError, help));
    finding.params = std::move(one.names);
  }
  for (StepChange& one : difference->steps) {
    if (out.size() == limit) break;
    out.push_back(
        MakeFinding(one.place, std::move(one.message), Level::kError, help));
  }
  if (differences > limit) {
    out.push_back(MoreDifferences(whole, differences - limit, help));
  }
  return out;
}

// Finds the comments that ignore findings, removes these findings, and reports
// comments that are unused or misspelled. A comment covers its own line. If the
// line has nothing else, the comment also covers the next line that is neither
// blank nor a comment. The YAML tree has no comments, so the text is searched
// for `#`. The tree is needed to find strings, in which a `#` begins no
// comment.
//
//   # shardc: ignore[SHD105, dead-rule]   two ignores,
//   - match: 'w_qkv'                      both for this line

namespace {

constexpr std::string_view kMark = "# shardc: ignore[";

// The ranges of the strings of a file that are in quotes or blocks (`|`). A `#`
// in such a string begins no comment.
class Strings {
 public:
  explicit Strings(const SourceRef& source) : text_(source->text()) {
    Findings ignored;  // reported earlier, when the rules were read
    const auto tree = YamlDocument::Parse(source, ignored);
    if (tree) Add(tree->root());
    // The tree repeats the string of an alias at the place of the alias, but in
    // the text the string comes earlier. The ranges are therefore not in order
    // and have to be sorted.
    std::sort(ranges_.begin(), ranges_.end());
  }

  bool Contain(size_t at) const {
    const auto after = std::upper_bound(
        ranges_.begin(), ranges_.end(), at,
        [](size_t offset, const auto& range) { return offset < range.first; });
    return after != ranges_.begin() && at < std::prev(after)->second;
  }

 private:
  void Add(const YamlNode& node) {
    for (const YamlNode& item : node.items) Add(item);
    for (const YamlMember& member : node.members) {
      Add(member.key);
      Add(member.value);
    }
    if (!node.IsScalar() || node.style == YamlStyle::kPlain) return;
    // The string of a block begins on the line after its `|`, because a comment
    // may follow the `|`.
    const size_t begin = node.style == YamlStyle::kBlock
                             ? std::min(text_.find('\n', node.begin), node.end)
                             : node.begin;
    ranges_.emplace_back(begin, node.end);
  }

  std::string_view text_;
  std::vector<std::pair<size_t, size_t>> ranges_;
};

// Returns whether a comment has the form `# shardc: ignore[SHD105, ...]`. No
// name in the brackets may be empty.
bool IsMark(std::string_view comment) {
  if (!comment.starts_with(kMark)) return false;
  const size_t close = comment.find(']');
  if (close == std::string_view::npos) return false;
  std::string_view list = comment.substr(kMark.size(), close - kMark.size());
  for (;;) {
    const size_t comma = list.find(',');
    if (Trim(list.substr(0, comma)).empty()) return false;
    if (comma == std::string_view::npos) return true;
    list.remove_prefix(comma + 1);
  }
}

constexpr std::string_view kProgram = "shardc";

// Returns the letters of a text, in lower case.
std::string LettersOf(std::string_view text) {
  std::string out;
  for (const char c : FoldCase(std::string(text))) {
    if (c >= 'a' && c <= 'z') out += c;
  }
  return out;
}

// Returns whether a line of the text has a `#` that is followed by the letters
// of the program's name. Each line is read once, because a line may have many
// `#`.
bool MayHaveMarks(std::string_view text) {
  for (size_t at = text.find('#'); at != std::string_view::npos;) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string letters = LettersOf(text.substr(at, end - at));
    if (letters.find(kProgram) != std::string::npos) return true;
    at = text.find('#', end);
  }
  return false;
}

// Returns whether a comment is meant to ignore findings, even if it is
// misspelled. Two forms are recognised. In `#shardc ignore SHD105`, the letters
// begin with the program's name and a word that tools use to ignore findings.
// In `# shardc: ignroe[SHD105]`, only `# shardc:` is correct, and a bracket or
// a code follows.
bool IsMeantAsMark(std::string_view comment) {
  const std::string words = LettersOf(comment);
  if (!words.starts_with(kProgram)) return false;
  const std::string_view rest = std::string_view(words).substr(kProgram.size());
  constexpr std::string_view kWords[] = {"ignore", "disable",  "noqa",
                                         "nolint", "suppress", "allow"};
  return std::any_of(
             std::begin(kWords), std::end(kWords),
             [&](std::string_view word) { return rest.starts_with(word); }) ||
         // A comment with a misspelled word, such as `# shardc:
         // ignroe[SHD105]`.
         (comment.starts_with("# shardc:") &&
          (comment.find('[') != std::string_view::npos ||
           comment.find("SHD") != std::string_view::npos));
}

// Finds the line that a comment covers if the comment is alone on its own line.
// The comments must be passed in the order of the text.
class CoveredLines {
 public:
  explicit CoveredLines(const Source& source)
      : source_(source), last_(source.At(source.text().size()).line) {}

  // Returns the next line that is neither blank nor a comment. Consecutive
  // comment lines all cover this line, so the search runs only for the first
  // comment line.
  int After(int line) {
    if (line < covered_) return covered_;
    covered_ = line + 1;
    while (covered_ <= last_ && IsPassedOver(covered_)) ++covered_;
    return covered_;
  }

 private:
  bool IsPassedOver(int line) const {
    const std::string_view text = Trim(source_.Line(line));
    return text.empty() || text.front() == '#';
  }

  const Source& source_;
  int last_;
  int covered_ = 0;
};

std::vector<Ignore> IgnoresIn(const SourceRef& source, const Strings& strings) {
  std::vector<Ignore> out;
  CoveredLines covered(*source);
  for (size_t at = source->text().find(kMark); at != std::string_view::npos;
       at = source->text().find(kMark, at + 1)) {
    if (strings.Contain(at)) continue;
    const int line = source->At(at).line;
    const size_t start = source->LineStart(line);
    const std::string_view text = source->Line(line);
    const std::string_view before = text.substr(0, at - start);
    const size_t list = at - start + kMark.size();
    const size_t close = text.find(']', list);
    if (close == std::string_view::npos) continue;
    const int covers = Trim(before).empty() ? covered.After(line) : line;
    size_t begin = list;
    if (!IsMark(text.substr(at - start))) continue;
    while (begin <= close) {
      const size_t end = std::min(text.find(',', begin), close);
      const std::string_view name = Trim(text.substr(begin, end - begin));
      Ignore ignore;
      ignore.text = name;
      ignore.code = FindCode(name);
      const auto offset =
          start + static_cast<size_t>(name.data() - text.data());
      ignore.place = Place{source, offset, offset + name.size()};
      ignore.line = line;
      ignore.covers = covers;
      out.push_back(std::move(ignore));
      begin = end + 1;
    }
  }
  return out;
}

std::vector<Place> MalformedIgnoresIn(const SourceRef& source,
                                      const Strings& strings) {
  std::vector<Place> out;
  const std::string_view text = source->text();
  for (size_t at = text.find('#'); at != std::string_view::npos;
       at = text.find('#', at + 1)) {
    // In YAML a comment begins at the start of a line or after white space.
    constexpr std::string_view kBefore = " \t\n";
    if (at > 0 && kBefore.find(text[at - 1]) == std::string_view::npos) {
      continue;
    }
    if (strings.Contain(at)) continue;
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view comment = text.substr(at, end - at);
    if (comment.ends_with('\r')) comment.remove_suffix(1);
    if (IsMeantAsMark(comment) && !IsMark(comment)) {
      out.push_back({source, at, at + comment.size()});
    }
    at = end;
  }
  return out;
}

}  // namespace

bool IsIgnoreMark(std::string_view line) {
  return Trim(line).starts_with(kMark);
}

IgnoreComments IgnoreCommentsIn(const SourceRef& source) {
  if (!MayHaveMarks(source->text())) return {};
  const Strings strings(source);
  return {IgnoresIn(source, strings), MalformedIgnoresIn(source, strings)};
}

void ReportMalformed(std::span<const Place> marks, FindingSink& sink) {
  for (const Place& mark : marks) {
    Finding finding;
    finding.code = &kUnusedIgnore.code;
    finding.level = finding.code->level;
    finding.place = mark;
    finding.message = ShortQuote(mark.source->text().substr(
                          mark.begin, mark.end - mark.begin)) +
                      " cannot be read, so nothing is ignored";
    finding.help =
        "write `# shardc: ignore[CODE] reason`, with one code or "
        "several between commas";
    sink.push_back(std::move(finding));
  }
}

void ApplyIgnores(std::vector<Ignore>& ignores, FindingSink& findings) {
  if (ignores.empty()) return;
  using Line = std::tuple<const Source*, int, const Code*>;
  std::map<Line, std::vector<Ignore*>> by_line;
  for (Ignore& ignore : ignores) {
    const Source* const source = ignore.place.source.get();
    by_line[{source, ignore.line, ignore.code}].push_back(&ignore);
    if (ignore.covers == ignore.line) continue;
    by_line[{source, ignore.covers, ignore.code}].push_back(&ignore);
  }
  std::erase_if(findings, [&](const Finding& finding) {
    if (!finding.place.HasPosition()) return false;
    const Source* const source = finding.place.source.get();
    const int line = source->At(finding.place.begin).line;
    const auto at = by_line.find({source, line, finding.code});
    if (at == by_line.end()) return false;
    for (Ignore* ignore : at->second) ignore->used = true;
    at->second.clear();  // all of them are marked as used now
    return true;
  });
}

void ReportUnused(std::span<const Ignore> ignores, const std::set<int>& ran,
                  FindingSink& sink) {
  for (const Ignore& ignore : ignores) {
    // An ignore that is unused here is not reported if it is in a pack (rules
    // inside the program), because it may be needed on other meshes or for
    // other models.
    if (ignore.used || IsPackName(ignore.place.source->name())) {
      continue;
    }
    if (ignore.code != nullptr && ran.count(ignore.code->number) == 0) {
      continue;
    }
    Finding finding;
    finding.code = &kUnusedIgnore.code;
    finding.level = finding.code->level;
    finding.place = ignore.place;
    finding.message = ignore.code == nullptr
                          ? "`" + ignore.text + "` is no diagnostic"
                          : "`" + ignore.text +
                                "` is not found here, so"
                                " ignoring it does nothing";
    finding.help = "remove it from the comment";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
