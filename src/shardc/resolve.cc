#include "shardc/inside.h"
// inside.h comes first, because it defines SHARDC_V1 for the headers below.
#include "parse/rules.h"
#include "resolve/attention.h"
#include "shardc/resolve.h"

namespace shardc::v1 {

std::optional<Spec> Resolve(const std::string& axes, Mode mode,
                            const Mesh& mesh, const Rules& rules,
                            Findings& findings) {
  shardc::Findings& all = findings.inside().all;
  const auto written = ParseSpec(MakeSource("axes", axes), all);
  const auto resolver =
      Resolver::Make(rules.inside().rules, mesh.inside().mesh, all);
  if (!written || !resolver) return std::nullopt;
  auto resolved = resolver->Resolve(*written, ModeOf(mode), all);
  if (!resolved) return std::nullopt;
  return std::move(resolved->spec);
}

std::optional<std::vector<AttentionSpec>> ResolveAttention(Mode mode,
                                                           const Mesh& mesh,
                                                           const Rules& rules,
                                                           Findings& findings) {
  const auto resolver = Resolver::Make(rules.inside().rules, mesh.inside().mesh,
                                       findings.inside().all);
  if (!resolver) return std::nullopt;
  std::vector<AttentionSpec> out;
  for (AttentionTensor& tensor : AttentionSpecs(*resolver, ModeOf(mode), {})) {
    out.push_back({std::string(tensor.name), std::move(tensor.resolved.spec)});
  }
  return out;
}

}  // namespace shardc::v1
