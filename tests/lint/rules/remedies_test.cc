// Places and remedies of findings whose cause is one of several lines.
#include <string>
#include <string_view>

#include "doctest/doctest.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

// Returns the lines and the helps of the findings with this code.
std::string RemediesOf(const LintExample& example, std::string_view code) {
  std::string out;
  for (const Finding& finding : FindingsOf(example)) {
    if (finding.code->Id() != code) continue;
    const Place& at = finding.place;
    out += at.HasPosition() ? std::to_string(at.source->At(at.begin).line)
                            : std::string("no line");
    out += ": " + finding.help + "\n";
  }
  return out;
}

TEST_CASE("a cache that is resharded is reported where its axes differ") {
  const auto remedies = [](const std::string& definitions) {
    const std::string rules =
        "version: 1\n" + definitions +
        "rules:\n  - {match: 'q_proj', spec: [FSDP, HEAD]}\n";
    const LintExample example{
        .mesh = "fsdp:2,sp:2,tp:4",
        .rules = rules,
        .manifest =
            R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "q_proj/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}})"};
    return RemediesOf(example, "SHD401");
  };
  CHECK(remedies("axes:\n  decode_batch: [fsdp, dp]\n  decode_kv_head: []\n") ==
        "4: give the decode axis rules the axes of the standard ones, or run "
        "prefill with decode's\n");
  const std::string registered = "register:\n  KV_HEAD: {rule: kv_head, ";
  CHECK(remedies(registered + "generation: [], override: true}\n") ==
        "3: give `generation` of this registration the axes of its `rule`\n");
  CHECK(
      remedies(registered + "generation: kv_head, override: true}\n").empty());
}

}  // namespace
}  // namespace shardc
