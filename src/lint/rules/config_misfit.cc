#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

// Returns the place of the configuration's file, or of the manifest if the
// configuration has no file.
Place ConfigPlace(const Facts& facts) {
  const SourceRef& source = facts.model()->source;
  return source == nullptr
             ? facts.RulePlace(-1)
             : Place{source, Place::kEntireFile, Place::kEntireFile};
}

}  // namespace

void CheckConfigMisfit(const Facts& facts, FindingSink& sink) {
  for (const Misfit& misfit : facts.misfits()) {
    LintFinding finding = FindingAt(kConfigMisfit.code, ConfigPlace(facts));
    finding.message = misfit.observation;
    if (misfit.heads) {
      finding.message += "; lints that count heads are skipped";
    }
    finding.help = "give the config.json that came with these parameters";
    if (misfit.group != nullptr) {
      facts.AddNames(facts.Members(*misfit.group), finding);
    }
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
