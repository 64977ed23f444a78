// Formats numbers and names for messages, and finds the word that a misspelt
// word may stand for. Numbers are formatted with integer arithmetic only, so
// that the texts are the same on every platform.
//
// Nearest() returns the candidate with the smallest edit distance to a word. A
// distance of more than a third of the word's length does not count; then it
// returns the first candidate of which the word is the first part, or the last.
// Swapping two neighbouring letters counts as one edit. For example:
//
//   1536 -> 1.5 KiB     50257 -> 50,257     Nearest(kernle) -> kernel
#include "source/wording.h"

#include <algorithm>
#include <array>
#include <vector>

#include "source/utf8.h"

namespace shardc {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

void AppendHex(std::string& out, uint32_t value, int digits) {
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) {
    out += kHex[(value >> shift) & 0xF];
  }
}

}  // namespace

std::string BytesText(int64_t bytes) {
  static constexpr std::array<std::string_view, 7> kUnits = {
      "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  const bool negative = bytes < 0;
  const uint64_t size = negative ? ~static_cast<uint64_t>(bytes) + 1
                                 : static_cast<uint64_t>(bytes);
  size_t unit = 0;
  uint64_t scale = 1;
  while (unit + 1 < kUnits.size() && size / scale >= 1024) {
    scale *= 1024;
    ++unit;
  }
  // Divide the unit into at most 2^20 parts, and count the size in these parts,
  // so that multiplying by 100 does not overflow.
  const uint64_t parts = std::min(scale, uint64_t{1} << 20);
  const uint64_t in_parts = size / (scale / parts);
  const uint64_t whole = size / scale;
  const uint64_t digit = whole >= 1000 ? 100 : whole >= 100 ? 10 : 1;
  const uint64_t divisor = parts * digit;
  uint64_t hundredths = (in_parts * 100 + divisor / 2) / divisor * digit;
  if (hundredths >= 102400 && unit + 1 < kUnits.size()) {
    hundredths = 100;
    ++unit;
  }
  std::string out = negative ? "-" : "";
  out += std::to_string(hundredths / 100);
  if (const uint64_t tail = hundredths % 100; tail != 0) {
    out += '.';
    out += kHex[tail / 10];
    if (tail % 10 != 0) out += kHex[tail % 10];
  }
  out += ' ';
  out += kUnits[unit];
  return out;
}

std::string CountText(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string Counted(int64_t count, std::string_view singular,
                    std::string_view plural) {
  std::string out = CountText(count) + " ";
  if (count == 1) return out.append(singular);
  if (!plural.empty()) return out.append(plural);
  return out.append(singular) + "s";
}

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = DecodeUtf8(text, at);
    if (point.length == 0) {
      out += "\\x";
      AppendHex(out, static_cast<unsigned char>(text[at]), 2);
      ++at;
      continue;
    }
    if (point.value < 0x80 && IsHidden(point.value)) {
      out += "\\x";
      AppendHex(out, point.value, 2);
    } else if (IsHidden(point.value)) {
      const bool wide = point.value > 0xFFFF;
      out += wide ? "\\U" : "\\u";
      AppendHex(out, point.value, wide ? 8 : 4);
    } else {
      out += text.substr(at, point.length);
    }
    at += point.length;
  }
  return out;
}

std::string CodeSpan(std::string_view text) {
  const std::string shown = Printable(text);
  size_t row = 0, longest = 0;
  for (const char c : shown) {
    row = c == '`' ? row + 1 : 0;
    longest = std::max(longest, row);
  }
  const std::string fence(longest + 1, '`');
  // Markdown strips one space at each end, unless the code is all spaces.
  const bool ends = shown.starts_with('`') || shown.ends_with('`') ||
                    (shown.starts_with(' ') && shown.ends_with(' ') &&
                     shown.find_first_not_of(' ') != std::string::npos);
  const std::string_view room = ends ? " " : "";
  return fence + std::string(room) + shown + std::string(room) + fence;
}

std::string CodeCell(std::string_view text) {
  std::string out;
  for (const char c : CodeSpan(text)) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string PadLeft(std::string text, size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string Quote(std::string_view text) {
  return "`" + std::string(text) + "`";
}

std::string ShortQuote(std::string_view text) {
  constexpr size_t kLongest = 60;
  if (text.size() <= kLongest) return "`" + Printable(text) + "`";
  size_t cut = kLongest;
  // Do not split a character: continuation bytes are 10xxxxxx.
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) {
    --cut;
  }
  return "`" + Printable(text.substr(0, cut)) + "...`";
}

std::string FoldCase(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::optional<std::string> Nearest(std::string_view word,
                                   std::span<const std::string> candidates) {
  // Longer words are not compared, because an edit distance takes time
  // quadratic in the length of the words.
  constexpr size_t kLongest = 256;
  if (word.size() > kLongest) return std::nullopt;
  const std::string wanted = FoldCase(word);
  const size_t most = wanted.size() / 3;
  std::optional<std::string> best;
  size_t best_distance = most + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > wanted.size() + most ||
        wanted.size() > candidate.size() + most) {
      continue;
    }
    const size_t distance = EditDistance(wanted, FoldCase(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (best) return best;
  // The first part of a name, such as `h100` of `h100-sxm`.
  for (const std::string& candidate : candidates) {
    if (wanted.size() > 2 && FoldCase(candidate).starts_with(wanted + "-")) {
      return candidate;
    }
  }
  // The first letters of a name, such as `catchall` of `catch-all-replicates`.
  const auto letters = [](std::string_view name) {
    std::string out;
    for (const char c : FoldCase(name)) {
      if (c != '-' && c != '_') out += c;
    }
    return out;
  };
  const std::string bare = letters(word);
  for (const std::string& candidate : candidates) {
    if (bare.size() > 4 && letters(candidate).starts_with(bare)) {
      return candidate;
    }
  }
  // The last parts of a name, such as `tp_plan` of `hf-tp-plan`.
  std::string last = "-" + wanted;
  std::replace(last.begin(), last.end(), '_', '-');
  for (const std::string& candidate : candidates) {
    if (wanted.size() > 2 && FoldCase(candidate).ends_with(last)) {
      return candidate;
    }
  }
  return std::nullopt;
}

std::string DidYouMean(std::string_view word,
                       std::span<const std::string> candidates,
                       std::string_view otherwise) {
  const auto nearest = Nearest(word, candidates);
  return nearest ? "did you mean `" + *nearest + "`?" : std::string(otherwise);
}

std::string DidYouMean(std::string_view word,
                       std::span<const std::string_view> candidates,
                       std::string_view otherwise) {
  const std::vector<std::string> names(candidates.begin(), candidates.end());
  return DidYouMean(word, names, otherwise);
}

// Computes the edit distance of two words. A table holds the distance between
// each prefix of one word and each prefix of the other. It is filled row by
// row. A swap of neighbouring letters is one edit and is computed from the row
// before the last, so the last three rows are stored. For example:
//
//   atn -> attn: 1     kernle -> kernel: 1     mlp -> moe: 2

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1);
  std::vector<size_t> now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, change});
      const bool swapped =
          i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(now);
  }
  return last[b.size()];
}

int64_t PartEdits(std::string_view a, std::string_view b) {
  constexpr size_t kLongest = 64;
  const size_t longest = std::max(a.size(), b.size());
  return static_cast<int64_t>(longest > kLongest ? longest
                                                 : EditDistance(a, b));
}

}  // namespace shardc
