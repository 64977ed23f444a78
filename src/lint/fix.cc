// Makes fixes as edits of byte ranges of the file, so that comments and
// formatting are kept. Rules are removed and moved as complete lines with their
// comments, and patterns are edited inside their quotes. If the text has
// another form (a rule in flow style, an escape), no edit is made.
//
//   'mlp.up.weight' with unescaped dots and no `$`
//     ->  'mlp\.up\.weight$', in two fixes
#include "lint/fix.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "lint/analysis/pattern_faults.h"
#include "lint/baseline.h"
#include "lint/rules/all.h"
#include "match/match.h"
#include "match/re2_finder.h"
#include "model/name.h"
#include "source/file.h"
#include "source/utf8.h"
#include "yaml/scan.h"

namespace shardc {
namespace {

// The bytes of a rule in block style, including its dash and its comments.
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

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

bool IsComment(std::string_view line) {
  const size_t at = line.find_first_not_of(" \t");
  return at != std::string_view::npos && line[at] == '#';
}

// Returns the line that begins at `at`, including its line break.
std::string_view LineAt(std::string_view text, size_t at) {
  return text.substr(at, LineEnd(text, at) - at);
}

// Returns whether a line is a comment that belongs to the lines above it,
// because it is indented deeper than the dash of a rule. A comment that ignores
// findings, such as `# shardc: ignore[SHD105]`, belongs to the line below it.
bool IsDeeperComment(std::string_view line, size_t indent) {
  return IsComment(line) && Indent(line) > indent && !IsIgnoreMark(line);
}

// Returns the position at which the comments of a rule begin. These are the
// comments directly above the rule, and ignore comments, which may be above
// blank lines. A comment directly below another rule belongs to that rule if it
// is indented deeper than the dash.
size_t CommentsBegin(std::string_view text, size_t begin, size_t indent) {
  size_t own = begin;
  bool touches = true;
  for (size_t at = begin; at > 0;) {
    at = LineBegin(text, at - 1);
    const std::string_view line = LineAt(text, at);
    if (!IsBlank(line) && !IsComment(line)) {
      // A comment indented deeper than the dash belongs to the rule above it.
      size_t next = LineEnd(text, at);
      while (next < begin && IsDeeperComment(LineAt(text, next), indent)) {
        next = LineEnd(text, next);
      }
      return std::max(own, next);
    }
    touches = touches && IsComment(line);
    if (IsComment(line) && (touches || IsIgnoreMark(line))) {
      own = at;
      touches = true;
    }
  }
  return own;
}

// Returns the lines of a rule. Returns nullopt if the rule is in flow style or
// shares its lines with other YAML.
std::optional<Block> BlockOf(const Rule& rule) {
  if (!rule.place.HasPosition()) return std::nullopt;
  const std::string_view text = rule.place.source->text();
  Block block;
  block.begin = LineBegin(text, rule.place.begin);
  const std::string_view first = LineAt(text, block.begin);
  const size_t indent = Indent(first);
  if (indent >= first.size() || first[indent] != '-') return std::nullopt;
  const size_t key = first.find_first_not_of(' ', indent + 1);
  if (key == std::string_view::npos || first[key] == '{') return std::nullopt;
  // The rule ends with the last line that is indented deeper than its dash.
  block.end = block.begin + first.size();
  bool touches = true;
  for (size_t at = block.end; at < text.size();) {
    const std::string_view line = LineAt(text, at);
    at += line.size();
    if (!IsBlank(line) && !IsComment(line)) {
      if (Indent(line) <= indent) break;
      block.end = at;
      touches = true;
    } else if (touches && IsDeeperComment(line, indent)) {
      block.end = at;
    } else {
      touches = false;
    }
  }
  block.begin = CommentsBegin(text, block.begin, indent);
  return block;
}

// Returns the pattern in single or double quotes, as YAML writes it, or without
// quotes if `quote` is another character. Returns nullopt for a control
// character in double quotes.
std::optional<std::string> Written(std::string_view pattern, char quote) {
  if (quote == '\'') return SingleQuoted(pattern);
  if (quote == '"') {
    std::string out;
    for (char c : pattern) {
      if (static_cast<unsigned char>(c) < 0x20) return std::nullopt;
      if (c == '\\' || c == '"') out += '\\';
      out += c;
    }
    return "\"" + out + "\"";
  }
  return std::string(pattern);
}

// Returns the insertions that change the rule's pattern to `fixed`. `fixed`
// must contain all characters of the pattern in the same order. Only new
// characters are inserted, so that two fixes of one pattern can both be
// applied.
std::vector<TextEdit> Insertions(const Rule& rule, std::string_view fixed) {
  if (!rule.match_place.HasPosition()) return {};
  const std::string_view text = rule.match_place.source->text();
  size_t at = rule.match_place.begin;
  // The place of a quoted pattern may begin after the quote.
  if (at > 0 && (text[at - 1] == '\'' || text[at - 1] == '"')) --at;
  const char quote = text[at];
  const size_t open = quote == '\'' || quote == '"' ? 1 : 0;
  const auto whole = Written(rule.match, quote);
  if (!whole || text.substr(at, whole->size()) != *whole) return {};
  const auto inside = [&](std::string_view part) {
    const std::string quoted = Written(part, quote).value_or("");
    return quoted.substr(open, quoted.size() - 2 * open);
  };
  std::vector<TextEdit> out;
  size_t from = 0;
  for (size_t i = 0; i <= rule.match.size(); ++i) {
    const size_t to =
        i == rule.match.size() ? fixed.size() : fixed.find(rule.match[i], from);
    if (to == std::string_view::npos) return {};
    if (to > from) {
      const size_t place =
          at + open + inside(std::string_view(rule.match).substr(0, i)).size();
      out.push_back({place, place, inside(fixed.substr(from, to - from))});
    }
    from = to + 1;
  }
  return out;
}

// Removes the text `start` from the beginning of the rule's pattern. Returns no
// edits if there are no quotes and YAML might not read the remaining text as a
// string.
std::vector<TextEdit> WithoutStart(const Rule& rule, std::string_view start) {
  if (!rule.match_place.HasPosition()) return {};
  const std::string_view text = rule.match_place.source->text();
  size_t at = rule.match_place.begin;
  bool quoted = at > 0 && (text[at - 1] == '\'' || text[at - 1] == '"');
  if (!quoted && at < text.size() && (text[at] == '\'' || text[at] == '"')) {
    quoted = true;
    ++at;
  }
  if (!text.substr(at).starts_with(start)) return {};
  const size_t end = at + start.size();
  const char next = end < text.size() ? text[end] : '\n';
  const bool plain =
      next == '\\' || next == '(' || next == '_' || IsLetter(next);
  if (!quoted && !plain) return {};
  return {{at, end, ""}};
}

// Removes one code from an ignore comment, or the complete comment if it has no
// other code.
std::optional<RuleFix> WithoutIgnore(const Finding& finding) {
  if (!finding.place.HasPosition()) return std::nullopt;
  const std::string_view text = finding.place.source->text();
  const size_t begin = finding.place.begin, end = finding.place.end;
  const size_t line = LineBegin(text, begin), line_end = LineEnd(text, begin);
  const size_t open = text.rfind('[', begin), close = text.find(']', end);
  if (open == text.npos || open < line || close >= line_end) {
    return std::nullopt;
  }
  TextEdit edit;
  if (text.substr(open, close - open).find(',') != text.npos) {
    const size_t comma = text.find(',', end);
    edit = comma < close
               ? TextEdit{begin, text.find_first_not_of(" \t", comma + 1), ""}
               : TextEdit{text.rfind(',', begin), end, ""};
  } else {
    const size_t mark = text.rfind('#', open);
    if (mark == text.npos || mark < line) return std::nullopt;
    const size_t before = text.find_last_not_of(" \t", mark - 1);
    const bool alone = mark == line || before == text.npos || before < line;
    const size_t last = text.find_last_not_of("\r\n", line_end - 1) + 1;
    edit =
        alone ? TextEdit{line, line_end, ""} : TextEdit{before + 1, last, ""};
  }
  RuleFix fix{finding.code, finding.place.source, {}, {edit}, finding.place};
  fix.file = FileIdOf(fix.source->name());
  fix.by_hand = true;
  return fix;
}

// Returns the position of the pattern's first character. Returns nullopt if the
// file writes the pattern with escapes.
std::optional<size_t> PatternBegin(const Rule& rule) {
  if (!rule.match_place.HasPosition()) return std::nullopt;
  const std::string_view text = rule.match_place.source->text();
  size_t at = rule.match_place.begin;
  if (at < text.size() && (text[at] == '\'' || text[at] == '"')) ++at;
  if (text.substr(at, rule.match.size()) != rule.match) return std::nullopt;
  return at;
}

// Writes the words of the pattern in the case of the name: `attn/WQKV$` becomes
// `attn/Wqkv$` for `layers/0/attn/Wqkv`. A word that does not occur in the
// name, even if case is ignored, is not changed. Returns no edits if the result
// does not match the name, as for `[QK]_proj`.
std::vector<TextEdit> InCaseOf(const Rule& rule, std::string_view name,
                               char separator) {
  const auto begin = PatternBegin(rule);
  if (!begin) return {};
  const std::string_view pattern = rule.match;
  const std::string lower = LowerCase(name);
  std::vector<TextEdit> out;
  std::string fixed = rule.match;
  for (size_t at = 0; at < pattern.size();) {
    if (pattern[at] == '\\') {
      at += 2;  // skips a class such as `\d`, or an escaped character
      continue;
    }
    size_t end = at;
    while (end < pattern.size() && IsWordByte(pattern[end])) ++end;
    const std::string_view word = pattern.substr(at, end - at);
    const size_t found =
        word.empty() ? std::string::npos : lower.find(LowerCase(word));
    if (found != std::string::npos && name.find(word) == name.npos) {
      const std::string own(name.substr(found, word.size()));
      out.push_back({*begin + at, *begin + end, own});
      fixed.replace(at, own.size(), own);
    }
    at = std::max(end, at + 1);
  }
  Findings ignored;
  std::string scratch;
  const auto regex = Regex::Compile({fixed, Place{}, rule.separator}, ignored);
  const auto text = Convert(name, separator, rule.separator, scratch);
  return regex && regex->Found(text) ? out : std::vector<TextEdit>();
}

// Returns whether a line continues the value of a key with this indentation.
// The items of a list may have the same indentation as the key.
bool ContinuesBelow(std::string_view line, size_t indent) {
  const size_t own = Indent(line);
  if (IsBlank(line) || own < indent) return false;
  return own > indent || (line[own] == '-' && IsBlank(line.substr(own + 1, 1)));
}

// Returns whether a line's value is on the lines below. Without its comment,
// the line is only a dash or a key, such as `bundles:  # of ours`.
bool OpensBlock(std::string_view line) {
  line = line.substr(0, line.find(" #"));
  const size_t last = line.find_last_not_of(" \t\r\n");
  return last != std::string_view::npos &&
         (line[last] == ':' || line[last] == '-');
}

// Returns the edit that removes an unused bundle or registration. If its
// section has no other entry, the section is removed as well. Returns nullopt
// for YAML's flow style, `{...}`.
std::optional<RuleFix> WithoutDefinition(const Finding& finding) {
  if (!finding.place.HasPosition()) return std::nullopt;
  const std::string_view text = finding.place.source->text();
  size_t begin = LineBegin(text, finding.place.begin);
  const std::string_view first = LineAt(text, begin);
  const size_t indent = Indent(first);
  const size_t colon = first.find(':');
  if (indent == 0 || colon == first.npos || first[indent] == '-' ||
      first.substr(0, colon).find('{') != first.npos) {
    return std::nullopt;
  }
  size_t end = begin + first.size();
  while (end < text.size() && ContinuesBelow(LineAt(text, end), indent)) {
    end = LineEnd(text, end);
  }
  if (begin == 0) return std::nullopt;
  const size_t above = LineBegin(text, begin - 1);
  const std::string_view key = LineAt(text, above);
  if (IsBlank(key) || IsComment(key)) return std::nullopt;
  // If the line above has less indentation but opens no block, the definition
  // is in flow style and is not removed.
  if (Indent(key) < indent && !OpensBlock(key)) return std::nullopt;
  size_t next = end;
  while (next < text.size() &&
         (IsBlank(LineAt(text, next)) || IsComment(LineAt(text, next)))) {
    next = LineEnd(text, next);
  }
  const bool last = next >= text.size() || Indent(LineAt(text, next)) < indent;
  if (Indent(key) < indent && last) begin = above;
  RuleFix fix{finding.code,
              finding.place.source,
              {},
              {{begin, end, ""}},
              finding.place};
  fix.file = FileIdOf(fix.source->name());
  fix.by_hand = true;
  return fix;
}

// Makes the fixes of findings, as edits of rules, ignore comments and
// definitions.
class RulesEditor {
 public:
  explicit RulesEditor(const Facts& facts) : facts_(facts) {}

