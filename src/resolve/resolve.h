// Directory: resolve. Resolves the logical (semantic) axes of a spec to mesh
// axes, in each mode.
// Its files include headers of these directories: source, model.
//
// The semantics are shardc's own; tests/reference/resolve.h implements those of
// eformer exactly. A spec that is a single name is the name of a bundle. A name
// in a list is looked up as a logical axis (registered or built in), then as an
// axis rule, then as a mesh axis; resolve.cc describes names that are an axis
// of the mesh and something else. Shapes are not used here; legalize checks the
// result against them.
//
// Names of logical axes are compared in their long form, so `X` and `__X__` are
// the same name. In a registration (`register:` in a rules file), a name is
// looked up as an axis rule first, then as a logical axis, then as a mesh axis.
// The registration uses the standard axis rule in every mode, and not its
// decode rule; resolve.cc describes one exception.
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
#include "source/finding.h"

namespace shardc {

// How one name in a spec was resolved to axes, for the command `explain`.
struct NameTrace {
  std::string name;  // the name as it is written in the spec
  // The kind of the name: "token" (a built-in logical axis), "registered" (a
  // registered logical axis), "axis rule" or "mesh axis".
  std::string_view kind;
  // The axis rule that was used, such as "decode_kv_head"; empty if none was
  // used.
  std::string rule;
  // The mesh axes of the name. An axis of a kind of parallelism (such as fsdp)
  // that the mesh lacks is in this list, although Resolved::spec may omit it.
  AxisGroup axes;
  // True if the decode rule is null and the standard rule has axes, so that the
  // standard rule was used.
  bool decode_fallback = false;
};

// Returns the axis rule that replaces `rule` in the modes decode and insert if
// a registration has no generation rule. This is the decode twin (decode_head
// for head) if `rule` is only the name of an axis rule that has a twin.
// Otherwise returns nullopt.
std::optional<AxisRule> InferredGeneration(const RegisteredRule& rule);

// Returns decode if dimension `dim` of the shape has size 1, and train
// otherwise. A negative `dim` counts from the last dimension. Returns nullopt
// if the shape has no such dimension.
std::optional<Mode> ModeFromShape(int64_t dim, std::span<const int64_t> shape);

struct Resolved {
  // An entry of the spec has the mesh axes of all names in the entry, in the
  // order of the names.
  Spec spec;
  // How each name was resolved: one list for each entry of the spec.
  std::vector<std::vector<NameTrace>> traces;
  std::string bundle;  // name of the bundle; empty if the spec was a list
};

// The axis rule `expert` may name axes of other kinds of parallelism, such as
// `expert: [ep, tp]`: these axes then distribute whole experts, as Megatron
// does with an expert tensor parallelism of 1. Removes them from the other
// dimensions of a spec with EXPERT, where other axis rules put them:
//
//   [EXPERT, MLP_INTERMEDIATE]  ->  [["ep", "tp"], null], not [..., "tp"]
void KeepExpertsWhole(Resolved& out);

class Resolver {
 public:
  // Makes a resolver. Returns nullopt after a finding (`schema`,
  // `duplicate-key` or `cycle`) in these cases:
  // - a registration or a bundle has a blank name
  // - a registration has the name `_`, redefines a built-in logical axis
  //   without `override`, repeats a name of its file, or is in a cycle
  //
  // If the policy of `rules` has `compat: eformer`, parallelism axes that the
  // mesh lacks stay in the specs, so that legalize drops their whole group as
  // eformer does.
  static std::optional<Resolver> Make(const RuleSet& rules, const Mesh& mesh,
                                      Findings& findings);

  // Resolves a spec. Returns nullopt after an error. An unknown name
  // (`unknown-name`, with suggestions) and a mesh axis that is written twice
  // (`spec`) are errors under every policy. A spec that is copied from another
  // parameter (`like`) is an error too, because the compiler of plans replaces
  // it before this call. So is a name that may mean an axis of the mesh or an
  // axis rule (`spec`). If the mesh lacks an axis of an axis rule or
  // registration, the axis stays in the spec, and legalize applies the policy
  // `illegal`. Only a parallelism axis that the mesh lacks is left out, because
  // it acts as an axis of size 1; Make() describes the exception for eformer.
  // legalize also reports an axis that is repeated only after resolution.
  std::optional<Resolved> Resolve(const SpecSource& source, Mode mode,
                                  Findings& findings) const;
  std::optional<Resolved> Resolve(const SpecList& list, Mode mode,
                                  Findings& findings) const;

