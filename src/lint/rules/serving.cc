// Lints about batch, lengths and the KV cache in prefill and decode.
//
//   cache over sp in prefill, unsharded in decode  ->  resharded between the
//   two
#include <algorithm>
#include <string>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/memory.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Finds the first dimension in which `before` and `after` differ. Returns the
// line that determines the axes of this dimension in `mode`, or the mesh's
// place if no line determines them.
Place PlaceOf(const Facts& facts, const Spec& before, const Spec& after,
              Mode mode) {
  for (size_t dim = 0; dim < std::max(before.size(), after.size()); ++dim) {
    const AxisGroup one = dim < before.size() ? before[dim] : AxisGroup();
    const AxisGroup other = dim < after.size() ? after[dim] : AxisGroup();
    if (SameSplit(facts.mesh(), one, other)) continue;
    return AttentionPlace(facts, mode, "key", dim, facts.MeshPlace());
  }
  return facts.MeshPlace();
}

// Returns whether a registration of a logical axis is at this place.
bool IsRegistration(const Facts& facts, const Place& place) {
  const auto& all = facts.compiled().rules.registrations;
  return std::any_of(all.begin(), all.end(), [&](const Registration& one) {
    return one.place.HasPosition() && one.place.source == place.source &&
           one.place.begin == place.begin;
  });
}

}  // namespace

void CheckCacheReshard(const Facts& facts, FindingSink& sink) {
  if (!Plans(facts, Mode::kPrefill)) return;
  for (Mode mode : {Mode::kDecode, Mode::kInsert}) {
    if (!Plans(facts, mode)) continue;
    const Spec before = AttentionSpecOf(facts, Mode::kPrefill, "key");
    const Spec after = AttentionSpecOf(facts, mode, "key");
    if (SameSplit(facts.mesh(), before, after)) continue;
    LintFinding finding =
        FindingAt(kCacheReshard.code, PlaceOf(facts, before, after, mode));
    finding.message = "the KV cache is " + SpecText(before) +
                      " in prefill and " + SpecText(after) + " in " +
                      std::string(ModeName(mode)) +
                      ": it is resharded between the two";
    if (const auto bytes = CacheBytes(facts)) {
      finding.message += ", " + BytesText(*bytes) + " for the entire batch";
    }
    finding.help =
        IsRegistration(facts, finding.place)
            ? "give `generation` of this registration the axes of its `rule`"
            : "give the decode axis rules the axes of the standard ones, or "
              "run prefill with decode's";
    sink.push_back(std::move(finding));
    return;
  }
}

void CheckDecodeQuerySplit(const Facts& facts, FindingSink& sink) {
  if (!Plans(facts, Mode::kDecode)) return;
  const AxisGroup axes =
      AttentionAxes(facts, Mode::kDecode, "query", kLengthDim);
  if (facts.mesh().Parts(axes).value_or(1) <= 1) return;
  const auto& rules = facts.compiled().rules;
  const auto& given = rules.axes.Given(AxisRule::kDecodeQuerySequence);
  const Registration* const own = facts.OverrideOf("QUERY_LENGTH");
  const bool is_null = own == nullptr && (!given || given->is_null);
  if (!given && own == nullptr &&
      !Written(facts, Mode::kDecode, "query", kLengthDim))
    return;
  LintFinding finding = FindingAt(
      kDecodeQuerySplit.code,
      rules.axes_places[static_cast<size_t>(AxisRule::kDecodeQuerySequence)]);
  if (!given) {
    finding.place = AttentionPlace(facts, Mode::kDecode, "query", kLengthDim,
                                   facts.MeshPlace());
  }
  if (own != nullptr) finding.place = own->place;
  finding.reports = {
      DecodeNullTopic(AxisRuleName(AxisRule::kDecodeQuerySequence))};
  finding.message =
      "in decode the query has length 1, which is split over " +
      GroupText(axes) + ", which " + (axes.size() == 1 ? "has " : "have ") +
      std::to_string(facts.mesh().Parts(axes).value_or(1)) +
      (is_null ? ": a null decode rule does not replace the standard rule"
               : "");
  finding.help = std::string("write ") +
                 (own == nullptr ? "`axes: {decode_query_sequence: []}`"
                                 : "`generation: null` in this registration") +
                 " to unshard it in decode";
  sink.push_back(std::move(finding));
}

