// The texts that `shardc explain CODE` prints about `shardc export` and `shardc
// import`. For example, a plan may place each expert at one coordinate of `ep`.
// XLA shardings cannot express this, so SHD062 is reported if the plan is
// exported as XLA shardings.
#include <array>

#include "emit/findings/pages/page.h"

namespace shardc {

std::span<const CodePage> ExchangePages() {
  static constexpr std::array kPages = {
      CodePage{
          .code = &code::kInexpressible,
          .what = "Reports a part of a plan or of a rule set that the other "
                  "system's format has no way to express.",
          .why = "Leaving it out would export another sharding than was "
                 "planned. No file is written.",
          .fix = "Change the rules so that the plan does not need it, or "
                 "choose a format that can express it. The message names the "
                 "parameters.",
          .bad = R"(--- rules.yaml
rules:
- match: 'experts\.\d+\.w$'
  spec: [tp]
  place: {axis: ep, index: 'experts\.(\d+)\.', count: 2}
--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"experts.0.w": {"shape": [8], "dtype": "F32"},
            "experts.1.w": {"shape": [8], "dtype": "F32"}}}
$ shardc export hlo --mesh ep:2,tp:2 --rules rules.yaml --manifest model.json
)",
          .good = R"(--- rules.yaml
rules:
- match: 'experts\.w$'
  spec: [ep, tp]
--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"experts.w": {"shape": [2, 8], "dtype": "F32"}}}
$ shardc export hlo --mesh ep:2,tp:2 --rules rules.yaml --manifest model.json
)"},
      CodePage{.code = &code::kForeignSyntax,
               .what = "Reports text in another system's format, such as XLA's "
                       "sharding attributes or DTensor's placements, that is "
                       "malformed or truncated.",
               .why = "A sharding that is read in part is another sharding.",
               .fix = "Export the text again. `shardc import --help` lists the "
                      "formats.",
               .bad = R"(--- shardings.txt
"w": {devices=[2,2]<=[4
$ shardc import hlo shardings.txt --mesh dp:2,tp:2
)",
               .good = R"(--- shardings.txt
"w": {devices=[2,2]<=[4]}
$ shardc import hlo shardings.txt --mesh dp:2,tp:2
)"},
  };
  return kPages;
}

}  // namespace shardc
