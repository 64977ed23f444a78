// Fixes are edits of byte ranges of the file as it was read, so that comments
// and layout stay: rules are removed and moved as whole lines, patterns are
// written in their own quotes. Where the text is not as expected (a rule in
// flow style, an escape) nothing is changed.
//
//   'mlp.up.weight' with an unescaped dot and no anchor
//     ->  'mlp\.up\.weight$'
//
// The diff cuts what both texts begin and end with, and compares the rest by
// its longest common subsequence of lines.
#include "lint/fix.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "lint/analysis/dots.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

struct TextEdit {
  size_t begin = 0;
  size_t end = 0;
  std::string text;
};

// The lines of a rule in block style, dash included: [begin, end) bytes.
struct Block {
  size_t begin = 0;
  size_t end = 0;
};

size_t LineEnd(std::string_view text, size_t at) {
  const size_t end = text.find('\n', at);
  return end == std::string_view::npos ? text.size() : end + 1;
}

size_t LineBegin(std::string_view text, size_t at) {
  const size_t before = text.rfind('\n', at == 0 ? 0 : at - 1);
  if (at == 0 || before == std::string_view::npos) return 0;
  return before + 1;
}

size_t Indent(std::string_view line) {
  const size_t at = line.find_first_not_of(' ');
  return at == std::string_view::npos ? line.size() : at;
}

bool IsBlankOrComment(std::string_view line) {
  const size_t at = line.find_first_not_of(" \t\r\n");
  return at == std::string_view::npos || line[at] == '#';
}

// Nothing where the rule does not stand on lines of its own.
std::optional<Block> BlockOf(const Rule& rule) {
  if (!rule.place.HasPosition()) return std::nullopt;
  const std::string_view text = rule.place.source->text();
  Block block;
  block.begin = LineBegin(text, rule.place.begin);
  const std::string_view first =
      text.substr(block.begin, LineEnd(text, block.begin) - block.begin);
  const size_t indent = Indent(first);
  if (indent >= first.size() || first[indent] != '-') return std::nullopt;
  const size_t key = first.find_first_not_of(' ', indent + 1);
  if (key == std::string_view::npos || first[key] == '{') return std::nullopt;
  // Up to the last line that is indented deeper than the dash.
  block.end = block.begin + first.size();
  for (size_t at = block.end; at < text.size();) {
    const size_t end = LineEnd(text, at);
    const std::string_view line = text.substr(at, end - at);
    if (!IsBlankOrComment(line)) {
      if (Indent(line) <= indent) break;
      block.end = end;
    }
    at = end;
  }
  return block;
}

// The pattern as the file writes it, in the same style of quotes.
std::optional<std::string> Written(std::string_view pattern, char quote) {
  std::string out;
  if (quote == '\'') {
    for (char c : pattern) out += c == '\'' ? "''" : std::string(1, c);
    return "'" + out + "'";
  }
  if (quote == '"') {
    for (char c : pattern) {
      if (static_cast<unsigned char>(c) < 0x20) return std::nullopt;
      if (c == '\\' || c == '"') out += '\\';
      out += c;
    }
    return "\"" + out + "\"";
  }
  return std::string(pattern);
}

std::optional<TextEdit> PatternEdit(const Rule& rule, std::string_view fixed) {
  if (!rule.match_place.HasPosition()) return std::nullopt;
  const std::string_view text = rule.match_place.source->text();
  size_t at = rule.match_place.begin;
  // A place may begin behind the quote.
  if (at > 0 && (text[at - 1] == '\'' || text[at - 1] == '"')) --at;
  const auto before = Written(rule.match, text[at]);
  const auto after = Written(fixed, text[at]);
  if (!before || !after || text.substr(at, before->size()) != *before) {
    return std::nullopt;
  }
  return TextEdit{at, at + before->size(), *after};
}

class Mender {
 public:
  explicit Mender(const Facts& facts) : facts_(facts) {}

