#include "lint/analysis/facts.h"
#include "lint/analysis/memory.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kMemoryTight;

namespace {

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

}  // namespace

constinit const Lint kMemoryTight{
    .code = {502, "memory-tight", Level::kWarning,
             "parameters and cache leave less than a tenth of the memory"},
    .needs = kNeedsShapes | kNeedsMemory,
    .what = "The same as memory-over-budget, from nine tenths of the memory.",
    .why = "Activations, collective buffers and the runtime need the rest.",
    .instead = "Split over more devices, or use a smaller batch.",
    .bad = {.mesh = "tp:4",
            .rules = R"(version: 1
rules:
  - match: 'kernel'
    spec: [null, TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "up/kernel": {"shape": [32768, 32768], "dtype": "BF16"}}}
)",
            .memory_bytes = 1 << 29},
    .good = {.mesh = "tp:8"},
    .check = CheckMemoryTight};

}  // namespace shardc
