// A resolver of specs, which needs no manifest and no mesh.
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

// The target of the request; an empty target if the project has several and
// none is selected.
std::optional<Target> ChooseForResolver(const TargetRequest& request,
                                        Findings& findings);

// The resolver of a target's rules and mesh, either of which may be absent.
// Without a mesh every axis that the axis rules name exists with size 1, so
// that no axis is left out of a spec.
struct OpenedResolver {
  Resolver resolver;
  bool has_mesh = false;
  Policy policy;  // the rules' own
};
// `texts` replace the contents of files; may be null. Rules files must be
// inside `boundary`.
std::optional<OpenedResolver> OpenResolver(const Target& target,
                                           std::optional<int64_t> devices,
                                           Findings& findings,
                                           const FileTexts* texts = nullptr,
                                           const Boundary& boundary = {});

}  // namespace shardc

#endif  // SHARDC_TARGET_RESOLVER_H_
