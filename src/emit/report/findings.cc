// Writes findings as cards. Errors and warnings come first and are unfolded.
// Notes are folded if there are more than two. The level is shown by a sign, a
// word and a colour, for readers who cannot see one of these.
#include <algorithm>
#include <vector>

#include "emit/findings/formats.h"
#include "emit/report/page.h"
#include "source/after_last.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

// Returns `rules.yaml:14:12`, relative to the repository. For a file outside of
// the repository, only the file's name is returned, without its directory.
std::string PlaceText(const Page& page, const Finding& finding) {
  const Place& place = FilePlace(finding);
  if (place.source == nullptr) return finding.place.ToString();
  const std::string name = place.source->name();
  std::string path = page.in.repository.PathOf(name);
  if (path.starts_with('/')) path = std::string(AfterLast(path, '/'));
  std::string out = place.ToString();
  if (out.starts_with(name)) out.replace(0, name.size(), path);
  return out;
}

}  // namespace

void WriteFinding(Page& page, const Finding& finding) {
  struct Look {
    std::string_view card, ink, sign;
  };
  constexpr Look kLooks[] = {
      {"is-e", "e", "✕"}, {"is-wa", "wa", "▲"}, {"is-q", "q", "●"}};
  const Look& look = kLooks[static_cast<size_t>(finding.level)];
  Html& html = page.html;
  html.Raw("<div class=\"finding ").Raw(look.card).Raw("\"><div class=top>");
  html.Raw("<span><b class=").Raw(look.ink).Raw(">").Raw(look.sign).Raw(" ");
  html.Text(LevelName(finding.level)).Raw(" ").Text(finding.code->Id());
  html.Raw("</b> ").Text(finding.code->name).Raw("</span><code class=q>");
  html.Name(PlaceText(page, finding)).Raw("</code></div>\n<p>");
  html.Message(MessageText(finding)).Raw("</p>");
  if (!finding.help.empty()) {
    html.Raw("<p class=q>help: ").Message(finding.help).Raw("</p>");
  }
  html.Raw("</div>\n");
}

void WriteFindings(Page& page) {
  if (!page.in.checked || page.in.findings.empty()) return;
  Html& html = page.html;
  page.Begin("findings", "Findings");
  std::vector<const Finding*> loud, notes;
  for (const Finding& finding : page.in.findings) {
    (finding.level == Level::kNote ? notes : loud).push_back(&finding);
  }
  std::stable_sort(
      loud.begin(), loud.end(),
      [](const Finding* a, const Finding* b) { return a->level < b->level; });
  const size_t most = page.limits.findings;
  for (size_t i = 0; i < std::min(most, loud.size()); ++i) {
    WriteFinding(page, *loud[i]);
  }
  const bool folded = notes.size() > 2;
  if (folded) {
    html.Raw("<details><summary>" +
             Counted(static_cast<int64_t>(notes.size()), "note") +
             "</summary>\n");
  }
  for (size_t i = 0; i < std::min(most, notes.size()); ++i) {
    WriteFinding(page, *notes[i]);
  }
  if (folded) html.Raw("</details>\n");
  const size_t left = (loud.size() > most ? loud.size() - most : 0) +
                      (notes.size() > most ? notes.size() - most : 0);
  if (left > 0) {
    html.Raw("<p class=q>and " +
             Counted(static_cast<int64_t>(left), "more finding"));
    html.Raw(
        ": run <code>shardc check --notes</code> for the "
        "full list.</p>\n");
  }
  page.End();
}

}  // namespace shardc::report
