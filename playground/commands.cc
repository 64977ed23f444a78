// The commands of the playground, in the order of `shardc --help`. The
// program's own list is in src/cli/table.cc; this build links what these need.
#include <array>

#include "cli/command.h"
#include "cli/commands.h"

namespace shardc::cli {
namespace {

constexpr std::array kPlayground = {
    &kPlan,  &kCheck, &kExplain, &kResolve, &kAttention, &kMesh,    &kManifest,
    &kRules, &kCost,  &kDiff,    &kShow,    &kReport,    &kSuggest, &kExport};

}  // namespace

std::span<const Command* const> Commands() { return kPlayground; }

}  // namespace shardc::cli
