// Reports sequence lengths that zig-zag order cannot divide. A zig-zag ring of
// n devices splits the sequence into 2n chunks. Each device has an early chunk
// and a late chunk, so that all devices have the same work:
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

LintFinding Report(const Facts& facts, const ZigZagRing& ring,
                   const ModeSplit& split, int64_t length) {
  const int64_t chunks = 2 * split.parts;
  LintFinding finding =
      FindingAt(kRingLength.code,
                ring.place.source == nullptr ? split.place : ring.place);
  finding.message = Quoted(ring.operation) + " in zig-zag order splits " +
                    std::to_string(length) + " tokens into " +
                    std::to_string(chunks) + " chunks, as " +
                    AxesHave(facts, split.axes) + ": " +
                    RemainderText(length, chunks);
  finding.help = "make the sequence " +
                 std::to_string((length / chunks + 1) * chunks) +
                 " long, or use the contiguous order";
  return finding;
}

void CheckRingLength(const Facts& facts, FindingSink& sink) {
  const int64_t length = *facts.inputs().kv_len;
  for (const ZigZagRing& ring : facts.inputs().rings) {
    for (const ModeSplit& split :
         SplitsOf(facts, "query", kLengthDim, facts.MeshPlace())) {
      // Only modes that process many tokens use zig-zag order. Generation
      // processes one token at a time.
      const bool runs =
          std::any_of(split.modes.begin(), split.modes.end(), [&](Mode mode) {
            return !IsGeneration(mode) && ring.mode.value_or(mode) == mode;
          });
      // If the axes do not divide the length at all, SHD406 reports that.
      if (runs && length % split.parts == 0 &&
          length % (2 * split.parts) != 0) {
        sink.push_back(Report(facts, ring, split, length));
      }
    }
  }
}

}  // namespace

constinit const Lint kRingLength{
    .code = {412, "ring-length", Level::kError,
             "the chunks of a zig-zag ring do not divide the sequence"},
    .needs = kNeedsKvLen,
    .what =
        "Finds sequence lengths that are not a multiple of twice the size of a "
        "ring's axes, if the target's settings select zig-zag order.",
    .why =
        "The order that balances causal attention gives each device two "
        "chunks. A length that only the axes divide fails when the chunks are "
        "made "
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
    .check = CheckRingLength};

}  // namespace shardc
