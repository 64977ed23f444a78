// Computes a unified diff. Equal lines at the beginning and at the end of both
// texts are skipped first. In the remaining lines, the longest common
// subsequence is unchanged, and all other lines are removed or added. Changes
// with at most five unchanged lines between them share a hunk. A hunk has up to
// three lines of context before and after its changes. For example, for texts
// whose lines are letters:
//
//   a b c d  ->  a c x d     " a", "-b", " c", "+x", " d"
#include "emit/findings/formats.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace shardc {
namespace {

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

// The limit on the lines of each text that are compared. If a text has more
// lines, all old lines are shown as removed and all new lines as added. The
// time is quadratic, because a Table has the length of the longest common
// subsequence for each pair of lines.
constexpr size_t kMostLines = 4000;

using LineSpan = std::span<const std::string_view>;
using Table = std::vector<std::vector<uint32_t>>;

Table Common(LineSpan a, LineSpan b) {
  if (a.size() > kMostLines || b.size() > kMostLines) return {};
  Table out(a.size() + 1, std::vector<uint32_t>(b.size() + 1, 0));
  for (size_t i = a.size(); i > 0;) {
    --i;
    for (size_t j = b.size(); j > 0;) {
      --j;
      out[i][j] = a[i] == b[j] ? out[i + 1][j + 1] + 1
                               : std::max(out[i + 1][j], out[i][j + 1]);
    }
  }
  return out;
}

struct DiffLine {
  char mark;  // ' ' unchanged, '-' removed, '+' added
  std::string_view text;
  // The number of lines above this line in the old text, and in the new text.
  size_t before;
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
