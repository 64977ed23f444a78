// Directory: emit/kv. Writes the map of a KV cache as text and as JSON
// (shardc.kv-map/v1).
// Its files include headers of these directories: source, kv, verify/kv, emit.
#ifndef SHARDC_EMIT_KV_KV_MAP_H_
#define SHARDC_EMIT_KV_KV_MAP_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kv/map.h"
#include "kv/side.h"
#include "source/json_writer.h"
#include "source/sink.h"
#include "verify/kv/handover.h"

namespace shardc {

struct KvMapSide {
  std::string plan;  // the path of the plan
  std::string mesh;  // its axes as text, such as "dp=2 tp=4"
  kv::SideSettings settings;
  // The kinds of layers with the side's own axes. Both sides have the same
  // kinds in the same order. Empty if `side` is nullopt.
  std::vector<kv::Kind> kinds;
  // nullopt if the map is refused because the sides have different caches.
  std::optional<kv::Side> side;
};

struct KvMapReport {
  KvMapSide from, to;
  kv::MapSettings settings;
  kv::Map map;

  // Returns whether there is a map. It is refused, or it is not known what the
  // layers keep, if there is none.
  bool IsMapped() const { return map.refused.empty() && from.side && to.side; }
};

// Returns for example "decode.json, decode, tp=4, BF16, pages of 64 HND".
std::string KvSideText(const KvMapSide& side);
// Returns for example "0-3,5", or "40 layers of 0-79" for many ranges.
std::string KvLayersText(const std::vector<LayerRange>& layers);
void WriteKvRanges(JsonWriter& json, std::string_view key,
                   const std::vector<LayerRange>& ranges);
void WriteKvSide(JsonWriter& json, std::string_view key, const KvMapSide& side);

std::string KvMapText(const KvMapReport& report);
void WriteKvMapJson(const KvMapReport& report, Sink& out);

// Writes the verdict of `shardc verify kv` as text and as JSON
// (shardc.kv-proof/v1).

// `run` is nullopt if there is no map that could be run.
std::string HandoverText(const KvMapReport& report,
                         const std::optional<verify::Handover>& run);
void WriteHandoverJson(const KvMapReport& report,
                       const std::optional<verify::Handover>& run, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_KV_KV_MAP_H_
