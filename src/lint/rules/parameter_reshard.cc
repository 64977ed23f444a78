#include <variant>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kParameterReshard;

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

}  // namespace

constinit const Lint kParameterReshard{
    .code = {407, "parameter-reshard", Level::kNote,
             "a change of mode reshards a parameter"},
    .what =
        "Finds parameters whose spec in another mode differs from that in "
        "train.",
    .why =
        "The change of mode reshards the parameter. That is acceptable once, "
        "between training and serving, and costly if both alternate, as in "
        "reinforcement learning.",
    .instead = "Use one spec if the modes alternate.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'embedding'
    spec: [VOCAB, FSDP]
    modes: {decode: [VOCAB, null]}
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed/embedding": {"shape": [32000, 4096], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'embedding'
    spec: [VOCAB, FSDP]
)"},
    .check = CheckParameterReshard};

}  // namespace shardc
