// Draws bars as text. A bar consists of the letters of its parts, such as P for
// parameters, so that it can be read without colour and be copied as text. The
// budget, a device's memory, is marked by `!` if the bar is longer than the
// budget, else by `│`. For example:
//
//   train   PPGGOO············│       5.59 GiB    35 %
//   decode  PPPPPPPPPPPPPPPPPP!PPPP   20.1 GiB   126 %  over
#include "emit/pictures/line.h"

#include <algorithm>
#include <cmath>

#include "picture/bars.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

int64_t Sum(const std::vector<int64_t>& parts) {
  int64_t out = 0;
  for (int64_t part : parts) out = CheckedAdd(out, part).value_or(INT64_MAX);
  return out;
}

std::string PercentText(int64_t part, int64_t whole) {
  const double share =
      100.0 * static_cast<double>(part) / static_cast<double>(whole);
  return std::to_string(std::llround(share)) + " %";
}

std::string TotalText(const MemoryBar& bar) {
  return (bar.at_least ? "at least " : "") + BytesText(Sum(bar.parts));
}

// Returns the letters of one bar, padded up to the budget. If there is no
// budget, the bar is padded to the full width.
std::string Cells(const MemoryBars& memory, const MemoryBar& bar, int64_t scale,
                  int64_t width, const Glyphs& glyphs) {
  std::vector<std::string> cells;
  const auto lengths = picture::CellsOf(bar.parts, scale, width);
  for (size_t i = 0; i < lengths.size(); ++i) {
    for (int64_t k = 0; k < lengths[i]; ++k) {
      cells.emplace_back(1, memory.parts[i].letter);
    }
  }
  const int64_t end =
      memory.budget ? picture::CellsOf(*memory.budget, scale, width) : width;
  const bool over = memory.budget && Sum(bar.parts) > *memory.budget;
  while (static_cast<int64_t>(cells.size()) < end) {
    cells.emplace_back(glyphs.track);
  }
  if (memory.budget && over) {
    const auto at =
        AsIndex(std::min(end, static_cast<int64_t>(cells.size()) - 1));
    cells[at] = "!";
  } else if (memory.budget) {
    cells.emplace_back(glyphs.down);
  }
  std::string out;
  for (const std::string& cell : cells) out += cell;
  return out;
}

Line Legend(const MemoryBars& memory, const PictureStyle& style, Lines& out) {
  Line line(style);
  line.Put("  ");
  for (size_t i = 0; i < memory.parts.size(); ++i) {
    const bool some =
        std::any_of(memory.bars.begin(), memory.bars.end(),
                    [&](const MemoryBar& bar) { return bar.parts[i] > 0; });
    if (!some) continue;
    const std::string text =
        std::string(1, memory.parts[i].letter) + " " + memory.parts[i].name;
    if (line.width() > 2) line.Put("  ");
    if (line.width() + TextWidth(text) > style.width) {
      out.push_back(line);
      line = Line(style);
      line.Put("  ");
    }
    line.Put(text);
  }
  return line;
}

}  // namespace

