// The texts that `shardc explain CODE` prints about the stages and schedules of
// pipelines, SHD241 to SHD249. For example, SHD248 is reported for a schedule
// that does not accept the number of micro-batches and ranks:
//
//   `interleaved` with 13 micro-batches on 4 ranks
#include <array>

#include "emit/findings/pages/page.h"
#include "source/stage_code.h"

namespace shardc {

std::span<const CodePage> SchedulePages() {
  static constexpr std::array kPages = {
      CodePage{
          .code = &code::kStageAxisInSpec,
          .what = "Finds a spec, or an axis rule for the tokens, that splits "
                  "over the axis that `--stages` or `stages:` names.",
          .why = "A rank of a pipeline holds all of a parameter of its stages, "
                 "or nothing of it. An axis that divides layers into stages "
                 "cannot divide a dimension as well.",
          .fix = "Take the axis out of the rules. A rank then holds the shard "
                 "that the spec gives on the mesh without that axis.",
          .bad = R"(--- m.json
{"schema": "shardc.manifest/v1", "params": {
  "embed_tokens.weight": {"shape": [64, 16], "dtype": "BF16"},
  "layers.0.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "layers.1.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "lm_head.weight": {"shape": [64, 16], "dtype": "BF16"}}}
--- r.yaml
version: 1
rules:
  - match: '.*'
    spec: [pp]
$ shardc cost --stages pp --mesh pp:2,tp:2 --rules r.yaml --manifest m.json --batch 8 --seq 16 --microbatches 4
)",
          .good = R"(--- m.json
{"schema": "shardc.manifest/v1", "params": {
  "embed_tokens.weight": {"shape": [64, 16], "dtype": "BF16"},
  "layers.0.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "layers.1.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "lm_head.weight": {"shape": [64, 16], "dtype": "BF16"}}}
--- r.yaml
version: 1
rules:
  - match: '.*'
    spec: [tp]
$ shardc cost --stages pp --mesh pp:2,tp:2 --rules r.yaml --manifest m.json --batch 8 --seq 16 --microbatches 4
)"},
      CodePage{.code = &code::kLayerWithoutStage,
               .what = "Finds a list of `--assign` or `assign` whose numbers "
                       "are not one for each stage or do not sum to the number "
                       "of layers, names of layers with a gap between their "
                       "numbers, and patterns of `stages:` that find no "
                       "layer.",
               .why = "A layer would be in no stage, or in two, and the model "
                      "that runs would be another one.",
               .fix = "Give a number of layers for each stage, with the sum of "
                      "the layers, or let `--assign cost` choose.",
               .bad = R"(--- m.json
{"schema": "shardc.manifest/v1", "params": {
  "embed_tokens.weight": {"shape": [64, 16], "dtype": "BF16"},
  "layers.0.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "layers.1.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "lm_head.weight": {"shape": [64, 16], "dtype": "BF16"}}}
--- r.yaml
version: 1
rules:
  - match: '.*'
    spec: [tp]
$ shardc cost --stages pp --mesh pp:2,tp:2 --rules r.yaml --manifest m.json --batch 8 --seq 16 --microbatches 4 --assign 1,2
)",
               .good = R"(--- m.json
{"schema": "shardc.manifest/v1", "params": {
  "embed_tokens.weight": {"shape": [64, 16], "dtype": "BF16"},
  "layers.0.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "layers.1.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "lm_head.weight": {"shape": [64, 16], "dtype": "BF16"}}}
--- r.yaml
version: 1
rules:
  - match: '.*'
    spec: [tp]
$ shardc cost --stages pp --mesh pp:2,tp:2 --rules r.yaml --manifest m.json --batch 8 --seq 16 --microbatches 4 --assign 1,1
)"},
      CodePage{
          .code = &code::kParameterOutsideStages,
          .what =
              "Finds a parameter whose name has no layer, and whose role is "
              "none of those that the ends of the model have: embeddings in "
              "the first stage, norms and heads in the last one.",
          .why =
              "Its stage decides which rank holds it and which task uses it. A "
              "guess may be wrong for models with more than one input.",
          .fix = "List a pattern of its name in `first` or `last` of "
                 "`stages:`, or give the parameter a name that states what it "
                 "does.",
          .bad = R"(--- m.json
{"schema": "shardc.manifest/v1", "params": {
  "embed_tokens.weight": {"shape": [64, 16], "dtype": "BF16"},
  "layers.0.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "layers.1.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "vision.proj.weight": {"shape": [16, 16], "dtype": "BF16"},
  "lm_head.weight": {"shape": [64, 16], "dtype": "BF16"}}}
--- r.yaml
version: 1
rules:
  - match: '.*'
    spec: [tp]
$ shardc cost --stages pp --mesh pp:2,tp:2 --rules r.yaml --manifest m.json --batch 8 --seq 16 --microbatches 4
)",
          .good = R"(--- m.json
{"schema": "shardc.manifest/v1", "params": {
  "embed_tokens.weight": {"shape": [64, 16], "dtype": "BF16"},
  "layers.0.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "layers.1.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "vision.embed.weight": {"shape": [16, 16], "dtype": "BF16"},
  "lm_head.weight": {"shape": [64, 16], "dtype": "BF16"}}}
--- r.yaml
version: 1
rules:
  - match: '.*'
    spec: [tp]
$ shardc cost --stages pp --mesh pp:2,tp:2 --rules r.yaml --manifest m.json --batch 8 --seq 16 --microbatches 4
)"},
      CodePage{
          .code = &code::kStackedVirtual,
          .what = "Finds tensors that hold all layers in one dimension, in a "
                  "pipeline whose ranks have several ranges of layers, or "
                  "whose stages are on two ranks. Also finds specs that split "
                  "that dimension over axes that do not divide the layers of "
                  "a stage.",
          .why = "A spec over a dimension gives each rank one range of it. "
                 "With two stages on each of 4 ranks, rank 0 has layers 0-3 "
                 "and 16-19 of 32, which no spec states, and a permutation of "
                 "the layers would go unnoticed.",
          .fix = "Store the layers in three dimensions, [virtual stages, "
                 "ranks, layers of a stage], or take a schedule with one stage "
                 "on each rank.",
          .bad = R"(--- m.json
{"schema": "shardc.manifest/v1", "params": {
  "embed/embedding": {"shape": [64, 16], "dtype": "BF16"},
  "layers/up/kernel": {"shape": [8, 16, 32], "dtype": "BF16"},
  "head/kernel": {"shape": [16, 64], "dtype": "BF16"}}}
--- r.yaml
version: 1
stages:
  axis: pp
  stacked: [{match: '^layers/', dim: 0}]
  first: ['^embed/']
  last: ['^head/']
  schedule: interleaved
rules:
  - match: 'embed|head'
    spec: [tp]
  - match: 'layers/'
    spec: [null, null, tp]
$ shardc check --mesh pp:2,tp:2 --rules r.yaml --manifest m.json
)",
          .good = R"(--- m.json
{"schema": "shardc.manifest/v1", "params": {
  "embed/embedding": {"shape": [64, 16], "dtype": "BF16"},
  "layers/up/kernel": {"shape": [2, 2, 2, 16, 32], "dtype": "BF16"},
  "head/kernel": {"shape": [16, 64], "dtype": "BF16"}}}
