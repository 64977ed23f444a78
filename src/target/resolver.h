// Opens a resolver of specs, which needs neither a manifest nor a mesh.
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

// Returns the target of the request. If the request names a mesh or rules but
// neither target nor project, the target has only the mesh, rules and model of
// the request. Otherwise it is the target that ChooseTarget returns. If
// ChooseTarget fails, for example because there are several targets, returns
// nullopt after a finding, or an empty target if the request names neither
// target nor project.
std::optional<Target> ChooseForResolver(const TargetRequest& request,
                                        Findings& findings);

// The resolver of a target's rules and mesh, either of which may be absent. An
// absent mesh is replaced by a mesh of all axes that axis rules and
// registrations name, each of size 1, so that these axes stay in specs.
struct OpenedResolver {
  Resolver resolver;
  bool has_mesh = false;
  Policy policy;  // the policy of the rules files
};
// `texts`, if not null, replaces the contents of files. Rules files must be
// inside `boundary`. Returns nullopt after a finding.
std::optional<OpenedResolver> OpenResolver(const Target& target,
                                           std::optional<int64_t> devices,
                                           Findings& findings,
                                           const FileTexts* texts = nullptr,
                                           const Boundary& boundary = {});

}  // namespace shardc

#endif  // SHARDC_TARGET_RESOLVER_H_
