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
#include "lint/rules/all.h"

namespace shardc {
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

}  // namespace

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

}  // namespace shardc
