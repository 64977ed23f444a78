// What every device holds of a model: mesh, rules and manifest compiled.
#ifndef SHARDC_SHARDC_PLAN_H_
#define SHARDC_SHARDC_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardc/findings.h"
#include "shardc/manifest.h"
#include "shardc/mesh.h"
#include "shardc/rules.h"
#include "shardc/spec.h"

namespace shardc::SHARDC_V1 {

// What is done about a spec that is not legal for its shape and mesh.
enum class IfIllegal {
  kError,   // it stays and is told
  kDrop,    // the dimension is not split
  kShrink,  // the longest leading run of its axes that is legal stays
};
// To follow a reference system to the letter, where it differs.
enum class Compat { kNone, kEformer, kFjformer };

// Each wins over the rules' own where it is given.
struct PlanOptions {
  std::vector<Mode> modes = {};  // empty: all
  std::optional<IfIllegal> illegal = std::nullopt;
  // In elements; smaller ones are not split.
  std::optional<int64_t> min_size = std::nullopt;
  std::optional<Compat> compat = std::nullopt;
  int threads = 1;  // never changes the result
};

// One parameter in one mode.
struct Placement {
  Spec spec;
  // Of one device; nothing where the shape is not known or the spec illegal.
  std::optional<Shape> shard_shape;
  std::optional<int64_t> bytes_per_device;  // also the dtype must be known
  bool illegal = false;    // the spec stands though it is not legal
  bool corrected = false;  // the policy changed what the rule says
};

struct Totals {
  int64_t params = 0;
  std::optional<int64_t> elements;
  std::optional<int64_t> bytes;             // of the model
  std::optional<int64_t> bytes_per_device;  // fullest device, in training
  int64_t unmatched = 0;  // parameters that no rule finds: on every device
  int64_t illegal = 0;
  int64_t corrected = 0;
};

class Plan {
 public:
  // Parameters are those of the manifest, in its order.
  size_t size() const;
  std::string_view name(size_t param) const;  // 0 <= param < size()
  // The rule that finds it; nothing for a scalar or where none does.
  std::optional<size_t> rule(size_t param) const;
  // Nothing for a mode that was not asked for.
  std::optional<Placement> placement(size_t param, Mode mode) const;
  std::optional<size_t> Find(std::string_view name) const;

  Totals totals() const;
  std::string fingerprint() const;  // "sha256:..." of all that it says

  std::string Json() const;  // shardc.plan/v1 (shardc-plan(5))
  std::string Text() const;  // what `shardc plan` tells people

  struct Inside;  // the library's own
  explicit Plan(std::shared_ptr<const Inside> inside);
  const Inside& inside() const { return *inside_; }

 private:
  std::shared_ptr<const Inside> inside_;
};

// Errors: a pattern or a name in a spec means nothing, definitions go in a
// circle. Unmatched and illegal parameters are facts of the plan.
std::optional<Plan> Compile(const Mesh& mesh, const Rules& rules,
                            const Manifest& manifest,
                            const PlanOptions& options, Findings& findings);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_PLAN_H_
