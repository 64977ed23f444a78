// Makes a resolver of specs, for which neither a manifest nor a mesh is
// required.
#ifndef SHARDC_TARGET_RESOLVER_H_
#define SHARDC_TARGET_RESOLVER_H_

#include <cstdint>
#include <optional>

#include "model/project.h"
#include "model/rules.h"
#include "resolve/resolve.h"
#include "source/boundary.h"
#include "source/file_texts.h"
#include "source/finding.h"
#include "target/choose.h"

namespace shardc {

// Returns the target of the request:
// - If the request names a mesh or rules, but neither a target nor a project,
//   the target has only the mesh, rules and model of the request.
// - Otherwise it is the target that ChooseTarget() returns. If ChooseTarget()
//   fails, for example because there are several targets, there are two cases.
//   If the request names a target or a project, adds a finding and returns
//   nullopt. If it names neither, returns an empty target.
std::optional<Target> ChooseForResolver(const TargetRequest& request,
                                        Findings& findings);

// The resolver of a target's rules and mesh, each of which may be absent. A
// resolver removes the axes that its mesh lacks from a spec. If there is no
// mesh, it therefore gets a mesh of all axes that axis rules and registrations
// name, each of size 1.
struct OpenedResolver {
  Resolver resolver;
  // Whether the target has a mesh.
  bool has_mesh = false;
  Policy policy;  // the policy of the rules files
};
// Makes the resolver of a target. If `texts` is not null, it replaces the
// contents of files. Rules files must be inside `boundary`. Returns nullopt
// after a finding.
std::optional<OpenedResolver> OpenResolver(const Target& target,
                                           std::optional<int64_t> devices,
                                           Findings& findings,
                                           const FileTexts* texts = nullptr,
                                           const Boundary& boundary = {});

}  // namespace shardc

#endif  // SHARDC_TARGET_RESOLVER_H_