namespace {

constexpr AxisRule kStandard[] = {
    AxisRule::kBatch,         AxisRule::kQuerySequence, AxisRule::kKeySequence,
    AxisRule::kHead,          AxisRule::kKvHead,        AxisRule::kAttentionDim,
    AxisRule::kAttentionKvDim};

}  // namespace

void CheckDecodeNull(const Facts& facts, FindingSink& sink) {
  const AxisRules& axes = facts.compiled().rules.axes;
  for (AxisRule standard : kStandard) {
    const auto decode = DecodeTwin(standard);
    if (!decode) continue;
    const auto& given = axes.Given(*decode);
    if (!given || !given->is_null) continue;
    const AxisGroup kept = axes.Value(standard).axes;
    if (kept.empty()) continue;
    const std::string name(AxisRuleName(*decode));
    LintFinding finding = FindingAt(
        kDecodeNull.code,
        facts.compiled().rules.axes_places[static_cast<size_t>(*decode)]);
    finding.unless = {DecodeNullTopic(AxisRuleName(*decode))};
    finding.message = Quoted(name + ": null") +
                      " does not unshard: the standard rule " +
                      Quoted(AxisRuleName(standard)) + ", " + GroupText(kept) +
                      ", still applies in decode";
    finding.help = "write " + Quoted(name + ": []") +
                   " to unshard in decode, or remove the line";
    sink.push_back(std::move(finding));
  }
}

void CheckKvLengthIndivisible(const Facts& facts, FindingSink& sink) {
  const int64_t length = *facts.inputs().kv_len;
  for (const ModeSplit& split :
       SplitsOf(facts, "key", kLengthDim, facts.MeshPlace())) {
    const int64_t parts = split.parts;
    if (length % parts == 0) continue;
    LintFinding finding = FindingAt(kKvLengthIndivisible.code, split.place);
    finding.message = "the KV cache is " + std::to_string(length) + " long, " +
                      AxesHave(facts, split.axes) + " in " +
                      ModesText(facts, split) + ": " +
                      RemainderText(length, parts);
    finding.help = "make the cache " +
                   std::to_string((length / parts + 1) * parts) + " long";
    sink.push_back(std::move(finding));
  }
}

void CheckBatchIndivisible(const Facts& facts, FindingSink& sink) {
  const int64_t batch = *facts.inputs().batch;
  for (const ModeSplit& split :
       SplitsOf(facts, "query", kBatchDim, facts.MeshPlace())) {
    const int64_t parts = split.parts;
    if (batch % parts == 0) continue;
    LintFinding finding = FindingAt(kBatchIndivisible.code, split.place);
    finding.message = "the batch is " + std::to_string(batch) + ", " +
                      AxesHave(facts, split.axes) + " in " +
                      ModesText(facts, split) + ": " +
                      RemainderText(batch, parts);
    const std::string source =
        SourceOf(facts, split, "query", kBatchDim, AxisRule::kBatch);
    finding.help = "use a batch of " +
                   std::to_string((batch / parts + 1) * parts) +
                   ", or name fewer axes in " +
                   (source.front() == '`' ? "the axis rule " + source : source);
    sink.push_back(std::move(finding));
  }
}

// Reports sequence lengths that zig-zag order cannot divide. A zig-zag ring of
// n devices splits the sequence into 2n chunks. Each device has an early chunk
// and a late chunk, so that all devices have the same work:
//
//   1100 tokens, sp 4: 8 chunks, 1100 % 8 = 4
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
