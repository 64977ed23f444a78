#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "lint/facts.h"
#include "lint/meant.h"
#include "lint/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Smaller parameters are norms, biases and routers, which one replicates.
constexpr int64_t kLargeElements = 65536;

struct Fallen {
  std::vector<const Kind*> kinds;  // most bytes first
  int64_t bytes = 0;
};

Fallen FallenTo(const Facts& facts, const RuleFacts& rule) {
  Fallen out;
  for (uint32_t index : rule.kinds) {
    const Kind& kind = facts.kinds()[index];
    if (facts.Elements(kind) < kLargeElements || !facts.Replicated(kind)) {
      continue;
    }
    out.kinds.push_back(&kind);
    out.bytes += facts.TotalBytes(kind);
  }
  std::stable_sort(out.kinds.begin(), out.kinds.end(),
                   [&](const Kind* a, const Kind* b) {
                     return facts.TotalBytes(*a) > facts.TotalBytes(*b);
                   });
  return out;
}

// Rules that match nothing and were written for what fell through.
void NameTheMeant(const Facts& facts, const Fallen& fallen, Finding& finding,
                  std::vector<std::string>& rewrites) {
  std::set<int32_t> named;
  for (const Kind* kind : fallen.kinds) {
    const auto meant = MeantFor(facts, *kind, /*dead_only=*/true);
    if (!meant || !named.insert(meant->rule).second) continue;
    finding.labels.push_back(
        {facts.RulePlace(meant->rule),
         "matches nothing; meant for " + Quoted(kind->name) + "? it says " +
             Quoted(meant->written) + " where the tree has " +
             Quoted(meant->found)});
    if (!meant->rewrite.empty()) rewrites.push_back(Quoted(meant->rewrite));
  }
}

void Check(const Facts& facts, FindingSink& sink) {
  const auto& rules = facts.rule_facts();
  const bool only_catch_alls =
      std::all_of(rules.begin(), rules.end(),
                  [](const RuleFacts& rule) { return rule.sketch.catch_all; });
  if (only_catch_alls || facts.OtherNaming()) return;
  for (size_t r = 0; r < rules.size(); ++r) {
    if (!rules[r].sketch.catch_all || rules[r].kinds.empty()) continue;
    const Fallen fallen = FallenTo(facts, rules[r]);
    // A twentieth of the model is where one starts to look for the memory.
    if (fallen.bytes == 0 || fallen.bytes < facts.total_bytes() / 20) continue;
    std::vector<std::string> texts;
    Finding finding;
    for (const Kind* kind : fallen.kinds) {
      texts.push_back(KindText(facts, *kind));
      for (std::string& name : facts.Names(*kind)) {
        finding.params.push_back(std::move(name));
      }
    }
    finding.code = &kCatchAllReplicates.code;
    finding.level = finding.code->level;
    finding.place = facts.RulePlace(static_cast<int32_t>(r));
    finding.message = BytesText(fallen.bytes) + " (" +
                      PercentText(fallen.bytes, facts.total_bytes()) +
                      " of the model) reach only the catch-all " +
                      Quoted(facts.rules()[r].match) +
                      " and lie whole on every device: " + ListText(texts);
    std::vector<std::string> rewrites;
    NameTheMeant(facts, fallen, finding, rewrites);
    finding.help =
        rewrites.empty()
            ? "write rules for them above the catch-all, or leave the"
              " catch-all out: then an unmatched parameter is an error"
            : "write " + ListText(rewrites, 4);
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kCatchAllReplicates{
    .code = {101, "catch-all-replicates", Level::kError,
             "large parameters reach only the catch-all and are replicated"},
    .needs = kNeedsShapes,
    .what =
        "Finds parameters of 65,536 elements or more that no rule but a "
        "catch-all such as `.*` matches, and that the catch-all leaves "
        "whole on every device, once they are a twentieth of the model. "
        "It names the rules that match nothing and were probably meant.",
    .why =
        "A catch-all makes every parameter count as matched, so a wrong "
        "path part goes unnoticed until the devices run out of memory: "
        "each of them holds all of these bytes, whatever the mesh.",
    .instead = "Correct the path in the rule that was meant.",
    .bad = {.mesh = "fsdp:2,ep:2,tp:2",
            .rules = R"(version: 1
rules:
  - match: 'self_attn/(q|k|v)_proj/kernel'
    spec: ColumnWise
  - match: 'block_sparse_moe/experts/gate_proj/kernel'
    spec: ExpertColumnWise
  - match: '.*'
    spec: Replicated
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/self_attn/q_proj/kernel": {"shape": [2048, 4096], "dtype": "BF16"},
  "layers/0/mlp/experts/gate_proj/kernel": {"shape": [128, 2048, 768], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'self_attn/(q|k|v)_proj/kernel'
    spec: ColumnWise
  - match: 'mlp/experts/gate_proj/kernel'
    spec: ExpertColumnWise
  - match: '.*'
    spec: Replicated
)"},
    .check = Check};

}  // namespace shardc
