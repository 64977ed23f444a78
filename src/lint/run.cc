// Runs the lints. A lint whose inputs are missing is skipped. Lints run in the
// order of the table and do not depend on each other. Then ignore comments
// suppress findings, and ignore comments that suppressed nothing are reported.
// Redundant findings are removed last, so that a suppressed finding does not
// make another finding redundant:
//
//   no config.json  ->  SHD220 is skipped, and an unused ignore[SHD220] is not
//   reported
//   SHD101 names the dead rule of SHD105  ->  SHD105 is redundant, unless
//   SHD101 is suppressed
#include "lint/run.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "lint/once.h"
#include "lint/rules/all.h"
#include "lint/suppress.h"

namespace shardc {
namespace {

std::string MissingText(unsigned missing, unsigned has) {
  // The heads come from the configuration. If the configuration is missing,
  // only the configuration is reported as missing.
  if ((missing & kNeedsHeads) != 0 && (has & kNeedsModel) == 0) {
    missing = (missing & ~unsigned{kNeedsHeads}) | kNeedsModel;
  }
  constexpr std::pair<unsigned, std::string_view> kWords[] = {
      {kNeedsShapes, "shapes and data types"},
      {kNeedsModel, "a model's config.json"},
      {kNeedsBatch, "a batch"},
      {kNeedsKvLen, "a KV length"},
      {kNeedsMemory, "a device's memory"},
      {kNeedsHeads, "attention's sizes that fit the parameters"},
  };
  std::string out;
  for (const auto& [bit, words] : kWords) {
    if ((missing & bit) == 0) continue;
    out += (out.empty() ? "" : ", ") + std::string(words);
  }
  return out;
}

}  // namespace

LintResult RunLints(const Facts& facts, const Selection& selection,
                    FindingSink extra) {
  LintResult out;
  FindingSink found = std::move(extra);
  std::set<int> ran;
  for (const Lint* lint : AllLints()) {
    if (!selection.Selects(*lint) || lint->check == nullptr) continue;
    const unsigned missing = lint->needs & ~facts.has();
    if (missing != 0) {
      out.skipped.push_back({lint, MissingText(missing, facts.has())});
      continue;
    }
    ran.insert(lint->code.number);
    lint->check(facts, found);
  }
  std::vector<Ignore> ignores;
  std::vector<Place> malformed;
  for (const SourceRef& source : facts.compiled().rules.sources) {
    IgnoreComments more = IgnoreCommentsIn(source);
    std::ranges::move(more.ignores, std::back_inserter(ignores));
    std::ranges::move(more.malformed, std::back_inserter(malformed));
  }
  const size_t before = found.size();
  ApplyIgnores(ignores, found);
  out.ignored = static_cast<int64_t>(before - found.size());
  if (selection.Selects(kUnusedIgnore)) {
    ReportMalformed(malformed, found);
    ReportUnused(ignores, ran, found);
  }
  out.findings = OnceEach(std::move(found), facts.plan().names);
  for (Finding& finding : out.findings) {
    finding.level = selection.LevelOf(finding);
  }
  return out;
}

}  // namespace shardc
