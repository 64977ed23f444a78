#include "lint/analysis/facts.h"
#include "lint/analysis/memory.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

void CheckMemoryTight(const Facts& facts, FindingSink& sink) {
  const auto use = MostMemory(facts);
  const int64_t memory = *facts.inputs().memory_bytes;
  if (!use || use->Total() > memory || use->Total() < memory - memory / 10) {
    return;
  }
  LintFinding finding = FindingAt(kMemoryTight.code, facts.MeshPlace());
  finding.message = use->Device() + " needs " + BytesText(use->Total()) +
                    " of its " + BytesText(memory) + " in " +
                    std::string(ModeName(use->mode)) + ": " + use->ToString() +
                    ", activations not counted";
  finding.help = "split over more devices, or use a smaller batch";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
