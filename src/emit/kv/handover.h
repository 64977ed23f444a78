// Writes the verdict of `shardc verify kv` as text and as JSON
// (shardc.kv-proof/v1).
#ifndef SHARDC_EMIT_KV_HANDOVER_H_
#define SHARDC_EMIT_KV_HANDOVER_H_

#include <optional>
#include <string>

#include "emit/kv/kv_map.h"
#include "source/sink.h"
#include "verify/kv/handover.h"

namespace shardc {

// `run` is nullopt if there is no map that could be run.
std::string HandoverText(const KvMapReport& report,
                         const std::optional<verify::Handover>& run);
void WriteHandoverJson(const KvMapReport& report,
                       const std::optional<verify::Handover>& run, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_KV_HANDOVER_H_
