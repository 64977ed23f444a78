#include "lint/analysis/facts.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/topic.h"
#include "lint/rules/lint.h"
#include "model/block_types.h"
#include "plan/kv_replicas.h"

namespace shardc {

extern const Lint kIndivisibleDimension;

namespace {

std::string ObserveIndivisibleDimension(const Facts& facts,
                                        const ParameterGroup& group,
                                        const Edit& edit) {
  const std::string size = std::to_string(edit.size);
  const int64_t block = BlockAlong(facts.TypeOf(group),
                                   static_cast<size_t>(edit.dim.value_or(0)));
  const int64_t units = edit.size / block;
  const std::string blocks = block == 1
                                 ? ""
                                 : ", which is " + std::to_string(units) +
                                       " blocks of " + std::to_string(block);
  return "dimension " + std::to_string(edit.dim.value_or(0)) + " of " +
         ParametersText(facts, group) + " is " + size + blocks + ", " +
         AxesHave(facts, edit.from) + ": " + std::to_string(units) + " % " +
         std::to_string(edit.parts) + " = " +
         std::to_string(edit.parts > 0 ? units % edit.parts : 0);
}

// Reports KV heads that `kv_replicate` cannot replicate over their axes. The
// projections with the same numbers are one finding.
void CheckKvHeads(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    const Edit* problem = nullptr;
    for (const ModeLayout& mode : facts.LayoutOf(group).modes) {
      for (const Edit& edit : mode.problems) {
        if (edit.reason == Reason::kKvHeads) problem = &edit;
      }
    }
    if (problem == nullptr) continue;
    LintFinding finding = GroupFinding(facts, kIndivisibleDimension.code, group,
                                       "", KvProblemHelp(*problem));
    finding.subject = "dimension " + std::to_string(problem->dim.value_or(0)) +
                      " of " + ParametersText(facts, group);
    const std::string after =
        " over " + GroupText(problem->from) + ", " + KvProblemText(*problem);
    finding.message = finding.subject + " is sharded" + after;
    finding.several = {after, "", " are sharded" + after};
    finding.reports = {HeadsTopic(problem->size, problem->parts)};
    sink.push_back(std::move(finding));
  }
}

void CheckIndivisibleDimension(const Facts& facts, FindingSink& sink) {
  CheckKvHeads(facts, sink);
  const size_t before = sink.size();
  ReportEdits(
      facts, kIndivisibleDimension.code, Reason::kIndivisible,
      [&](const ParameterGroup& group, const ModeLayout&, const Edit& edit) {
        return ObserveIndivisibleDimension(facts, group, edit);
      },
      "pad the dimension, use an axis that divides it, or drop the axis with "
      "`illegal: shrink`",
      sink);
  // If a policy of the rules file, such as `illegal: shrink`, corrects the
  // spec, the level of the finding is lowered. Its help does not suggest the
  // policy again.
  for (size_t i = before; i < sink.size(); ++i) {
    if (sink[i].level == kIndivisibleDimension.code.level) continue;
    sink[i].help =
        "pad the dimension, use an axis that divides it, or leave the "
        "dimension unsharded in the spec";
  }
}

}  // namespace

constinit const Lint kIndivisibleDimension{
    .code = {202, "indivisible-dimension", Level::kError,
             "a dimension does not divide by its axes"},
    .what =
        "Finds dimensions whose size is not a multiple of the number of "
        "shards.",
    .why =
        "Devices must hold equal shards. Frameworks refuse such a spec, or "
        "silently drop the axis and replicate the dimension.",
    .instead = "Use an axis that divides the dimension.",
    .bad = {.mesh = "fsdp:2,tp:7",
            .rules = R"(version: 1
rules:
  - match: 'up/kernel'
    spec: [FSDP, TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/up/kernel": {"shape": [1024, 5120], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'up/kernel'
    spec: [FSDP, null]
)"},
    .check = CheckIndivisibleDimension};

}  // namespace shardc
