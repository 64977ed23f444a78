// A zig-zag ring of n cuts the sequence in 2n chunks, so that the rank of an
// early chunk has a late one too:
//
//   1100 tokens, sp 4: 8 chunks, 1100 % 8 = 4
#include <algorithm>
#include <string>

#include "lint/analysis/attention_edits.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kRingLength;

namespace {

LintFinding Say(const Facts& facts, const ZigZagRing& ring,
                const ModeSplit& split, int64_t length) {
  const int64_t chunks = 2 * split.parts;
  LintFinding finding =
      FindingAt(kRingLength.code,
                ring.place.source == nullptr ? split.place : ring.place);
  finding.message = Quoted(ring.operation) + " in zig-zag order cuts " +
                    std::to_string(length) + " tokens in " +
                    std::to_string(chunks) + " chunks, as " +
                    AxesHave(facts, split.axes) + ": " +
                    RemainderText(length, chunks);
  finding.help = "make the sequence " +
                 std::to_string((length / chunks + 1) * chunks) +
                 " long, or use the contiguous order";
  return finding;
}

void Check(const Facts& facts, FindingSink& sink) {
  const int64_t length = *facts.inputs().kv_len;
  for (const ZigZagRing& ring : facts.inputs().rings) {
    for (const ModeSplit& split :
         SplitsOf(facts, "query", kLengthDim, facts.MeshPlace())) {
      // One token at a time is in no order.
      const bool runs =
          std::any_of(split.modes.begin(), split.modes.end(), [&](Mode mode) {
            return !IsGeneration(mode) && ring.mode.value_or(mode) == mode;
          });
      // Where the axes do not divide the length, SHD406 speaks.
      if (runs && length % split.parts == 0 &&
          length % (2 * split.parts) != 0) {
        sink.push_back(Say(facts, ring, split, length));
      }
    }
  }
}

}  // namespace

constinit const Lint kRingLength{
    .code = {412, "ring-length", Level::kError,
             "a zig-zag ring's chunks do not divide the sequence"},
    .needs = kNeedsKvLen,
    .what =
        "Finds lengths that are no multiple of twice the size of the axes "
        "that a ring goes round, where the target's settings put the ring in "
        "zig-zag order.",
    .why =
        "The order that balances causal work gives each device two chunks. "
        "Lengths that divide by the axes alone pass until the chunks are cut "
        "(jzhang38/EasyContext#47, NVIDIA/Megatron-LM#1669).",
    .instead = "Pad the sequence to a multiple of twice the axis.",
    .bad = {.mesh = "sp:4",
            .rules = R"(version: 1
rules:
  - match: 'norm'
    spec: Replicated
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "norm/scale": {"shape": [4096], "dtype": "BF16"}}}
)",
            .target = R"(operations: [ring]
settings: {operations: {ring: {order: zig_zag}}}
)",
            .kv_len = 1100},
    .good = {.kv_len = 1104},
    .check = Check};

}  // namespace shardc
