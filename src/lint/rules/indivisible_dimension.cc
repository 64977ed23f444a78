#include "lint/analysis/facts.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "model/block_types.h"

namespace shardc {
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

}  // namespace

void CheckIndivisibleDimension(const Facts& facts, FindingSink& sink) {
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

}  // namespace shardc
