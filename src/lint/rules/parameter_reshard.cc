#include <variant>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Returns the help of a finding: how a user can assign the same spec to the
// group in train and in `mode`. The spec is changed in one of three places: the
// rule's own specs of these modes, the rule of the parameter that `like` names,
// or the axis rules of decode.
std::string HelpFor(const Facts& facts, const ParameterGroup& group,
                    Mode mode) {
  if (group.rule >= 0) {
    const Rule& rule = facts.rules()[static_cast<size_t>(group.rule)];
    if (rule.modes.contains(mode) || rule.modes.contains(Mode::kTrain)) {
      return "remove the mode's spec if one spec serves both";
    }
    if (std::holds_alternative<SpecLike>(rule.spec)) {
      return "give the parameter that `like` names one spec in both modes";
    }
  }
  return "give the decode axis rules (or `generation` of the registrations) "
         "that the spec names the axes of the standard ones, if one spec "
         "serves both";
}

}  // namespace

void CheckParameterReshard(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Illegal(group)) continue;
    const ModeLayout& train = facts.Train(group);
    for (const ModeLayout& mode : facts.LayoutOf(group).modes) {
      if (SameSplit(facts.mesh(), train.spec, mode.spec)) continue;
      const int64_t bytes = facts.TotalBytes(group);
      LintFinding finding = GroupFinding(
          facts, kParameterReshard.code, group,
          ParametersText(facts, group) + " is " + SpecText(train.spec) +
              " in train and " + SpecText(mode.spec) + " in " +
              std::string(ModeName(mode.mode)) +
              (bytes > 0 ? ": the reshard moves up to " + BytesText(bytes)
                         : ""),
          HelpFor(facts, group, mode.mode));
      // Findings without a subject are not joined. Joining would lose the
      // number of bytes that each message states.
      finding.subject.clear();
      sink.push_back(std::move(finding));
      break;
    }
  }
}

}  // namespace shardc
