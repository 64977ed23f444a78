// Fixes are edits of byte ranges of the file as it was read, so that comments
// and layout stay: rules are removed and moved as whole lines, patterns are
// written in their own quotes. Where the text is not as expected (a rule in
// flow style, an escape) nothing is changed.
//
//   'mlp.up.weight' with an unescaped dot and no anchor
//     ->  'mlp\.up\.weight$'
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
      moved.insert(moved.begin(), '\n');
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

}  // namespace

std::vector<FixedFile> FixRules(const Facts& facts,
                                std::span<const Finding> findings) {
  Mender mender(facts);
  for (const Finding& finding : findings) mender.Take(finding);
  return mender.Run();
}

}  // namespace shardc
