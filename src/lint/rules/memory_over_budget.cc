#include "lint/analysis/facts.h"
#include "lint/analysis/memory.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kMemoryOverBudget;

namespace {

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

}  // namespace

constinit const Lint kMemoryOverBudget{
    .code = {501, "memory-over-budget", Level::kError,
             "parameters and cache do not fit in a device's memory"},
    .needs = kNeedsShapes | kNeedsMemory,
    .what =
        "Adds the bytes of parameters that the fullest device holds and, if "
        "the model, batch and length are known, of its KV cache, and compares "
        "the sum with the device's memory.",
    .why =
        "Activations, gradients and optimizer state need memory as well, so "
        "that the program cannot run.",
    .instead = "Split over more devices.",
    .bad = {.mesh = "tp:2",
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
    .check = CheckMemoryOverBudget};

}  // namespace shardc
