#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/stages.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

void CheckStagesUneven(const Facts& facts, FindingSink& sink) {
  const auto uneven = UnevenStagesOf(facts);
  if (!uneven) return;
  std::string layers;
  for (const int64_t one : uneven->better) {
    layers += (layers.empty() ? "" : ", ") + std::to_string(one);
  }
  LintFinding finding = FindingAt(kStagesUneven.code, StagesPlace(facts));
  finding.message =
      "stage " + std::to_string(uneven->stage) + " with " +
      Counted(uneven->layers, "layer") + " takes " + TimesText(uneven->times) +
      " times the mean of the stages, and every rank waits for it";
  finding.help = "write `assign: [" + layers +
                 "]`, whose longest stage takes " +
                 TimesText(uneven->better_times) + " times the mean";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
