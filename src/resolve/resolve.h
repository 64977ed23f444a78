// Room: resolve. Resolves semantic axes to mesh axes in each mode.
// Includes: source, model.
//
// These are shardc's own semantics; tests/reference/resolve.h has those of the
// reference systems to the letter. A name is looked up as registered or
// built-in token, then axis-rule name, then bundle (only where the name is the
// entire spec), then mesh axis. Resolution does not look at shapes; legalize
// checks the result against them.
//
// Registered names and tokens are compared in their long form, so `X` serves
// for `__X__`. In a registration, rule names come first, then registered
// names and tokens, then mesh axes; a name inside a registration means its
// standard rule in every mode.
#ifndef SHARDC_RESOLVE_RESOLVE_H_
#define SHARDC_RESOLVE_RESOLVE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/axis_rules.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "model/spec.h"
#include "source/finding.h"

namespace shardc {

// How one written name became axes, for `explain`.
struct NameTrace {
  std::string name;  // as written
  // "token", "registered", "axis rule", "mesh axis"
  std::string_view kind;
  std::string rule;  // the rule used, such as "decode_kv_head"; may be empty
  AxisGroup axes;    // what it became, before absent parallelism axes go
  // The decode rule was null, so the standard rule stayed (SEMANTICS 2.4).
  bool decode_fallback = false;
};

// Returns the axis rule by which a registration without a generation rule is
// resolved in decode and insert: the decode twin of the axis rule that its rule
// names, if the rule is that name alone. Returns nothing if its own rule holds
// in every mode.
std::optional<AxisRule> InferredGeneration(const RegisteredRule& rule);

// Returns decode if dimension `dim` of the shape is 1, else train. A negative
// dimension counts from the end. Returns nothing if the shape has no such
// dimension.
std::optional<Mode> ModeFromShape(int64_t dim, std::span<const int64_t> shape);

struct Resolved {
  Spec spec;  // groups flattened; axes in the order they arose
  std::vector<std::vector<NameTrace>> traces;  // per entry, per name
  std::string bundle;  // name of the bundle, if it was one
};

class Resolver {
 public:
  // Checks registrations (existing token without override, empty name,
  // circles: findings `cycle`, `duplicate-key`) and bundles' names. Under
  // `rules.policy.compat` eformer, parallelism axes that the mesh lacks stay
  // in the specs, so that legalize drops their whole group as eformer does.
  static std::optional<Resolver> Make(const RuleSet& rules, const Mesh& mesh,
                                      Findings& findings);

  // Unknown names are findings (`unknown-name`, with suggestions) whatever
  // the policy. An axis of an axis rule or registration that the
  // mesh lacks stays in the spec for legalize to judge, unless it is a
  // parallelism axis, which counts as size 1 and is left out. A mesh axis
  // written twice is a finding (`spec`); repetition that arises by resolution
  // stays. A `like` is the compiler's to follow and is refused here.
  std::optional<Resolved> Resolve(const SpecSource& source, Mode mode,
                                  Findings& findings) const;
  std::optional<Resolved> Resolve(const SpecList& list, Mode mode,
                                  Findings& findings) const;

  // Built in or from files; nothing if unknown.
  const Bundle* FindBundle(std::string_view name) const;
  std::vector<std::string> BundleNames() const;
  // Returns whether the axis is one of the parallelism axes that `axes` names
  // and the mesh lacks it.
  bool IsAbsentParallelism(std::string_view axis) const;

  const AxisRules& axes() const { return axes_; }
  const Mesh& mesh() const { return mesh_; }

 private:
  Resolver() = default;
  void Register(const Registration& registration, Findings& findings);
  bool CheckCircles(Findings& findings) const;
  const Registration* FindRegistered(std::string_view name) const;
  std::optional<NameTrace> Lookup(const SpecName& name, Mode mode,
                                  Findings& findings) const;
  void ReportUnknown(const SpecName& name, Findings& findings) const;
  NameTrace OfRule(AxisRule rule, Mode mode) const;
  AxisGroup OfRegistration(const Registration& registration, Mode mode) const;
  AxisGroup OfRegisteredRule(const RegisteredRule& rule) const;

  AxisRules axes_;
  bool keep_absent_ = false;
  Mesh mesh_;
  std::map<std::string, Registration, std::less<>> registered_;  // long form
  std::map<std::string, Bundle, std::less<>> bundles_;
  std::set<std::string, std::less<>> absent_parallelism_;
};

}  // namespace shardc

#endif  // SHARDC_RESOLVE_RESOLVE_H_
