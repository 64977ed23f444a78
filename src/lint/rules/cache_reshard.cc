#include <algorithm>

#include "comm/reshard.h"
#include "lint/analysis/attention_edits.h"
#include "lint/analysis/cache.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
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

}  // namespace shardc
