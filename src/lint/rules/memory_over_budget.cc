#include "lint/analysis/facts.h"
#include "lint/analysis/memory.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

void CheckMemoryOverBudget(const Facts& facts, FindingSink& sink) {
  const auto use = MostMemory(facts);
  const int64_t memory = *facts.inputs().memory_bytes;
  if (!use || use->Total() <= memory) return;
  LintFinding finding = FindingAt(kMemoryOverBudget.code, facts.MeshPlace());
  finding.message = use->Device() + " needs " + BytesText(use->Total()) +
                    " in " + std::string(ModeName(use->mode)) + " and has " +
                    BytesText(memory) + ": " + use->ToString();
  finding.help = use->cache > use->parameters
                     ? "split the cache over more devices, or use a smaller "
                       "batch or length"
                     : "split the parameters over more devices";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
