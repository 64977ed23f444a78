// Computes the inlay hint of each rule: the text that an editor shows after the
// rule's pattern. A hint states the number of parameters of the rule and their
// bytes, as the last check found them. A rule has one hint, even if several
// targets read the file. If the numbers differ between the targets, the hint
// names the targets:
//
//   equal in all targets  ->  4 parameters, 128 KiB
//   different             ->  cpu: 4 parameters, 128 KiB; v5e: 0 parameters
#include "lsp/inlay.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "lsp/counts.h"
#include "source/file.h"
#include "source/wording.h"

namespace shardc::lsp {
namespace {

constexpr size_t kInlayTargets = 3;

struct TargetHint {
  std::string target, text, more;
};

std::string LabelOf(const std::vector<TargetHint>& all) {
  const bool same = std::all_of(
      all.begin(), all.end(),
      [&](const TargetHint& one) { return one.text == all.front().text; });
  if (same) return all.front().text;
  std::string out;
  for (size_t i = 0; i < std::min(all.size(), kInlayTargets); ++i) {
    out += (i == 0 ? "" : "; ") + all[i].target + ": " + all[i].text;
  }
  return all.size() > kInlayTargets ? out + "; ..." : out;
}

std::string TooltipOf(const std::vector<TargetHint>& all) {
  std::string out;
  for (const TargetHint& one : all) {
    if (!out.empty()) out += "\n";
    if (!one.target.empty()) out += one.target + ": ";
    out += one.more;
  }
  return out;
}

// Returns the offset after the pattern. If the pattern has a closing quote, it
// is the offset after the quote.
size_t EndOf(std::string_view text, const Place& pattern) {
  const bool quote = pattern.end < text.size() && pattern.end > 0 &&
                     (text[pattern.end] == '\'' || text[pattern.end] == '"') &&
                     text[pattern.end - 1] != text[pattern.end];
  return pattern.end + (quote ? 1 : 0);
}

}  // namespace

std::vector<InlayHint> InlayHintsIn(const Workspace& workspace,
                                    const Document& document, size_t begin,
                                    size_t end) {
  std::map<size_t, std::vector<TargetHint>> by_place;
  const FileId file = FileIdOf(document.name());
  for (const NameScope& scope : workspace.ScopesOf(document)) {
    if (!scope.current || scope.compiled == nullptr) continue;
    const auto counts = CountsOf(*scope.compiled);
    std::map<const Source*, bool> own;
    for (size_t r = 0; r < counts.size(); ++r) {
      const Place& place = scope.rules->rules[r].match_place;
      if (!place.HasPosition()) continue;
      const auto [known, fresh] = own.try_emplace(place.source.get(), false);
      if (fresh) known->second = FileIdOf(place.source->name()) == file;
      const size_t at = EndOf(document.text, place);
      if (!known->second || at < begin || at > end) continue;
      TargetHint one{scope.target, RuleCountText(counts[r]), {}};
      one.more = one.text;
      if (counts[r].won > 0 && counts[r].bytes_per_device) {
        one.more +=
            ", " + BytesText(*counts[r].bytes_per_device) + " per device";
      }
      by_place[at].push_back(std::move(one));
    }
  }
  std::vector<InlayHint> out;
  for (const auto& [at, all] : by_place) {
    out.push_back({at, LabelOf(all), TooltipOf(all)});
  }
  return out;
}

}  // namespace shardc::lsp
