// Converts XLA's shardings of arrays to specs.
#ifndef SHARDC_IMPORTERS_RULES_HLO_H_
#define SHARDC_IMPORTERS_RULES_HLO_H_

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/mesh.h"
#include "source/source.h"

namespace shardc::imports {

// Returns the spec of each sharding, such as `{devices=[2,4]<=[8]}`. The texts
// must be views of the source's text. A spec is nullopt if the sharding is
// malformed, if no spec over the mesh is equal to it, or if it exceeds a limit
// of `import hlo`.
std::vector<std::optional<Spec>> SpecsOfShardings(
    const SourceRef& source, const Mesh& mesh,
    std::span<const std::string_view> shardings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_HLO_H_
