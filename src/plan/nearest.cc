// Finds the rule that was probably intended for a name that no rule matches, to
// suggest it in a finding. Names and patterns are split at their separators and
// compared part by part from the end, because the last parts describe the
// parameter. If the name and the pattern have different numbers of parts, the
// first parts of the longer one are not compared. The name may also have one
// additional part at its end. A rule is near to a name if exactly one compared
// part differs, and if at least two parts are equal. If the part that differs
// is a typing error, fewer equal parts are enough.
//
// Of several near rules, a rule that matches no parameter is preferred. Then a
// rule with a typing error is preferred, with the fewest edits, and then the
// rule with the most equal parts. Suppose that the rules are
//
//   [0] mlp/up/kernel   [1] moe/(up|down)/kernel   [2] moe/up/bias
//
// The rule nearest to `layers/3/moe/gate/kernel` is [1]. `kernel` and `moe` are
// equal, and only `gate` differs from `up`. [0] has only the equal part
// `kernel`, and [2] only `moe`. For `layers/3/moe/dwn/kernel`, [1] is also the
// nearest, with a typing error of one edit. A rule `router/kernel` is near to
// `router/kernl` with one equal part, because `kernl` is a typing error.
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

// Compares a pattern with a name part by part from the end. The last `skip`
// parts of the name are left out. Returns nullopt if more than one part
// differs, or if a number in the pattern is compared with a part that is not a
// number.
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
    if (plain == "*" || (word == "*" && AllDigits(plain))) {
      // Any two numbers are treated as equal. They are not counted in
      // `matched`, because they do not show that the rule was intended for the
      // name.
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

// Returns whether Rewrite() may remove this text from a pattern or insert it.
// The text must be literal. It must not have a `*`, which represents a number
// in the template of a name, such as `layers.*.up`.
bool IsPlain(std::string_view text) {
  return IsLiteral(text) && text.find('*') == std::string_view::npos;
}

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

// Returns the pattern's text with `*` in place of each number that the template
// of a name replaces. A first part that is a number is replaced only if the
// pattern begins with `^`, and the last part only if it ends with `$`.
// Otherwise the part may match inside another number, as `1` matches in `12`.
PatternText WithoutNumbers(PatternText text) {
  for (size_t i = 0; i < text.parts.size(); ++i) {
    std::string& part = text.parts[i];
    const size_t stem = StemLength(part);
    const bool begins = i > 0 || text.begin_anchor || stem > 0;
    const bool ends = i + 1 < text.parts.size() || text.end_anchor;
    if (begins && ends && stem < part.size()) {
      part.replace(stem, part.npos, 1, '*');
    }
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
