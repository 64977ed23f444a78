// Room: resolve. Resolves semantic axes to mesh axes in each mode.
// Includes: source, model.
//
// These are shardc's own semantics; tests/reference/resolve.h implements those
// of eformer exactly. If a spec is a single name, it is the name of a bundle. A
// name in a list is looked up as a logical axis (registered or built in), then
// as an axis rule, then as a mesh axis. Resolution does not use shapes;
// legalize checks the result against them.
//
// Names of logical axes are compared in their long form, so `X` means `__X__`.
// In a registration (`register:` in a rules file), a name is looked up as an
// axis rule first, then as a logical axis, then as a mesh axis. The name means
// the standard rule in every mode (resolve.cc has one exception).
// mode (resolve.cc has one exception).
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

// The steps by which one name in a spec was resolved to axes, for `explain`.
struct NameTrace {
  std::string name;  // as written
  // The kind of name: "token" (a built-in logical axis), "registered", "axis
  // rule" or "mesh axis".
  std::string_view kind;
  // The axis rule used, such as "decode_kv_head"; empty if none was used.
  std::string rule;
  AxisGroup axes;  // the result, including absent parallelism axes
  // Whether the decode rule is null and the standard rule, which has axes, was
  // used instead.
  bool decode_fallback = false;
};

// Returns the decode twin of `rule` (decode_head for head) if `rule` is only
// the name of an axis rule that has a twin; else nullopt. A registration
// without a generation rule uses the twin in the modes decode and insert.
std::optional<AxisRule> InferredGeneration(const RegisteredRule& rule);

// Returns decode if dimension `dim` of the shape is 1, else train. A negative
// number counts dimensions from the end. Returns nullopt if the shape has no
// such dimension.
std::optional<Mode> ModeFromShape(int64_t dim, std::span<const int64_t> shape);

struct Resolved {
  Spec spec;  // for each entry, the axes of its names, in order
  std::vector<std::vector<NameTrace>> traces;  // indexed by entry, then by name
  std::string bundle;  // if the spec was a bundle's name
};

class Resolver {
 public:
  // Makes a resolver. Returns nullopt after a finding (`schema`,
  // `duplicate-key` or `cycle`): a registration or a bundle has a blank name,
  // or a registration has the name `_`, redefines a built-in logical axis
  // without `override`, repeats a name of its file, or is in a cycle. Under
  // `rules.policy.compat` eformer, parallelism axes that the mesh lacks stay in
  // the specs, so that legalize drops their whole group as eformer does.
  static std::optional<Resolver> Make(const RuleSet& rules, const Mesh& mesh,
                                      Findings& findings);

  // Resolves a spec. Returns nullopt after an error. Errors under every policy
  // are an unknown name (`unknown-name`, with suggestions), a mesh axis that is
  // written twice (`spec`), and a `like`, which the compiler replaces earlier.
  // If the mesh lacks an axis of an axis rule or registration, the axis stays
  // in the spec, and legalize applies the policy. Only a missing parallelism
  // axis is left out, because it acts as an axis of size 1 (Make() describes
  // eformer's exception). legalize also reports an axis that is repeated only
  // after resolution.
  std::optional<Resolved> Resolve(const SpecSource& source, Mode mode,
                                  Findings& findings) const;
  std::optional<Resolved> Resolve(const SpecList& list, Mode mode,
                                  Findings& findings) const;

  // Returns the bundle with this name: the user's, or else the built-in one.
  // Returns null if there is none.
  const Bundle* FindBundle(std::string_view name) const;
  std::vector<std::string> BundleNames() const;
  // Returns whether the axis is one of the parallelism axes of the axis rules
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
  // Keyed by the long form of the name, such as `__X__`.
  std::map<std::string, Registration, std::less<>> registered_;
  std::map<std::string, Bundle, std::less<>> bundles_;
  std::set<std::string, std::less<>> absent_parallelism_;
};

}  // namespace shardc

#endif  // SHARDC_RESOLVE_RESOLVE_H_
