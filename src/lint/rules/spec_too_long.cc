#include "lint/analysis/facts.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kSpecTooLong;

namespace {

std::string ObserveSpecTooLong(const Facts& facts, const ParameterGroup& group,
                               const ModeLayout& mode, const Edit& edit) {
  return "the spec of " + ParametersText(facts, group) + " has " +
         Counted(static_cast<int64_t>(mode.resolved.size()), "entry",
                 "entries") +
         ", the parameter " + Counted(facts.Rank(group), "dimension") +
         (edit.from.empty()
              ? ""
              : "; " + GroupText(edit.from) + " has no dimension");
}

void CheckSpecTooLong(const Facts& facts, FindingSink& sink) {
  ReportEdits(
      facts, kSpecTooLong.code, Reason::kTooLong,
      [&](const ParameterGroup& group, const ModeLayout& mode,
          const Edit& edit) {
        return ObserveSpecTooLong(facts, group, mode, edit);
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
