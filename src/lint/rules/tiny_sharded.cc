#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
namespace {

// A shard with fewer bytes than this is not worth the latency of its
// collectives.
constexpr int64_t kTinyShardBytes = 256;

}  // namespace

void CheckTinySharded(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    std::vector<std::string> texts;
    LintFinding finding =
        FindingAt(kTinySharded.code, facts.RulePlace(static_cast<int32_t>(r)));
    int64_t count = 0;
    for (uint32_t index : facts.rule_facts()[r].groups) {
      const ParameterGroup& group = facts.groups()[index];
      const auto shard = facts.Train(group).bytes_per_device;
      if (!shard || facts.Illegal(group) || facts.Parts(group) <= 1) continue;
      if (*shard >= kTinyShardBytes || *shard == 0) continue;
      texts.push_back(ParametersText(facts, group));
      count += group.count();
      facts.AddNames(facts.Members(group), finding);
    }
    if (texts.empty()) continue;
    finding.message = Counted(count, "parameter") +
                      (count == 1 ? " is" : " are") +
                      " split into shards of less than " +
                      BytesText(kTinyShardBytes) + ": " + ListText(texts);
    finding.help = "replicate them, or set `min_size`";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