  std::optional<RuleFix> FixOf(const Finding& finding) const {
    if (finding.code->number == kUnusedIgnore.code.number) {
      return WithoutIgnore(finding);
    }
    if (finding.code->number == kUnusedDefinition.code.number) {
      return WithoutDefinition(finding);
    }
    const auto rule = RuleAt(finding.place);
    if (!rule) return std::nullopt;
    const Rule& one = facts_.rules()[*rule];
    RuleFix fix{finding.code, one.place.source, {}, {}, finding.place};
    const int number = finding.code->number;
    if (number == kDuplicateRule.code.number) {
      fix.edits = Removal(*rule);
    } else if (number == kCatchAllNotLast.code.number) {
      fix.edits = MoveToEnd(*rule);
    } else if (number == kUnanchoredPattern.code.number) {
      const auto ended = EndedPattern(facts_, *rule);
      if (ended) fix.edits = Insertions(one, *ended);
    } else if (number == kUnescapedDot.code.number) {
      fix.edits = Insertions(one, EscapeDots(one.match).value_or(one.match));
    } else if (number == kRedundantWildcard.code.number) {
      fix.edits = WithoutStart(facts_.rules()[*rule], ".*");
    } else if (number == kAnchoredMissesStates.code.number) {
      fix.edits = WithoutStart(facts_.rules()[*rule], "^");
    } else if (number == kCaseMismatch.code.number) {
      const int32_t group = facts_.rule_facts()[*rule].would_match;
      if (group < 0) return std::nullopt;
      fix.edits =
          InCaseOf(facts_.rules()[*rule],
                   facts_.Example(facts_.groups()[static_cast<size_t>(group)]),
                   facts_.separator());
    } else if (number == kDeadRule.code.number) {
      fix.edits = Removal(*rule);
      fix.by_hand = true;
    }
    if (fix.edits.empty()) return std::nullopt;
    fix.file = FileIdOf(fix.source->name());
    return fix;
  }

