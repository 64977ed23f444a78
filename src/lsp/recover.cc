// Finds and removes the entries of a rules file that have errors, so that the
// rest can be checked while the user is typing. An entry is an item of `rules`
// or `extends`, or a member of `bundles`, `register`, `axes` or `policy`. Any
// other key at the top of the file is an entry together with its value.
//
// If the file is valid YAML, the entry that contains an error is found in the
// YAML tree. Otherwise entries are found by the lines and their indentation,
// and each entry that is not valid YAML by itself is removed. Blanks replace a
// removed entry, so the other entries stay on the same lines:
//
//   rules:
//     - match: 'q_proj       the quote is not closed: replaced by blanks
//       spec: [FSDP]
//     - match: 'k_proj$'     read as before, at the same line
//       spec: [FSDP]
#include "lsp/recover.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "lint/baseline.h"
#include "lsp/names.h"
#include "lsp/position.h"
#include "source/file.h"
#include "source/list.h"
#include "yaml/scan.h"
#include "yaml/yaml.h"

namespace shardc::lsp {
namespace {

using std::string_view;

bool IsYaml(const SourceRef& source, Findings& findings) {
  return YamlDocument::Parse(source, findings).has_value();
}

bool IsYaml(const SourceRef& source) {
  Findings ignored;
  return IsYaml(source, ignored);
}

void Blank(std::string& text, size_t begin, size_t end) {
  for (size_t i = begin; i < std::min(end, text.size()); ++i) {
    if (text[i] != '\n' && text[i] != '\r') text[i] = ' ';
  }
}

// Returns the offset after the comma that follows an item or member in brackets
// or braces. Returns `at` if no comma follows.
size_t CommaAfter(string_view text, size_t at) {
  const size_t next = text.find_first_not_of(" \t\r\n", at);
  return next != text.npos && text[next] == ',' ? next + 1 : at;
}

bool Contains(size_t begin, size_t end, size_t offset) {
  return begin <= offset && offset <= end;
}

// A range of bytes, such as the range of an entry. It is empty if there is no
// entry.
struct Span {
  size_t begin = 0, end = 0;
};

// Extends the range of an entry, which will be blanked, by the comment at the
// end of its line and by `# shardc: ignore` comments above it. If these
// comments were not blanked too, they would apply to the next entry.
Span WithComments(string_view text, Span entry) {
  const size_t rest = text.find_first_not_of(" \t", entry.end);
  if (rest != text.npos && text[rest] == '#') entry.end = FindBreak(text, rest);
  size_t line = LineBegin(text, entry.begin);
  const size_t first = text.find_first_not_of(" \t", line);
  if (first < entry.begin) return entry;
  while (line > 0) {
    const size_t above = LineBegin(text, line - 1);
    const string_view own = text.substr(above, line - above);
    const size_t begin = own.find_first_not_of(" \t\r\n");
    if (begin != own.npos && own[begin] != '#') break;
    if (IsIgnoreMark(own)) entry.begin = above;
    line = above;
  }
  return entry;
}

Span ItemAt(const YamlNode& list, string_view text, size_t offset) {
  for (const YamlNode& item : list.items) {
    const size_t begin = DashOf(item, text).value_or(item.begin);
    if (!Contains(begin, item.end, offset)) continue;
    return {begin, begin < item.begin ? item.end : CommaAfter(text, item.end)};
  }
  return {};
}

Span MemberAt(const YamlNode& map, string_view text, size_t offset) {
  for (const YamlMember& member : map.members) {
    const size_t end = std::max(member.key.end, member.value.end);
    if (!Contains(member.key.begin, end, offset)) continue;
    return {member.key.begin, CommaAfter(text, end)};
  }
  return {};
}

Span EntryAt(const YamlNode& root, string_view text, size_t offset) {
  constexpr std::array<string_view, 7> kDivided = {
      "rules",    "extends", "bundles", "activations",
      "register", "axes",    "policy"};
  for (const YamlMember& member : root.members) {
    const YamlNode& value = member.value;
    const size_t end = std::max(member.key.end, value.end);
    if (!Contains(member.key.begin, end, offset)) continue;
    Span entry;
    if (IsAmong(member.key.text, kDivided)) {
      entry = value.IsSequence() ? ItemAt(value, text, offset)
                                 : MemberAt(value, text, offset);
    }
    if (entry.end == 0) entry = {member.key.begin, CommaAfter(text, end)};
    return entry;
  }
  return {};
}

// The entries of a text that is not valid YAML, found by indentation.
class LineEntries {
 public:
  explicit LineEntries(string_view text) : text_(text), lines_(text) {
    size_t indent = 0;
    for (size_t i = 0; i < lines_.count(); ++i) {
      const string_view line = lines_.Text(i);
      const size_t first = line.find_first_not_of(' ');
      if (first == line.npos || line[first] == '#') continue;
      if (IsTopKey(line)) {
        Close(i);
        content_ = lines_.End(i);
        blocks_.push_back({lines_.Begin(i), text.size()});
        opened_ = false;
        continue;
      }
      if (blocks_.empty()) continue;
      if (!opened_) indent = first;
      if (!opened_ || first == indent) {
        Close(i);
        entries_.push_back({lines_.Begin(i), text.size()});
      }
      opened_ = true;
      content_ = lines_.End(i);
    }
    EndEntry();
  }

