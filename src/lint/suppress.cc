// A comment covers its own line; one that has its line to itself covers the
// next line that is neither blank nor a comment. Both are found in the text,
// for the YAML tree has no comments.
//
//   # shardc: ignore[SHD105, dead-rule]   two ignores,
//   - match: 'w_qkv'                      both for this line
#include "lint/suppress.h"

#include <algorithm>
#include <string_view>

#include "lint/rules/all.h"

namespace shardc {
namespace {

constexpr std::string_view kMark = "# shardc: ignore[";

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) {
    text.remove_suffix(1);
  }
  return text;
}

// A mark in a quoted scalar is text, not a comment: the quotes before it do
// not pair up.
bool InQuotes(std::string_view before) {
  char open = 0;
  for (char c : before) {
    if (open == 0 && (c == '\'' || c == '"')) {
      open = c;
    } else if (c == open) {
      open = 0;
    }
  }
  return open != 0;
}

int LineCount(const Source& source) {
  return source.At(source.text().size()).line;
}

}  // namespace

bool IsIgnoreMark(std::string_view line) {
  return Trim(line).starts_with(kMark);
}

std::vector<Ignore> IgnoresIn(const SourceRef& source) {
  std::vector<Ignore> out;
  size_t at = source->text().find(kMark);
  for (; at != std::string_view::npos;
       at = source->text().find(kMark, at + 1)) {
    const int line = source->At(at).line;
    const size_t start = source->LineStart(line);
    const std::string_view text = source->Line(line);
    const std::string_view before = text.substr(0, at - start);
    if (InQuotes(before)) continue;
    const size_t list = at - start + kMark.size();
    const size_t close = text.find(']', list);
    if (close == std::string_view::npos) continue;
    int covers = line;
    if (Trim(before).empty()) {
      const int last = LineCount(*source);
      ++covers;
      while (covers <= last && (Trim(source->Line(covers)).empty() ||
                                Trim(source->Line(covers)).front() == '#')) {
        ++covers;
      }
    }
    size_t begin = list;
    while (begin <= close) {
      const size_t end = std::min(text.find(',', begin), close);
      const std::string_view name = Trim(text.substr(begin, end - begin));
      Ignore ignore;
      ignore.text = name;
      ignore.code = FindCode(name);
      const auto offset =
          start + static_cast<size_t>(name.data() - text.data());
      ignore.place = Place{source, offset, offset + name.size()};
      ignore.line = line;
      ignore.covers = covers;
      out.push_back(std::move(ignore));
      begin = end + 1;
    }
  }
  return out;
}

void ApplyIgnores(std::vector<Ignore>& ignores, FindingSink& findings) {
  if (ignores.empty()) return;
  std::erase_if(findings, [&](const Finding& finding) {
    if (!finding.place.HasPosition()) return false;
    const int line = finding.place.source->At(finding.place.begin).line;
    bool gone = false;
    for (Ignore& ignore : ignores) {
      if (ignore.code != finding.code ||
          ignore.place.source != finding.place.source) {
        continue;
      }
      if (line == ignore.line || line == ignore.covers) {
        ignore.used = true;
        gone = true;
      }
    }
    return gone;
  });
}

void ReportUnused(std::span<const Ignore> ignores, const std::set<int>& ran,
                  FindingSink& sink) {
  for (const Ignore& ignore : ignores) {
    if (ignore.used) continue;
    if (ignore.code != nullptr && ran.count(ignore.code->number) == 0) {
      continue;
    }
    Finding finding;
    finding.code = &kUnusedIgnore.code;
    finding.level = finding.code->level;
    finding.place = ignore.place;
    finding.message = ignore.code == nullptr
                          ? "`" + ignore.text + "` is no diagnostic"
                          : "`" + ignore.text +
                                "` is not found here, so"
                                " ignoring it does nothing";
    finding.help = "remove it from the comment";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