  void Take(const Finding& finding) {
    const auto rule = RuleAt(finding.place);
    if (!rule) return;
    const int number = finding.code->number;
    if (number == kDuplicateRule.code.number) {
      removed_.push_back(*rule);
    } else if (number == kCatchAllNotLast.code.number) {
      moved_.push_back(*rule);
    } else if (number == kUnanchoredPattern.code.number) {
      patterns_[*rule].anchor = true;
    } else if (number == kUnescapedDot.code.number) {
      patterns_[*rule].escape = true;
    }
  }

  std::vector<FixedFile> Run() {
    for (size_t rule : removed_) Remove(rule);
    for (size_t rule : moved_) Move(rule);
    for (const auto& [rule, fix] : patterns_) Fix(rule, fix);
    return Apply();
  }

 private:
  struct PatternFix {
    bool anchor = false;
    bool escape = false;
  };
  struct File {
    SourceRef source;
    std::vector<TextEdit> edits;
    int64_t fixes = 0;
  };

  std::optional<size_t> RuleAt(const Place& place) const {
    for (size_t r = 0; r < facts_.rules().size(); ++r) {
      const Place own = facts_.RulePlace(static_cast<int32_t>(r));
      if (own.source == place.source && own.begin == place.begin &&
          place.HasPosition()) {
        return r;
      }
    }
    return std::nullopt;
  }

  File& FileOf(const SourceRef& source) {
    for (File& file : files_) {
      if (file.source == source) return file;
    }
    files_.push_back({source, {}, 0});
    return files_.back();
  }

  void Remove(size_t rule) {
    const auto block = BlockOf(facts_.rules()[rule]);
    if (!block) return;
    File& file = FileOf(facts_.rules()[rule].place.source);
    file.edits.push_back({block->begin, block->end, ""});
    ++file.fixes;
  }

  void Move(size_t rule) {
    const SourceRef& source = facts_.rules()[rule].place.source;
    std::optional<size_t> last;
    for (size_t r = rule + 1; r < facts_.rules().size(); ++r) {
      if (facts_.rules()[r].place.source != source) continue;
      last = r;
      // Which of two catch-alls is to win is not for a tool to say.
      if (facts_.rule_facts()[r].sketch.catch_all) return;
    }
    if (!last) return;
    const auto block = BlockOf(facts_.rules()[rule]);
    const auto target = BlockOf(facts_.rules()[*last]);
    if (!block || !target) return;
    const std::string_view text = source->text();
    std::string moved(text.substr(block->begin, block->end - block->begin));
    if (moved.empty() || moved.back() != '\n') moved += '\n';
    if (target->end > 0 && text[target->end - 1] != '\n') {
      moved.insert(0, "\n");
    }
    File& file = FileOf(source);
    file.edits.push_back({block->begin, block->end, ""});
    file.edits.push_back({target->end, target->end, moved});
    ++file.fixes;
  }

  void Fix(size_t index, const PatternFix& fix) {
    const Rule& rule = facts_.rules()[index];
    std::string pattern = rule.match;
    if (fix.escape) pattern = EscapeDots(pattern).value_or(pattern);
    if (fix.anchor) {
      // `a|b$` would anchor the last alternative only.
      const bool bare = pattern.find('|') != std::string::npos;
      pattern = bare ? "(?:" + pattern + ")$" : pattern + "$";
    }
    const auto edit = PatternEdit(rule, pattern);
    if (!edit) return;
    File& file = FileOf(rule.match_place.source);
    file.edits.push_back(*edit);
    ++file.fixes;
  }

  std::vector<FixedFile> Apply() {
    std::vector<FixedFile> out;
    for (File& file : files_) {
      std::stable_sort(file.edits.begin(), file.edits.end(),
                       [](const TextEdit& a, const TextEdit& b) {
                         return a.begin < b.begin;
                       });
      const std::string_view text = file.source->text();
      FixedFile fixed{file.source, "", file.fixes};
      size_t at = 0;
      for (const TextEdit& edit : file.edits) {
        if (edit.begin < at) continue;  // inside of a removed rule
        fixed.text += text.substr(at, edit.begin - at);
        fixed.text += edit.text;
        at = edit.end;
      }
      fixed.text += text.substr(at);
      if (fixed.text != text) out.push_back(std::move(fixed));
    }
    return out;
  }

