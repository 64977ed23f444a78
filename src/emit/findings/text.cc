// Prints a finding for people. For example:
//
//   error[SHD109 catch-all-not-last]: the catch-all `.*` is above 1 rule, ...
//     --> rules.yaml:3:12
//      |
//    3 |   - match: '.*'
//      |            ^^^^
//     ::: rules.yaml:12:12: never reached
//   12 |   - match: 'lm_head'
//      |            ---------
//      = help: move it to the end
//
// A long line, such as a manifest on one line, is shortened to the characters
// around the caret. All text from files is passed through Printable(), which
// escapes control characters.
#include <algorithm>
#include <string>
#include <string_view>

#include "emit/findings/formats.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

// The most code points that are shown of a source line, and of the text before
// the caret.
constexpr size_t kWindow = 96;
constexpr size_t kBeforeCaret = 40;

struct Paint {
  bool on;
  std::string operator()(std::string_view escape, std::string_view text) const {
    if (!on) return std::string(text);
    return "\x1b[" + std::string(escape) + "m" + std::string(text) + "\x1b[0m";
  }
};

std::string_view LevelColor(Level level) {
  switch (level) {
    case Level::kError:
      return "1;31";
    case Level::kWarning:
      return "1;33";
    case Level::kNote:
      break;
  }
  return "1;36";
}

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

size_t CodePoints(std::string_view text) {
  return AsIndex(std::count_if(text.begin(), text.end(),
                               [](char c) { return !IsContinuation(c); }));
}

// Back() returns the offset `count` code points before `offset`, and Forward()
// the offset `count` code points after it.
size_t Back(std::string_view text, size_t offset, size_t count) {
  while (offset > 0 && count > 0) {
    --offset;
    if (!IsContinuation(text[offset])) --count;
  }
  return offset;
}

size_t Forward(std::string_view text, size_t offset, size_t count) {
  while (offset < text.size() && count > 0) {
    ++offset;
    while (offset < text.size() && IsContinuation(text[offset])) ++offset;
    --count;
  }
  return offset;
}

std::string Shown(std::string_view text) {
  std::string spaced;
  spaced.reserve(text.size());
  for (char c : text) {
    if (c == '\t') {
      spaced += "    ";
    } else {
      spaced += c;
    }
  }
  return Printable(spaced);
}

// Returns the source line with its marks below it, indented by a gutter of
// `width` columns.
std::string Snippet(const Place& place, char mark, size_t width,
                    const Paint& paint, std::string_view color) {
  const Source& source = *place.source;
  const LineColumn at = source.At(place.begin);
  const std::string_view line = source.Line(at.line);
  const size_t line_start = source.LineStart(at.line);
  const size_t begin = std::min(place.begin - line_start, line.size());
  const size_t wanted =
      place.end == Place::kEntireFile ? begin + 1 : place.end - line_start;
  const size_t end = std::clamp(wanted, begin, line.size());

  size_t from = 0;
  size_t to = line.size();
  if (CodePoints(line) > kWindow) {
    from = Back(line, begin, kBeforeCaret);
    to = Forward(line, from, kWindow);
  }
  const std::string before =
      (from > 0 ? "..." : "") + Shown(line.substr(from, begin - from));
  const std::string marked =
      Shown(line.substr(begin, std::min(end, to) - begin));
  const std::string after =
      Shown(line.substr(std::min(std::max(end, begin), to),
                        to - std::min(std::max(end, begin), to))) +
      (to < line.size() ? "..." : "");
  const std::string number = std::to_string(at.line);
  std::string out = std::string(width - number.size(), ' ') +
                    paint("1;34", number + " |") + " " + before + marked +
                    after;
  while (!out.empty() && out.back() == ' ') out.pop_back();
  out +=
      "\n" + std::string(width, ' ') + paint("1;34", " |") + " " +
      std::string(CodePoints(before), ' ') +
      paint(color, std::string(std::max<size_t>(CodePoints(marked), 1), mark)) +
      "\n";
  return out;
}

size_t GutterWidth(const Finding& finding) {
  size_t width = 2;
  auto widen = [&](const Place& place) {
    if (!place.HasPosition()) return;
    const int line = place.source->At(place.begin).line;
    width = std::max(width, std::to_string(line).size());
  };
  widen(finding.place);
  for (const Label& label : finding.labels) widen(label.place);
  return width;
}

}  // namespace

std::string FindingText(const Finding& finding, const TextStyle& style) {
  const Paint paint{style.color};
  const std::string_view color = LevelColor(finding.level);
  const size_t width = GutterWidth(finding);
  const std::string gutter(width, ' ');
  std::string out = paint(color, std::string(LevelName(finding.level)) + "[" +
                                     finding.code->Id() + " " +
                                     std::string(finding.code->name) + "]") +
                    paint("1", ": " + Printable(MessageText(finding))) + "\n";
  const std::string where = Printable(finding.place.ToString());
  if (!where.empty()) {
    out += gutter + paint("1;34", "-->") + " " + where + "\n";
  }
  if (finding.place.HasPosition()) {
    out += gutter + paint("1;34", " |") + "\n" +
           Snippet(finding.place, '^', width, paint, color);
  }
  for (const Label& label : finding.labels) {
    const std::string at = Printable(label.place.ToString());
    out += gutter + paint("1;34", ":::") + " " + at + (at.empty() ? "" : ": ") +
           Printable(label.text) + "\n";
    if (label.place.HasPosition()) {
      out += Snippet(label.place, '-', width, paint, "1;34");
    }
  }
  if (!finding.help.empty()) {
    out += gutter + paint("1;34", " =") + " " + paint("1", "help:") + " " +
           Printable(finding.help) + "\n";
  }
  return out;
}

}  // namespace shardc
