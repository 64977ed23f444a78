// Formats a YAML file. The column of each key and of each dash of a list
// follows from its depth in the tree. Each other line (of a continued list, a
// text over several lines, or a comment) belongs to a key or dash. Such a line
// is moved by as many columns as its key or dash:
//
//   rules:                        rules:
//   -   match: 'q_proj$'            - match: 'q_proj$'
//       spec: [ FSDP,TP ]     ->      spec: [FSDP, TP]
//
// The result is used only if its YAML tree is the same as before.
#include "lsp/references.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "lsp/names.h"
#include "lsp/position.h"
#include "yaml/yaml.h"

namespace shardc::lsp {
namespace {

using std::string_view;

constexpr size_t kIndent = 2;

bool SameTree(const YamlNode& a, const YamlNode& b) {
  const auto same_member = [](const YamlMember& x, const YamlMember& y) {
    return SameTree(x.key, y.key) && SameTree(x.value, y.value);
  };
  return a.kind == b.kind && a.style == b.style && a.text == b.text &&
         a.tag == b.tag &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                    b.items.end(), SameTree) &&
         std::equal(a.members.begin(), a.members.end(), b.members.begin(),
                    b.members.end(), same_member);
}

bool IsSpace(char c) { return c == ' ' || c == '\t'; }

class Formatter {
 public:
  Formatter(const YamlDocument& document, string_view text)
      : text_(text), lines_(text) {
    Block(document.root(), 0);
  }

  std::vector<TextEdit> Edits() {
    MoveLines();
    std::vector<TextEdit> out;
    for (auto& [begin, edit] : edits_) {
      if (text_.substr(begin, edit.end - begin) != edit.text) {
        out.push_back(std::move(edit));
      }
    }
    return out;
  }

 private:
  bool IsFlow(const YamlNode& node) const {
    return node.begin < text_.size() &&
           (text_[node.begin] == '[' || text_[node.begin] == '{');
  }

  // Marks the lines on which a scalar continues. Spaces at their start may be
  // part of the scalar's value, so all of these lines are moved by the same
  // amount.
  void Keep(const YamlNode& node) {
    if (!node.IsScalar() || node.end > text_.size()) return;
    for (size_t line = lines_.LineOf(node.begin) + 1;
         line < lines_.count() && lines_.Begin(line) < node.end; ++line) {
      kept_.insert(line);
    }
  }

  size_t FirstOf(size_t line) const {
    const string_view own = lines_.Text(line);
    return std::min(own.find_first_not_of(" \t"), own.size());
  }

  // If a key or dash at offset `at` is the first text on its line, moves it to
  // this column.
  void Place(size_t at, size_t column) {
    const size_t line = lines_.LineOf(at);
    if (at - lines_.Begin(line) == FirstOf(line)) columns_[line] = column;
  }

  void Edit(size_t begin, size_t end, std::string to) {
    if (begin <= end) edits_[begin] = {begin, end, std::move(to)};
  }

  // Replaces the text between two parts of a line by `to`, if the text is
  // `mark` with any number of spaces around it, such as " ," or ":  ".
  void Separate(size_t begin, size_t end, string_view mark, string_view to) {
    if (begin > end || end > text_.size()) return;
    std::string plain;
    for (const char c : text_.substr(begin, end - begin)) {
      if (!IsSpace(c)) plain += c;
    }
    if (plain == mark) Edit(begin, end, std::string(to));
  }

  // Formats a mapping or list in block style: moves its keys or dashes to
  // `column`.
  void Block(const YamlNode& node, size_t column) {
    for (const YamlMember& member : node.members) {
      Place(member.key.begin, column);
      Keep(member.key);
      Value(member, column);
    }
    for (const YamlNode& item : node.items) {
      const auto dash = DashOf(item, text_);
      if (!dash) continue;
      Place(*dash, column);
      if (item.begin > *dash) Separate(*dash + 1, item.begin, "", " ");
      Inner(item, column + kIndent);
    }
  }

  void Value(const YamlMember& member, size_t column) {
    const YamlNode& value = member.value;
    if (value.begin >= member.key.end &&
        lines_.LineOf(value.begin) == lines_.LineOf(member.key.end)) {
      Separate(member.key.end, value.begin, ":", ": ");
    }
    Inner(value, column + kIndent);
  }

  void Inner(const YamlNode& node, size_t column) {
    if (node.IsScalar()) return Keep(node);
    if (IsFlow(node)) return Flow(node);
    Block(node, column);
  }

  void Flow(const YamlNode& node) {
    if (node.end > text_.size() || node.end < node.begin + 2) return;
    size_t last = node.begin + 1;
    bool first = true;
    const auto separate = [&](size_t begin) {
      Separate(last, begin, first ? "" : ",", first ? "" : ", ");
      first = false;
    };
    for (const YamlNode& item : node.items) {
      separate(item.begin);
      last = item.end;
      FlowInner(item);
    }
    for (const YamlMember& member : node.members) {
      separate(member.key.begin);
      const YamlNode& value = member.value;
      last = std::max(member.key.end, value.end);
      if (value.begin >= member.key.end) {
        Separate(member.key.end, value.begin, ":", ": ");
      }
      FlowInner(value);
    }
    Separate(last, node.end - 1, "", "");
  }