  const Facts& facts_;
  std::vector<size_t> removed_;
  std::vector<size_t> moved_;
  std::map<size_t, PatternFix> patterns_;
  std::vector<File> files_;
};

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = LineEnd(text, 0);
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

// For each pair of positions the length of the longest common subsequence of
// what follows. Quadratic, over what differs only; past this many lines the
// whole of it is shown as replaced.
constexpr size_t kMostLines = 4000;

using LineSpan = std::span<const std::string_view>;
using Table = std::vector<std::vector<uint32_t>>;

Table Common(LineSpan a, LineSpan b) {
  if (a.size() > kMostLines || b.size() > kMostLines) return {};
  Table out(a.size() + 1, std::vector<uint32_t>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      out[i][j] = a[i] == b[j] ? out[i + 1][j + 1] + 1
                               : std::max(out[i + 1][j], out[i][j + 1]);
    }
  }
  return out;
}

struct DiffLine {
  char mark;  // ' ', '-' or '+'
  std::string_view text;
  size_t before;  // lines of each side that precede it
  size_t after;
};

std::vector<DiffLine> DiffLines(LineSpan a, LineSpan b) {
  size_t head = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  size_t tail = 0;
  while (tail < a.size() - head && tail < b.size() - head &&
         a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) {
    ++tail;
  }
  const Table common = Common(a.subspan(head, a.size() - head - tail),
                              b.subspan(head, b.size() - head - tail));
  const size_t a_end = a.size() - tail;
  const size_t b_end = b.size() - tail;
  std::vector<DiffLine> out;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() || j < b.size()) {
    const bool middle = i >= head && (i < a_end || j < b_end);
    const bool equal = i < a_end && j < b_end && a[i] == b[j];
    if (!middle || (equal && !common.empty())) {
      out.push_back({' ', a[i], i, j});
      ++i;
      ++j;
    } else if (j == b_end || (common.empty() && i < a_end) ||
               (i < a_end && common[i + 1 - head][j - head] >=
                                 common[i - head][j + 1 - head])) {
      out.push_back({'-', a[i], i, j});
      ++i;
    } else {
      out.push_back({'+', b[j], i, j});
      ++j;
    }
  }
  return out;
}

std::string Hunk(std::span<const DiffLine> lines) {
  size_t removed = 0;
  size_t added = 0;
  std::string body;
  for (const DiffLine& line : lines) {
    if (line.mark != '+') ++removed;
    if (line.mark != '-') ++added;
    body += line.mark;
    body += line.text;
    if (line.text.empty() || line.text.back() != '\n') {
      body += "\n\\ No newline at end of file\n";
    }
  }
  const auto range = [](size_t start, size_t count) {
    return std::to_string(count == 0 ? start : start + 1) + "," +
           std::to_string(count);
  };
  return "@@ -" + range(lines.front().before, removed) + " +" +
         range(lines.front().after, added) + " @@\n" + body;
}

}  // namespace

std::vector<FixedFile> FixRules(const Facts& facts,
                                std::span<const Finding> findings) {
  Mender mender(facts);
  for (const Finding& finding : findings) mender.Take(finding);
  return mender.Run();
}

std::string DiffText(const std::string& name, const std::string& before,
                     const std::string& after) {
  constexpr size_t kContext = 3;
  const auto a = Lines(before);
  const auto b = Lines(after);
  const std::vector<DiffLine> lines = DiffLines(a, b);
  std::string out;
  size_t at = 0;
  while (at < lines.size()) {
    while (at < lines.size() && lines[at].mark == ' ') ++at;
    if (at == lines.size()) break;
    const size_t begin = at > kContext ? at - kContext : 0;
    size_t end = at;
    size_t last = at;
    while (end < lines.size() && end <= last + 2 * kContext) {
      if (lines[end].mark != ' ') last = end;
      ++end;
    }
    end = std::min(lines.size(), last + 1 + kContext);
    out += Hunk(std::span(lines).subspan(begin, end - begin));
    at = end;
  }
  if (out.empty()) return out;
  return "--- " + name + "\n+++ " + name + "\n" + out;
}

}  // namespace shardc