  const std::vector<Span>& entries() const { return entries_; }
  const std::vector<Span>& blocks() const { return blocks_; }

 private:
  static bool IsTopKey(string_view line) {
    const size_t end = line.find_first_not_of(
        "abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return end != line.npos && end > 0 && line[end] == ':';
  }

  // Ends the current entry before this line. A block is a top-level key with
  // its entries. If this line is a top-level key, the current block ends too.
  void Close(size_t line) {
    const size_t end = lines_.Begin(line);
    EndEntry();
    if (!blocks_.empty() && IsTopKey(lines_.Text(line))) {
      blocks_.back().end = end;
    }
  }

  // Ends the last entry after its last line that is neither blank nor a
  // comment. Comments after that line may belong to the next entry.
  void EndEntry() {
    if (entries_.empty()) return;
    entries_.back().end = std::min(entries_.back().end, content_);
  }

  string_view text_;
  Lines lines_;
  // Whether an entry has been found since the last top-level key.
  bool opened_ = false;
  // The offset of the end of the last line that is neither blank nor a comment.
  size_t content_ = 0;
  std::vector<Span> entries_, blocks_;
};

// Returns the source with all text outside this part replaced by blanks.
SourceRef Only(const Source& source, const Span& part) {
  std::string text(source.text());
  Blank(text, 0, part.begin);
  Blank(text, part.end, text.size());
  return MakeSource(source.name(), std::move(text));
}

// Returns whether an error is at an alias (`*name`). The error may be in the
// node that the alias refers to, which may be in another part of the file.
bool IsAtAlias(const Finding& error) {
  return error.place.HasPosition() &&
         error.place.source->text().substr(error.place.begin).starts_with('*');
}

// Returns whether the part is YAML by itself, apart from aliases (`*name`) of
// nodes in other parts.
bool IsYamlAlone(const Source& source, const Span& part) {
  const string_view text = source.text();
  Findings findings;
  const bool alone = IsYaml(
      MakeSource(source.name(),
                 std::string(text.substr(part.begin, part.end - part.begin))),
      findings);
  return alone ||
         std::all_of(findings.all().begin(), findings.all().end(), IsAtAlias);
}

// Replaces the entries that are not valid YAML by blanks, and adds their errors
// to `errors`. The errors of the first such entry are not added, because the
// parser has already reported them before it stopped there.
std::optional<Blanked> BlankLines(const SourceRef& source) {
  Blanked out;
  out.text = source->text();
  const LineEntries lines(source->text());
  bool first = true;
  for (const Span& entry : lines.entries()) {
    if (IsYamlAlone(*source, entry)) continue;
    const Span blanked = WithComments(source->text(), entry);
    Blank(out.text, blanked.begin, blanked.end);
    if (!first) IsYaml(Only(*source, entry), out.errors);
    first = false;
  }
  SourceRef left = MakeSource(source->name(), out.text);
  if (IsYaml(left)) return out;
  for (const Span& block : lines.blocks()) {
    if (IsYaml(Only(*left, block))) continue;
    // Without rules, nothing could be checked, so give up if the block of rules
    // itself would have to be removed.
    if (left->text().substr(block.begin).starts_with("rules:")) {
      return std::nullopt;
    }
    Blank(out.text, block.begin, block.end);
  }
  left = MakeSource(source->name(), out.text);
  if (out.text == source->text() || !IsYaml(left)) return std::nullopt;
  return out;
}

// Findings with equal keys are reported once.
using FindingKey = std::tuple<int, std::string, size_t, std::string>;

FindingKey KeyOf(const Finding& finding) {
  return {finding.code->number,
          finding.place.source ? finding.place.source->name() : std::string(),
          finding.place.begin, finding.message};
}

}  // namespace

std::optional<Blanked> BlankEntries(const SourceRef& source,
                                    const std::set<size_t>& offsets) {
  Findings ignored;
  const auto document = YamlDocument::Parse(source, ignored);
  if (!document) return BlankLines(source);
  Blanked out;
  out.text = source->text();
  for (const size_t offset : offsets) {
    Span entry = EntryAt(document->root(), source->text(), offset);
    if (entry.end > 0) entry = WithComments(source->text(), entry);
    Blank(out.text, entry.begin, entry.end);
  }
  if (out.text == source->text() ||
      !IsYaml(MakeSource(source->name(), out.text))) {
    return std::nullopt;
  }
  return out;
}

bool Recovery::LeaveOut(const Findings& findings,
                        const std::set<std::string>& others) {
  std::map<std::string, std::pair<SourceRef, std::set<size_t>>> files;
  Findings kept;
  for (const Finding& finding : findings.all()) {
    if (finding.level != Level::kError) continue;
    const Place& place = finding.place;
    if (!place.HasPosition() || others.contains(place.source->name()) ||
        KindOf(place.source->name(), place.source->text()) !=
            FileKind::kRules) {
      continue;
    }
    auto& file = files[place.source->name()];
    file.first = place.source;
    file.second.insert(place.begin);
    kept.Add(finding);
  }
  bool found = false;
  for (const auto& [name, file] : files) {
    auto blanked = BlankEntries(file.first, file.second);
    if (!blanked) continue;
    found = true;
    originals_.try_emplace(name, file.first);
    texts_[FileIdOf(name)] = std::move(blanked->text);
    kept.Append(std::move(blanked->errors));
  }
  if (found) errors_.Append(std::move(kept));
  return found;
}

void Recovery::Finish(Findings& findings) const {
  const auto restore = [&](Place& place) {
    if (place.source == nullptr) return;
    const auto at = originals_.find(place.source->name());
    if (at != originals_.end()) place.source = at->second;
  };
  Findings out;
  std::vector<Finding> all(findings.all().begin(), findings.all().end());
  all.insert(all.end(), errors_.all().begin(), errors_.all().end());
  std::set<FindingKey> seen;
  for (Finding& one : all) {
    if (!seen.insert(KeyOf(one)).second) continue;
    restore(one.place);
    restore(one.main_file);
    for (Label& label : one.labels) restore(label.place);
    out.Add(std::move(one));
  }
  out.NoteReadsOf(findings);
  out.Sort();
  findings = std::move(out);
}

}  // namespace shardc::lsp