  void FlowInner(const YamlNode& node) {
    if (node.IsScalar()) return Keep(node);
    if (IsFlow(node)) Flow(node);
  }

  bool IsComment(size_t line) const {
    const string_view own = lines_.Text(line);
    const size_t first = FirstOf(line);
    return first < own.size() && own[first] == '#';
  }

  // Returns the column for a comment: the column of the next key or dash if the
  // comment is aligned with it. Otherwise the comment moves with the line
  // before it.
  size_t CommentColumn(size_t line, std::ptrdiff_t shift) const {
    const auto next = columns_.upper_bound(line);
    if (next != columns_.end() && FirstOf(next->first) == FirstOf(line)) {
      return next->second;
    }
    const auto column = static_cast<std::ptrdiff_t>(FirstOf(line)) + shift;
    return static_cast<size_t>(std::max<std::ptrdiff_t>(column, 0));
  }

  void MoveLines() {
    std::ptrdiff_t shift = 0;
    // The number of empty lines before this one. The count begins with 1, so
    // that empty lines at the start of the file are removed.
    size_t empty = 1;
    for (size_t line = 0; line < lines_.count(); ++line) {
      const size_t first = FirstOf(line);
      const size_t begin = lines_.Begin(line);
      const string_view own = lines_.Text(line);
      if (kept_.contains(line)) {
        // All lines of a scalar are moved by the same amount, so that its
        // indentation keeps its meaning.
        if (first < own.size()) Shift(line, shift);
        empty = 0;
        continue;
      }
      if (first == own.size()) {
        const bool last = line + 1 == lines_.count();
        const size_t next = last ? text_.size() : lines_.Begin(line + 1);
        const bool drop = empty > 0 || OnlyBlankFrom(line);
        Edit(begin, drop ? next : begin + own.size(), "");
        ++empty;
        continue;
      }
      empty = 0;
      const auto column = columns_.find(line);
      if (column != columns_.end()) {
        shift = static_cast<std::ptrdiff_t>(column->second) -
                static_cast<std::ptrdiff_t>(first);
      }
      if (column == columns_.end() && IsComment(line)) {
        Edit(begin, begin + first,
             std::string(CommentColumn(line, shift), ' '));
      } else {
        Shift(line, shift);
      }
      const size_t end = own.find_last_not_of(" \t") + 1;
      if (!kept_.contains(line + 1)) {
        Edit(begin + end, begin + own.size(), "");
      }
    }
    const size_t last = lines_.count() - 1;
    if (FirstOf(last) < lines_.Text(last).size() && !kept_.contains(last)) {
      Edit(text_.size(), text_.size(), std::string(BreakOf(text_)));
    }
  }

  void Shift(size_t line, std::ptrdiff_t shift) {
    const size_t first = FirstOf(line);
    const auto column = static_cast<std::ptrdiff_t>(first) + shift;
    const size_t begin = lines_.Begin(line);
    Edit(begin, begin + first,
         std::string(static_cast<size_t>(std::max<std::ptrdiff_t>(column, 0)),
                     ' '));
  }

  bool OnlyBlankFrom(size_t line) const {
    return text_.find_first_not_of(" \t\r\n", lines_.Begin(line)) == text_.npos;
  }

  string_view text_;
  Lines lines_;
  std::map<size_t, size_t> columns_;  // new column of a line, keyed by line
  std::set<size_t> kept_;  // lines that continue a scalar of an earlier line
  std::map<size_t, TextEdit> edits_;  // keyed by where an edit begins
};

std::string With(const SourceRef& source, std::vector<TextEdit> edits) {
  RuleFix all;
  all.edits = std::move(edits);
  return Fixed(source->text(), {&all, 1});
}

// Returns the edits of one formatting pass. Returns no edits if the text cannot
// be formatted.
std::vector<TextEdit> EditsOf(const SourceRef& source) {
  Findings ignored;
  const auto before = YamlDocument::Parse(source, ignored);
  // A file with findings, such as a key that is given twice, is not formatted,
  // because the trees before and after could not be compared.
  if (!before || !ignored.empty()) return {};
  auto edits = Formatter(*before, source->text()).Edits();
  const auto after = YamlDocument::Parse(
      MakeSource(source->name(), With(source, edits)), ignored);
  if (!after || !SameTree(before->root(), after->root())) return {};
  return edits;
}

}  // namespace

std::vector<TextEdit> FormatEdits(const SourceRef& source) {
  // In rare cases the text changes again in a second pass. Passes are repeated
  // until one changes nothing. If the last of kPasses passes still changes the
  // text, the file is not formatted.
  constexpr int kPasses = 4;
  std::vector<TextEdit> edits = EditsOf(source);
  SourceRef now = MakeSource(source->name(), With(source, edits));
  for (int pass = 1; pass < kPasses; ++pass) {
    const auto more = EditsOf(now);
    if (more.empty()) return edits;
    now = MakeSource(source->name(), With(now, more));
    edits = {{0, source->text().size(), std::string(now->text())}};
  }
  return {};
}

}  // namespace shardc::lsp
