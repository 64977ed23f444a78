#include "devices/keys.h"

#include <array>

#include "devices/profiles.h"

namespace shardc {
namespace {

using Name = std::string_view;

constexpr std::array<Name, 12> kProfileKeys = {
    "schema",     "base",  "name",  "alias", "peaks",    "memory",
    "efficiency", "chips", "links", "scale", "measured", "sources"};
constexpr std::array<Name, 4> kPeaksKeys = {"bf16", "fp8", "int8", "fp4"};
constexpr std::array<Name, 2> kProfileMemoryKeys = {"bytes", "bandwidth"};
constexpr std::array<Name, 5> kEfficiencyKeys = {
    "matmul", "attention", "memory_ops", "experts", "runs"};
constexpr std::array<Name, 3> kMatmulKeys = {"bf16", "fp8", "fp4"};
constexpr std::array<Name, 5> kAttentionKeys = {
    "flash_attn1", "flash_attn2", "cudnn", "other", "narrow_head"};
constexpr std::array<Name, 3> kLinksKeys = {"near", "far", "curve"};
constexpr std::array<Name, 3> kLinkKeys = {"bandwidth", "efficiency",
                                           "latency"};
constexpr std::array<Name, 5> kChipsKeys = {"fabric", "links", "per_host",
                                            "devices", "connected"};

}  // namespace

namespace keys {
const KeyTable kProfile{"profile", "a device profile", kProfileKeys};
const KeyTable kPeaks{"profile.peaks", "`peaks`", kPeaksKeys};
const KeyTable kProfileMemory{"profile.memory", "`memory`", kProfileMemoryKeys};
const KeyTable kEfficiency{"profile.efficiency", "`efficiency`",
                           kEfficiencyKeys};
const KeyTable kMatmul{"profile.matmul", "`matmul`", kMatmulKeys};
const KeyTable kAttention{"profile.attention", "`attention`", kAttentionKeys};
const KeyTable kLinks{"profile.links", "`links`", kLinksKeys};
const KeyTable kRateCurves{"profile.curve", "`curve`", kCurveCollectives};
const KeyTable kLink{"profile.link", "a link", kLinkKeys};
const KeyTable kChips{"profile.chips", "`chips`", kChipsKeys};
const KeyTable kSources{"profile.sources", "`sources`", kFigureGroups};
}  // namespace keys

}  // namespace shardc