 private:
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

  std::vector<TextEdit> Removal(size_t rule) const {
    const auto block = BlockOf(facts_.rules()[rule]);
    if (!block) return {};
    return {{block->begin, block->end, ""}};
  }

  std::vector<TextEdit> MoveToEnd(size_t rule) const {
    const SourceRef& source = facts_.rules()[rule].place.source;
    std::optional<size_t> last;
    for (size_t r = rule + 1; r < facts_.rules().size(); ++r) {
      if (facts_.rules()[r].place.source != source) continue;
      last = r;
      // If the file has two catch-alls, only its author knows which one should
      // be last.
      if (facts_.rule_facts()[r].sketch.catch_all) return {};
    }
    if (!last) return {};
    const auto block = BlockOf(facts_.rules()[rule]);
    const auto target = BlockOf(facts_.rules()[*last]);
    if (!block || !target) return {};
    const std::string_view text = source->text();
    std::string moved(text.substr(block->begin, block->end - block->begin));
    if (moved.empty() || moved.back() != '\n') moved += BreakOf(text);
    if (target->end > 0 && text[target->end - 1] != '\n') {
      moved.insert(0, BreakOf(text));
    }
    return {{block->begin, block->end, ""},
            {target->end, target->end, std::move(moved)}};
  }

  const Facts& facts_;
};

bool Meet(const TextEdit& a, const TextEdit& b) {
  return a.begin < b.end && b.begin < a.end;
}

}  // namespace

std::string_view BreakOf(std::string_view text) {
  const size_t at = text.find('\n');
  return at != text.npos && at > 0 && text[at - 1] == '\r' ? "\r\n" : "\n";
}

std::vector<RuleFix> FixesOf(const Facts& facts,
                             std::span<const Finding> findings) {
  const RulesEditor editor(facts);
  std::vector<RuleFix> out;
  for (const Finding& finding : findings) {
    if (auto fix = editor.FixOf(finding)) out.push_back(std::move(*fix));
  }
  return out;
}

bool Meet(const RuleFix& a, const RuleFix& b) {
  if (a.file != b.file) return false;
  return std::any_of(a.edits.begin(), a.edits.end(), [&](const TextEdit& mine) {
    return std::any_of(
        b.edits.begin(), b.edits.end(),
        [&](const TextEdit& other) { return Meet(mine, other); });
  });
}

std::string Fixed(std::string_view text, std::span<const RuleFix> fixes) {
  std::vector<TextEdit> edits;
  for (const RuleFix& fix : fixes) {
    edits.insert(edits.end(), fix.edits.begin(), fix.edits.end());
  }
  // At one position, an insertion comes before the removal of text.
  std::stable_sort(edits.begin(), edits.end(),
                   [](const TextEdit& a, const TextEdit& b) {
                     return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
                   });
  std::string out;
  size_t at = 0;
  for (const TextEdit& edit : edits) {
    out += text.substr(at, edit.begin - at);
    out += edit.text;
    at = edit.end;
  }
  out += text.substr(at);
  return out;
}

}  // namespace shardc
