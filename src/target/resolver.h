// A resolver for work that needs no manifest, and perhaps no mesh.
#ifndef SHARDC_TARGET_RESOLVER_H_
#define SHARDC_TARGET_RESOLVER_H_

#include <cstdint>
#include <optional>

#include "model/project.h"
#include "model/rules.h"
#include "resolve/resolve.h"
#include "source/file_texts.h"
#include "source/finding.h"
#include "target/choose.h"

namespace shardc {

// The target asked for, as far as there is one: a project with several targets
// and none chosen gives an empty one.
std::optional<Target> ChooseForResolver(const TargetRequest& request,
                                        Findings& findings);

// Rules and mesh of the target, either of which may be absent. Without a mesh
// every axis that the axis rules name counts as present, so that nothing is
// left out of a spec.
struct OpenedResolver {
  Resolver resolver;
  bool has_mesh = false;
  Policy policy;  // the rules' own
};
// `texts` stand in for what files hold; may be null.
std::optional<OpenedResolver> OpenResolver(const Target& target,
                                           std::optional<int64_t> devices,
                                           Findings& findings,
                                           const FileTexts* texts = nullptr);

}  // namespace shardc

#endif  // SHARDC_TARGET_RESOLVER_H_
