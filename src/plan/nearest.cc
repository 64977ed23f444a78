// Finds the rule that was probably intended for a name that no rule matches, to
// suggest it in a finding. Names and patterns are split at their separators and
// compared part by part from the end, because the last parts describe the
// parameter. Exactly one part must differ. At least two parts must be equal, or
// fewer if the part that differs is a typing error. If the name or the pattern
// has more parts than the other, the first parts of the longer one are not
// compared. The name may also have one additional part at its end. Among such
// rules, rules that match no parameter are preferred. Then rules with a typing
// error are preferred, the fewest edits first, and then the rules with the most
// equal parts. Suppose that the rules are
//
//   [0] mlp/up/kernel   [1] moe/(up|down)/kernel   [2] moe/up/bias
// The rule nearest to `layers/3/moe/gate/kernel` is [1]. `kernel` and `moe` are
// equal, and [1] has `up` where the name has `gate`. [0] has only the equal
// part `kernel`, and [2] only `moe`. [1] is also the nearest to
// `layers/3/moe/dwn/kernel`, with a typing error of one edit. A rule
// `router/kernel` is near to the name `router/kernl` although only one part is
// equal, because of the typing error.
#include "plan/nearest.h"

#include <algorithm>
#include <tuple>

#include "model/name.h"
#include "source/edit_distance.h"

namespace shardc {
namespace {

struct Fit {
  int matched = 0;
  int run = 0;
  std::string written;
  std::string found;
};

bool IsNumber(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

// Compares a pattern with a name part by part from the end, after removing the
// last `skip` parts of the name. Returns nullopt if more than one part differs,
// or if a number in the pattern is compared with a part that is not a number.
std::optional<Fit> FitAt(const PatternText& text,
                         std::span<const std::string_view> name, size_t skip) {
  const std::vector<std::string>& pattern = text.parts;
  Fit fit;
  const size_t limit = std::min(pattern.size(), name.size() - skip);
  for (size_t i = 0; i < limit; ++i) {
    std::string part = pattern[pattern.size() - 1 - i];
    const std::string_view word = name[name.size() - 1 - skip - i];
    if (part.empty()) continue;
    const bool first = i + 1 == pattern.size();
    const std::string plain = part;
    if (first && !text.begin_anchor) part.insert(0, 1, Sketch::kWild);
    if (i == 0 && !text.end_anchor) part += Sketch::kWild;
    const bool wild_only = std::all_of(part.begin(), part.end(), [](char c) {
      return c == Sketch::kWild || c == Sketch::kAnyChar;
    });
    if (plain == "*" || (word == "*" && IsNumber(plain))) {
      // Any two numbers are treated as equal. They do not suggest that the rule
      // was intended for the name, so they are not counted in `matched`.
      if (word != "*") return std::nullopt;
      continue;
    }
    if (SketchFits(part, word)) {
      if (!wild_only) ++fit.matched;
      if (!wild_only && fit.written.empty()) ++fit.run;
      continue;
    }
    if (!fit.written.empty() || plain.empty()) return std::nullopt;
    fit.written = plain;
    fit.found = std::string(word);
  }
  return fit;
}

// Returns whether a text may be replaced in a pattern or may replace another
// text. `*` may not, because it represents numbers in the template of a name.
bool IsPlain(std::string_view text) { return IsLiteral(text) && text != "*"; }

std::string Rewrite(const std::string& pattern, const Fit& fit) {
  if (!IsPlain(fit.written) || !IsPlain(fit.found)) return {};
  const size_t at = pattern.find(fit.written);
  if (at == std::string::npos ||
      pattern.find(fit.written, at + 1) != std::string::npos) {
    return {};
  }
  std::string out = pattern;
  return out.replace(at, fit.written.size(), fit.found);
}

// Returns the text with `*` in place of each part that is a number, because the
// templates of names have `*` in place of numbers. The first and the last part
// are replaced only if the pattern is anchored there. Otherwise such a part may
// match only a piece of a part of the name.
PatternText WithoutNumbers(PatternText text) {
  for (size_t i = 0; i < text.parts.size(); ++i) {
    const bool whole = (i > 0 || text.begin_anchor) &&
                       (i + 1 < text.parts.size() || text.end_anchor);
    if (whole && IsNumber(text.parts[i])) text.parts[i] = "*";
  }
  return text;
}

std::vector<PatternText> TextsOf(std::span<const Rule> rules,
                                 std::span<const Sketch> sketches) {
  std::vector<PatternText> out;
  for (size_t r = 0; r < rules.size(); ++r) {
    const Sketch& sketch = sketches[r];
    for (const std::string& text : sketch.texts) {
      out.push_back(WithoutNumbers({static_cast<uint32_t>(r),
                                    SketchSegments(text, rules[r].separator),
                                    sketch.begin_anchor, sketch.end_anchor}));
    }
  }
  return out;
}

std::vector<Sketch> SketchesOf(std::span<const Rule> rules) {
  std::vector<Sketch> out;
  out.reserve(rules.size());
  for (const Rule& rule : rules) out.push_back(SketchOf(rule.match));
  return out;
}

}  // namespace

NearestRules::NearestRules(std::span<const Rule> rules, const Matches& matches,
                           char separator)
    : rules_(rules),
      separator_(separator),
      sketches_(SketchesOf(rules)),
      texts_(TextsOf(rules, sketches_)),
      index_(texts_),
      dead_(rules.size(), true) {
  for (const uint32_t rule : matches.rules) dead_[rule] = false;
}

std::optional<NearRule> NearestRules::Of(std::string_view name, Among among,
                                         const std::set<int32_t>& taken) const {
  const std::string general = NameTemplate(name, separator_);
  const std::vector<std::string_view> parts = SplitName(general, separator_);
  std::optional<NearRule> best;
  std::tuple<bool, bool, int64_t, int, int, int64_t, bool> best_score;
  for (const uint32_t candidate : index_.Candidates(parts)) {
    const PatternText& text = texts_[candidate];
    const size_t r = text.rule;
    const auto index = static_cast<int32_t>(r);
    if (among == Among::kDead && !dead_[r]) continue;
    for (size_t skip = 0; skip < std::min<size_t>(parts.size(), 2); ++skip) {
      auto fit = FitAt(text, parts, skip);
      if (!fit || fit->written.empty()) continue;
      const bool typing_error = IsTypingError(fit->written, fit->found);
      if (fit->matched < 2 && !typing_error) continue;
      const int64_t edits = PartEdits(fit->written, fit->found);
      const std::tuple score(dead_[r], typing_error, typing_error ? -edits : 0,
                             fit->matched, fit->run, -edits,
                             !taken.contains(index));
      if (best && score <= best_score) continue;
      best =
          NearRule{index,        fit->matched, fit->run,
                   fit->written, fit->found,   Rewrite(rules_[r].match, *fit)};
      best_score = score;
    }
  }
  return best;
}

}  // namespace shardc
