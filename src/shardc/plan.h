// A plan: the sharding of each parameter of a model, compiled from a mesh,
// rules and a manifest.
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

// What Compile does with a spec that is illegal for its shape and mesh.
enum class IfIllegal {
  kError,   // keep the spec and report it
  kDrop,    // leave the dimension unsharded
  kShrink,  // keep the longest legal prefix of the dimension's axes
  kPad,  // keep axes that do not divide: the last shards are shorter or empty
};
// The JAX library whose behaviour Compile reproduces where that library and
// shardc differ.
enum class Compat { kNone, kEformer, kFjformer };

// Options of Compile. An option that is set overrides the value in the rules.
struct PlanOptions {
  std::vector<Mode> modes = {};  // empty: all modes
  std::optional<IfIllegal> illegal = std::nullopt;
  // Parameters with fewer elements are not sharded.
  std::optional<int64_t> min_size = std::nullopt;
  std::optional<Compat> compat = std::nullopt;
  int threads = 1;  // number of threads; does not change the result
};

// The sharding of one parameter in one mode.
struct Placement {
  Spec spec;
  // The shape of the largest shard; nullopt if the parameter's shape is unknown
  // or the spec is illegal. All shards have this shape except under kPad.
  std::optional<Shape> shard_shape;
  // The bytes of the largest shard; nullopt if the parameter's shape or dtype
  // is unknown, or if the spec is illegal.
  std::optional<int64_t> bytes_per_device;
  bool illegal = false;    // whether `spec` is illegal, but was kept (kError)
  bool corrected = false;  // whether an illegal spec was changed to `spec`
};

struct Totals {
  int64_t params = 0;
  std::optional<int64_t> elements;
  std::optional<int64_t> bytes;  // bytes of all parameters together
  // The bytes on the fullest device in train mode.
  std::optional<int64_t> bytes_per_device;
  // Parameters that are not scalars and that no rule matches; they are
  // replicated.
  int64_t unmatched = 0;
  int64_t illegal = 0;
  int64_t corrected = 0;
};

class Plan {
 public:
  // Returns the number of parameters. They are in the order of the manifest.
  size_t size() const;
  std::string_view name(size_t param) const;  // 0 <= param < size()
  // Returns the index of the first rule that matches the name of a parameter.
  // Returns nullopt for a scalar, and for a parameter that no rule matches.
  std::optional<size_t> rule(size_t param) const;
  // Returns the sharding of a parameter in a mode. Returns nullopt if the plan
  // was not compiled for this mode.
  std::optional<Placement> placement(size_t param, Mode mode) const;
  std::optional<size_t> Find(std::string_view name) const;

  Totals totals() const;
  std::string fingerprint() const;  // "sha256:..." of the plan's content

  std::string Json() const;  // the plan as JSON: v1 or v2 of shardc-plan(5)
  std::string Text() const;  // the text that `shardc plan` prints

  struct Inside;  // private to the library
  explicit Plan(std::shared_ptr<const Inside> inside);
  const Inside& inside() const { return *inside_; }

 private:
  std::shared_ptr<const Inside> inside_;
};

// Compiles a plan. Errors include an invalid pattern, an unknown name in a
// spec, a circular definition, and pipeline stages that do not fit the model.
// Unmatched parameters and illegal specs are no errors; the plan lists them.
std::optional<Plan> Compile(const Mesh& mesh, const Rules& rules,
                            const Manifest& manifest,
                            const PlanOptions& options, Findings& findings);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_PLAN_H_