std::string MemoryText(const MemoryBars& memory, const PictureStyle& style) {
  const Glyphs& glyphs = GlyphsOf(style);
  int64_t name = 0, peak = 0, bytes = 0;
  bool even = true;
  for (const MemoryBar& bar : memory.bars) {
    name = std::max(name, TextWidth(bar.name));
    peak = std::max(peak, Sum(bar.parts));
    bytes = std::max(bytes, TextWidth(TotalText(bar)));
    even = even && !bar.least;
  }
  const int64_t scale = picture::ScaleOf(memory.budget.value_or(0), peak);
  // The bar gets the columns of the line that remain after the name, the bytes,
  // the percentage, `over` and the spaces between them.
  const int64_t width =
      std::max<int64_t>(8, style.width - 2 - name - 1 - 2 - bytes - 2 - 6 - 6);
  Lines out = {Line(style).Bold("memory per device")};
  if (memory.of_ranks) {
    out[0].Put(", fullest of each rank");
  } else if (memory.devices > 1) {
    out[0].Put(", fullest of " + CountText(memory.devices) +
               (even ? " (all equal)" : ""));
  }
  out.emplace_back(style);
  std::vector<std::string> over;
  for (const MemoryBar& bar : memory.bars) {
    const int64_t total = Sum(bar.parts);
    Line line(style);
    line.Put("  ").Put(bar.name).PadTo(2 + name + 1);
    line.Put(Cells(memory, bar, scale, width, glyphs));
    line.PadTo(2 + name + 1 + width + 2).Right(TotalText(bar), bytes);
    if (memory.budget && (!bar.at_least || total > *memory.budget)) {
      line.Put("  ").Right(
          PercentText(total, std::max<int64_t>(1, *memory.budget)), 6);
      if (total > *memory.budget) {
        line.Put("  ").Alarm("over");
        over.push_back(bar.name + " needs " + BytesText(total));
      }
    }
    out.push_back(line);
    if (bar.least) {
      out.push_back(Line(style)
                        .PadTo(2 + name + 1)
                        .Put("the emptiest device: " + BytesText(*bar.least)));
    }
  }
  out.emplace_back(style);
  out.push_back(Legend(memory, style, out));
  if (memory.budget) {
    out.push_back(
        Line(style)
            .Put("  ")
            .Put(glyphs.down)
            .Put(" " + BytesText(*memory.budget) + ", a device's memory"));
  }
  for (const std::string& text : memory.unknown) {
    for (Line& line : Wrapped("  not known: " + Printable(text), 4, style)) {
      out.push_back(line);
    }
  }
  return TextOfLines(out);
}

namespace {

std::string StateOf(const picture::RuleLine& rule) {
  if (rule.won > 0) return "";
  if (rule.found && *rule.found > 0) {
    return rule.shadowed_by ? "shadowed by " + std::to_string(*rule.shadowed_by)
                            : "shadowed";
  }
  return rule.found ? "matches nothing" : "wins nothing";
}

}  // namespace

std::string CoverageText(const picture::Coverage& coverage,
                         const PictureStyle& style) {
  const Glyphs& glyphs = GlyphsOf(style);
  int64_t won = 3, bytes = 5, pattern = 7;
  for (const picture::RuleLine& rule : coverage.rules) {
    won = std::max(won, TextWidth(CountText(rule.won)));
    bytes = std::max(bytes, TextWidth(BytesText(rule.bytes)));
    pattern = std::max(pattern, TextWidth(Printable(rule.match)));
  }
  const auto number =
      static_cast<int64_t>(std::to_string(coverage.rules.size()).size());
  // The pattern is shortened so that 17 columns remain for the bar, but at
  // least 12 columns of the pattern are kept.
  const int64_t rest = style.width - 2 - number - 2 - 2 - won - 2 - bytes - 2;
  pattern = std::min(pattern, std::max<int64_t>(12, rest - 17));
  const int64_t width = std::clamp<int64_t>(rest - pattern, 8, 24);
  Lines out;
  Line head(style);
  head.PadTo(2 + number + 2).Bold("pattern").PadTo(2 + number + 2 + pattern);
  head.Put("  ").Right("won", won).Put("  ").Right("bytes", bytes);
  out.push_back(head);
  for (size_t i = 0; i < coverage.rules.size(); ++i) {
    const picture::RuleLine& rule = coverage.rules[i];
    Line line(style);
    line.Put("  ").Right(std::to_string(i), number).Put("  ");
    line.Put(CutTo(Printable(rule.match), pattern, style.ascii));
    line.PadTo(2 + number + 2 + pattern).Put("  ");
    line.Right(CountText(rule.won), won).Put("  ");
    line.Right(rule.won > 0 ? BytesText(rule.bytes) : "-", bytes).Put("  ");
    const int64_t one = std::max<int64_t>(1, coverage.most);
    const int64_t cells = picture::CellsOf(rule.bytes, one, width);
    line.Repeat(glyphs.bar, rule.bytes > 0 ? std::max<int64_t>(1, cells) : 0);
    line.Put(StateOf(rule));
    out.push_back(line);
  }
  out.emplace_back(style);
  std::string end = "  rules are tried in order, the first match wins";
  if (coverage.no_rule > 0) {
    end += "; " + Counted(coverage.no_rule, "parameter") + " without a rule, " +
           BytesText(coverage.no_rule_bytes);
  }
  out.push_back(Line(style).Put(end));
  return TextOfLines(out);
}

}  // namespace shardc
