// Implements eformer's PartitionManager and EasyDeL's attention rules exactly.
//
// It differs from the native resolver (resolve.h) in these points: a bare mesh
// axis or rule name is refused at the top level but accepted in a composite;
// unknown names in a composite are accepted as literal axes; nothing is
// flattened; `_` in a composite is a literal; registrations are in a registry
// that can be changed.
#ifndef SHARDC_TESTS_REFERENCE_RESOLVE_H_
#define SHARDC_TESTS_REFERENCE_RESOLVE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/rules.h"
#include "reference/values.h"

namespace shardc::reference {

// The registry of semantic axes, empty at first.
class Registry {
 public:
  struct Entry {
    Value rule;
    std::optional<Value> generation;  // nothing: none is stored
  };

  // Registers a name. If no generation rule is given, and the rule is one of
  // the seven fields with a decode twin, the twin becomes the generation rule.
  // Errors: `empty_name`, `already_registered`.
  std::optional<Error> Register(std::string_view name, Value rule,
                                std::optional<Value> generation,
                                bool override_existing);
  // Removes a name. Errors: `empty_name`, and `not_registered` unless
  // `missing_ok`.
  std::optional<Error> Unregister(std::string_view name, bool missing_ok);
  void Clear() { entries_.clear(); }
  const Entry* Find(std::string_view name) const;
  const std::map<std::string, Entry, std::less<>>& entries() const {
    return entries_;
  }

 private:
  std::map<std::string, Entry, std::less<>> entries_;
};

// Implements PartitionAxis.resolve_axis. Returns raw values, one for each entry
// of `axes`. Every mode other than the two generation modes acts as train.
// Errors: `unknown_axis`, `cyclic_registration`, `nested_composite`.
Result<std::vector<Value>> ResolveAxis(const PartitionAxis& axis,
                                       const Registry& registry,
                                       std::span<const Value> axes,
                                       std::string_view mode);

// A mode by name, or the dimension whose size decides the mode.
using ModeArgument = std::variant<std::string, int64_t>;

// DynamicShardingAxes: semantic axes with their mode.
struct DynamicAxes {
  std::vector<Value> axes;
  ModeArgument mode;
};
// Returns a predefined bundle by its class name ("AttnQSharding",
// "ColumnWise").
std::optional<DynamicAxes> FindDynamicAxes(std::string_view class_name);

// The arguments of PartitionManager.resolve; nullopt for arguments that are not
// given.
struct ResolveCall {
  std::optional<std::vector<Value>> axes;
  std::optional<DynamicAxes> axes_bundle;  // a bundle passed as `axes`
  std::optional<ModeArgument> mode;
  std::optional<DynamicAxes> dynamic_axes;
  bool dynamic_axes_none = false;  // given as None
  std::optional<Shape> shape;
};
struct ManagerResult {
  std::string effective_mode;
  PartitionSpec spec;
};
Result<ManagerResult> Resolve(const PartitionAxis& axis,
                              const Registry& registry,
                              const ResolveCall& call);

// A result of OperationMetadata.get_shardings, which returns ten specs.
// softmax_aux is the last, and is nullopt if no softmax_aux is given. Layouts
// other than bthd and bhtd give the error `layout_not_implemented`.
struct AttentionSpec {
  std::string_view name;
  std::optional<PartitionSpec> spec;
};
struct AttentionCall {
  ModeArgument mode;
  std::string layout;
  bool mni = false;
  std::optional<int64_t> softmax_aux_ndim;
};
Result<std::vector<AttentionSpec>> AttentionShardings(
    const PartitionAxis& axis, const Registry& registry,
    const AttentionCall& call);

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_RESOLVE_H_
