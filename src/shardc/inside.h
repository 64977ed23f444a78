// The private members of the public objects. This header is not installed. The
// sources of the public library include it before every other header. It
// defines SHARDC_V1, which separates the public names, in namespace v1, from
// the names of the other folders of src (version.h).
#ifndef SHARDC_SHARDC_INSIDE_H_
#define SHARDC_SHARDC_INSIDE_H_

#define SHARDC_V1 v1

#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"
#include "model/stages.h"
#include "plan/compile.h"
#include "shardc/findings.h"
#include "shardc/manifest.h"
#include "shardc/mesh.h"
#include "shardc/plan.h"
#include "shardc/rules.h"
#include "shardc/spec.h"
#include "source/finding.h"

namespace shardc::v1 {

struct Findings::Inside {
  shardc::Findings all;
};
struct Mesh::Inside {
  shardc::Mesh mesh;
  Place place;  // where findings about the mesh are reported
};
struct Manifest::Inside {
  shardc::Manifest manifest;
};
struct Rules::Inside {
  RuleSet rules;
  std::optional<StageDeclaration> stages;  // declared pipeline stages, if any
  // The config.json of the target, if OpenTarget read the rules.
  std::optional<ModelConfig> model;
};
struct Plan::Inside {
  std::unique_ptr<const Compiled> compiled;
  // The index of each parameter, keyed by name. Built at the first call of
  // Plan::Find.
  mutable std::once_flag indexed;
  mutable std::unordered_map<std::string_view, size_t> index;
  Place mesh_place;
};

shardc::Level LevelOf(Level level);
Level LevelOf(shardc::Level level);
shardc::Mode ModeOf(Mode mode);
Mode ModeOf(shardc::Mode mode);
// Returns `modes`, or all modes if `modes` is empty.
std::vector<shardc::Mode> ModesOf(const std::vector<Mode>& modes);

}  // namespace shardc::v1

#endif  // SHARDC_SHARDC_INSIDE_H_