  // Returns the bundle with this name: the user's, or else the built-in one.
  // Returns null if no bundle has the name.
  const Bundle* FindBundle(std::string_view name) const;
  std::vector<std::string> BundleNames() const;
  // Returns whether the axis rules use the axis for a kind of parallelism, such
  // as fsdp, and the mesh does not have the axis.
  bool IsAbsentParallelism(std::string_view axis) const;

  // Returns the mesh axis that a rule's `place` names. A logical axis or the
  // default name of a kind of parallelism, such as EP or `ep`, is the axis that
  // the axis rules give for it, unless the mesh has an axis of that name.
  std::string PlacementAxis(const std::string& name) const;
  // Returns whether the name in a spec means the mesh axis of that name.
  bool MeansMeshAxis(const SpecName& name) const;

  const AxisRules& axes() const { return axes_; }
  // The specs that the rules state for activations.
  const std::vector<ActivationRule>& activations() const {
    return activations_;
  }
  const Mesh& mesh() const { return mesh_; }

 private:
  Resolver() = default;
  void Register(const Registration& registration, Findings& findings);
  bool CheckCircles(Findings& findings) const;
  const Registration* FindRegistered(std::string_view name) const;
  // What a name is that is written in a spec: a logical axis or an axis rule,
  // an axis of the mesh, or one of the two without a way to decide which.
  enum class Reading : uint8_t { kLogical, kMeshAxis, kEither };
  Reading ReadingOf(const SpecName& name) const;
  // Returns whether the name is one of a logical axis or an axis rule.
  bool IsLogical(std::string_view name) const;
  // Returns the axes of a name for which IsLogical() is true.
  NameTrace LookupLogical(const std::string& name, Mode mode) const;
  // Returns whether a name in `register:`, which stands for `rule`, is an axis
  // of the mesh instead, because the mesh has none of the rule's axes.
  bool IsAxisInstead(const std::string& name, AxisRule rule) const;
  std::optional<NameTrace> Lookup(const SpecName& name, Mode mode,
                                  Findings& findings) const;
  void ReportEither(const SpecName& name, Findings& findings) const;
  void ReportUnknown(const SpecName& name, Findings& findings) const;
  NameTrace OfRule(AxisRule rule, Mode mode) const;
  AxisGroup OfRegistration(const Registration& registration, Mode mode) const;
  AxisGroup OfRegisteredRule(const RegisteredRule& rule) const;

  AxisRules axes_;
  Compat compat_ = Compat::kNone;
  Mesh mesh_;
  // The registrations, keyed by the long form of their name, such as `__X__`.
  std::map<std::string, Registration, std::less<>> registered_;
  std::map<std::string, Bundle, std::less<>> bundles_;
  std::vector<ActivationRule> activations_;
  std::set<std::string, std::less<>> absent_parallelism_;
};

struct AttentionOptions {
  Layout layout = Layout::kBthd;
  // If true, the heads of k and v are sharded over HEAD, as those of q, instead
  // of KV_HEAD.
  bool mni = false;
  std::optional<int> softmax_aux_rank;  // nullopt if there is no softmax_aux
};

struct AttentionTensor {
  std::string_view name;  // "query", "key", "value", "output", "bias", ...
  // Logical axes, such as "BATCH"; "_" for an unsharded dimension.
  std::vector<std::string_view> tokens;
  Resolved resolved;
};

// Returns the tensors query3d, query, key, value, bias, mask, output,
// q_segment_ids and kv_segment_ids, in this order. softmax_aux follows if it
// was requested. In the layout thd, cu_seqlens follows, which is replicated.
std::vector<AttentionTensor> AttentionSpecs(const Resolver& resolver, Mode mode,
                                            const AttentionOptions& options);

// The dimensions of the activations that every plan has, as indices into their
// specs.
inline constexpr size_t kHiddenWidthDim = 2;
inline constexpr size_t kExpertsExpertDim = 1;

struct ActivationSpec {
  std::string name;
  Resolved resolved;
  // Whether `activations:` of the rules states the spec, and where.
  bool stated = false;
  Place place;
};

// Returns the activations between the ops of a model, with their specs in a
// mode:
//
//   hidden   [batch, length, width]         the residual stream
//   mlp      [batch, length, inner width]   between the matrices of an MLP
//   logits   [batch, length, vocabulary]
//   experts  [batch, expert, rows, width]   rows in the queues of experts
//
// Each follows from the axis rules, unless `activations:` of the rules states
// its spec. Other activations that the rules name follow. Adds findings for
// stated specs that do not resolve, and returns nullopt.
std::optional<std::vector<ActivationSpec>> ActivationSpecs(
    const Resolver& resolver, Mode mode, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_RESOLVE_RESOLVE_H_