--- r.yaml
version: 1
stages:
  axis: pp
  stacked: [{match: '^layers/', dim: 0}]
  first: ['^embed/']
  last: ['^head/']
  schedule: interleaved
rules:
  - match: 'embed|head'
    spec: [tp]
  - match: 'layers/'
    spec: [null, null, null, null, tp]
$ shardc check --mesh pp:2,tp:2 --rules r.yaml --manifest m.json
)"},
      CodePage{
          .code = &code::kTiedOverStages,
          .what = "Finds a head that is the embedding, where `tied: error` "
                  "forbids copies and the first and the last stage are on "
                  "different ranks.",
          .why = "Both ranks need the tensor. Each has a copy, which takes "
                 "memory on both, and the gradients of the two are added after "
                 "every step.",
          .fix = "Write `tied: copies`, the default, or take a schedule that "
                 "places both ends on one rank, such as zbv.",
          .bad = R"(--- m.json
{"schema": "shardc.manifest/v1", "params": {
  "embed_tokens.weight": {"shape": [64, 16], "dtype": "BF16"},
  "layers.0.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "layers.1.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"}}}
--- r.yaml
version: 1
stages: {axis: pp, tied: error}
rules:
  - match: '.*'
    spec: [tp]
$ shardc check --mesh pp:2,tp:2 --rules r.yaml --manifest m.json
)",
          .good = R"(--- m.json
{"schema": "shardc.manifest/v1", "params": {
  "embed_tokens.weight": {"shape": [64, 16], "dtype": "BF16"},
  "layers.0.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "layers.1.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"}}}
--- r.yaml
version: 1
stages: {axis: pp, tied: copies}
rules:
  - match: '.*'
    spec: [tp]
$ shardc check --mesh pp:2,tp:2 --rules r.yaml --manifest m.json
)"},
      CodePage{.code = &code::kMicrobatchesIndivisible,
               .what = "Finds a batch whose rows on a replica are not divided "
                       "by the number of micro-batches.",
               .why = "Each micro-batch has the same number of rows, which the "
                      "schedule sends from stage to stage.",
               .fix = "Give a batch that is a multiple of the replicas times "
                      "the micro-batches, which the message names.",
               .bad = R"(--- m.json
{"schema": "shardc.manifest/v1", "params": {
  "embed_tokens.weight": {"shape": [64, 16], "dtype": "BF16"},
  "layers.0.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "layers.1.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "lm_head.weight": {"shape": [64, 16], "dtype": "BF16"}}}
--- r.yaml
version: 1
rules:
  - match: '.*'
    spec: [tp]
$ shardc cost --stages pp --mesh pp:2,tp:2 --rules r.yaml --manifest m.json --batch 8 --seq 16 --microbatches 3
)",
               .good = R"(--- m.json
{"schema": "shardc.manifest/v1", "params": {
  "embed_tokens.weight": {"shape": [64, 16], "dtype": "BF16"},
  "layers.0.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "layers.1.down_proj.weight": {"shape": [16, 32], "dtype": "BF16"},
  "lm_head.weight": {"shape": [64, 16], "dtype": "BF16"}}}
--- r.yaml
version: 1
rules:
  - match: '.*'
    spec: [tp]
$ shardc cost --stages pp --mesh pp:2,tp:2 --rules r.yaml --manifest m.json --batch 8 --seq 16 --microbatches 4
)"},
      CodePage{
          .code = &code::kScheduleRefuses,
          .what = "Finds a schedule that is not defined for the numbers of "
                  "ranks, of virtual stages and of micro-batches that were "
                  "given. Interleaved schedules run the micro-batches in "
                  "rounds, which must divide them; zbv and dualpipev place "
                  "exactly two stages on a rank; dualpipe needs an even number "
                  "of ranks and of micro-batches.",
          .why = "With other numbers a rank would wait for a task that comes "
                 "later in its own row, or tasks would be left over.",
          .fix = "Take a number of micro-batches that the schedule accepts, "
                 "which the message names, or another schedule.",
          .bad = R"($ shardc schedule interleaved --ranks 4 --microbatches 13
)",
          .good = R"($ shardc schedule interleaved --ranks 4 --microbatches 12
)"},
      CodePage{
          .code = &code::kScheduleUnsafe,
          .what = "Finds a file of a schedule in which a task is missing or "
                  "runs twice, runs before what it reads, runs on a rank "
                  "that does not have its stage, or in which ranks wait for "
                  "each other.",
          .why = "The step would never end, or would end with gradients that "
                 "are wrong. Runtimes detect only some of these mistakes: a "
                 "task that runs twice passes unseen.",
          .fix = "Move, add or remove the task that the message names, or let "
                 "`shardc schedule NAME --csv` write the file.",
          .bad = R"(--- two.csv
0F0,0F1,0B1,0B0
1F0,1B0,1B1,1F1
$ shardc schedule two.csv
)",
          .good = R"(--- two.csv
0F0,0F1,0B0,0B1
1F0,1B0,1F1,1B1
$ shardc schedule two.csv
)"},
  };
  return kPages;
}

}  // namespace shardc
