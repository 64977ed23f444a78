// Finds the patterns that may be near to a name, without comparing the name
// with every pattern. Each pattern is represented by texts that it can match. A
// text is near to a name if at most one of the compared parts differs, and if
// at least two parts are equal or the different part is a typing error. So of
// any two parts of a near text, at least one is equal to a part of the name.
// Therefore it is enough to list each text under its two rarest parts. For
// example, two texts are listed in this way:
//
//   layers/attn/q_proj/kernel   [0] under `attn` and `q_proj`
//   layers/mlp/up_proj/kernel   [1] under `mlp` and `up_proj`
//
// The only candidate for the name layers/attn/k_proj/kernel is [0], which is
// listed under `attn`. If a text has only two parts, the part under which it is
// listed may be the part with the typing error. Such parts are therefore also
// compared by edits. A text that has too few literal parts to be listed is
// always a candidate.
#include "plan/nearest_index.h"

#include <algorithm>
#include <utility>

#include "match/sketch.h"

namespace shardc {

NearestIndex::NearestIndex(std::span<const PatternText> texts) {
  for (size_t level = 0; level < kDepth; ++level) Build(texts, level);
  for (MisspeltWords& words : words_) words.Finish();
}

std::string NearestIndex::KeyOf(size_t depth, Fit fit, std::string_view text) {
  std::string key(1, static_cast<char>(depth * 4 + static_cast<size_t>(fit)));
  return key.append(text);
}

// Returns those of the last `compared` parts of the text that are literal.
std::vector<NearestIndex::LiteralPart> NearestIndex::LiteralParts(
    const PatternText& text, size_t compared) {
  std::vector<LiteralPart> out;
  const size_t size = text.parts.size();
  for (size_t depth = 0; depth < std::min(size, compared); ++depth) {
    const std::string& part = text.parts[size - 1 - depth];
    if (part.empty() || !IsLiteral(part)) continue;
    const bool ends = depth + 1 == size && !text.begin_anchor;
    const bool begins = depth == 0 && !text.end_anchor;
    out.push_back({depth,
                   ends && begins ? Fit::kContained
                   : ends         ? Fit::kEnds
                   : begins       ? Fit::kBegins
                                  : Fit::kEqual,
                   &part});
  }
  return out;
}

void NearestIndex::Build(std::span<const PatternText> texts, size_t level) {
  Level& out = levels_[level];
  const size_t compared = level + 1;
  std::unordered_map<std::string, size_t> counts;
  for (const PatternText& text : texts) {
    for (const LiteralPart& part : LiteralParts(text, compared)) {
      ++counts[KeyOf(part.depth, part.fit, *part.text)];
    }
  }
  for (size_t t = 0; t < texts.size(); ++t) {
    const PatternText& text = texts[t];
    const auto number = static_cast<uint32_t>(t);
    std::vector<LiteralPart> parts = LiteralParts(text, compared);
    std::stable_sort(parts.begin(), parts.end(),
                     [&](const LiteralPart& a, const LiteralPart& b) {
                       return counts[KeyOf(a.depth, a.fit, *a.text)] <
                              counts[KeyOf(b.depth, b.fit, *b.text)];
                     });
    // Whether the text has a part that may be compared but is in no list,
    // because the part is not literal or is not one of the last three parts.
    const size_t last = std::min(text.parts.size(), compared);
    bool others = compared == kDepth && text.parts.size() > kDepth;
    for (size_t depth = 0; depth < last; ++depth) {
      const std::string& part = text.parts[text.parts.size() - 1 - depth];
      others = others || (!part.empty() && !IsLiteral(part));
    }
    const auto list = [&](const LiteralPart& part) {
      out.fitting[KeyOf(part.depth, part.fit, *part.text)].push_back(number);
      out.lengths[part.depth][static_cast<size_t>(part.fit)].insert(
          part.text->size());
    };
    const auto list_word = [&](const LiteralPart& part) {
      TextsOfWords& of_words = out.texts[part.depth];
      const size_t word = words_[part.depth].Add(*part.text);
      if (word >= of_words.size()) of_words.resize(word + 1);
      of_words[word].push_back(number);
    };
    const size_t literal = parts.size();
    if (literal >= 3 || (literal == 2 && others)) {
      list(parts[0]);
      list(parts[1]);
    } else if (literal >= 1 && !others) {
      list_word(parts[0]);
      if (literal == 2) list(parts[0]);
    } else if (others) {
      out.always.push_back(number);
    }
  }
}

void NearestIndex::AddFitting(const Level& level, size_t depth,
                              std::string_view word,
                              std::vector<uint32_t>& out) {
  const auto& lengths = level.lengths[depth];
  for (const Fit fit : {Fit::kEqual, Fit::kEnds, Fit::kBegins}) {
    for (const size_t length : lengths[static_cast<size_t>(fit)]) {
      if (length > word.size()) break;
      if (fit == Fit::kEqual && length != word.size()) continue;
      const std::string_view part = fit == Fit::kEnds
                                        ? word.substr(word.size() - length)
                                        : word.substr(0, length);
      const auto at = level.fitting.find(KeyOf(depth, fit, part));
      if (at == level.fitting.end()) continue;
      out.insert(out.end(), at->second.begin(), at->second.end());
    }
  }
}

void NearestIndex::AddMisspelt(const Level& level, size_t depth,
                               std::string_view word,
                               std::vector<uint32_t>& out) const {
  const TextsOfWords& of_words = level.texts[depth];
  if (of_words.empty()) return;
  for (const size_t near : words_[depth].Find(word)) {
    if (near >= of_words.size()) continue;
    const auto& texts = of_words[near];
    out.insert(out.end(), texts.begin(), texts.end());
  }
}

std::vector<uint32_t> NearestIndex::Candidates(
    std::span<const std::string_view> parts) const {
  std::vector<uint32_t> out;
  // The second pass leaves out the last part of the name, because a name may
  // have one more part at its end than the text.
  for (size_t skip = 0; skip < std::min<size_t>(parts.size(), 2); ++skip) {
    const size_t compared = std::min(parts.size() - skip, kDepth);
    const Level& level = levels_[compared - 1];
    for (size_t depth = 0; depth < compared; ++depth) {
      const std::string_view word = parts[parts.size() - 1 - skip - depth];
      AddFitting(level, depth, word, out);
      AddMisspelt(level, depth, word, out);
    }
    out.insert(out.end(), level.always.begin(), level.always.end());
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace shardc
