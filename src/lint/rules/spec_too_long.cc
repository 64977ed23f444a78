#include "lint/analysis/facts.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kSpecTooLong;

namespace {

// Returns a text that lists the entries of a spec for which the tensor has no
// dimension. The first of these entries is `first`.
std::string SurplusText(const Spec& spec, const Edit& first) {
  const Spec surplus(spec.begin() + first.dim.value_or(0), spec.end());
  if (surplus.size() > 1) {
    return "; the last " + std::to_string(surplus.size()) + " entries, " +
           SpecText(surplus) + ", have no dimension";
  }
  if (first.from.empty()) return {};
  return "; " + GroupText(first.from) + " has no dimension";
}

std::string ObserveSpecTooLong(const Facts& facts, const ParameterGroup& group,
                               const ModeLayout& mode, const Edit& first) {
  return "the spec of " + ParametersText(facts, group) + " has " +
         Counted(static_cast<int64_t>(mode.resolved.size()), "entry",
                 "entries") +
         ", the parameter " + Counted(facts.Rank(group), "dimension") +
         SurplusText(mode.resolved, first);
}

void CheckSpecTooLong(const Facts& facts, FindingSink& sink) {
  ReportEdits(
      facts, kSpecTooLong.code, Reason::kTooLong,
      [&](const ParameterGroup& group, const ModeLayout& mode,
          const Edit& first) {
        return ObserveSpecTooLong(facts, group, mode, first);
      },
      "shorten the spec, or write a rule for this parameter", sink);
}

}  // namespace

constinit const Lint kSpecTooLong{
    .code = {204, "spec-too-long", Level::kError,
             "a spec has more entries than the parameter has dimensions"},
    .what =
        "Finds specs with more entries than the parameter has dimensions, even "
        "if the additional entries are null.",
    .why =
        "The rule was written for another shape, so that the other entries may "
        "be at the wrong dimensions.",
    .instead = "Write a rule for this shape.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'up'
    spec: [FSDP, TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/up/kernel": {"shape": [1024, 5120], "dtype": "BF16"},
  "layers/0/up/bias": {"shape": [5120], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'up/kernel'
    spec: [FSDP, TP]
  - match: 'up/bias'
    spec: [TP]
)"},
    .check = CheckSpecTooLong};

}  // namespace shardc
