// Partition rules as files write them, before any name is resolved.
#ifndef SHARDC_MODEL_RULES_H_
#define SHARDC_MODEL_RULES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "model/axis_rules.h"
#include "model/legal_sizes.h"
#include "model/mesh.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc {

struct ModelDescription;

struct SpecName {
  std::string text;
  Place place;
  // True if the name can only mean a mesh axis: it is written `{axis: x}`, or
  // an imported file uses it for a mesh axis. A rules file may use the same
  // name, such as HEAD, for a logical axis.
  bool is_mesh_axis = false;
};

// Returns whether a rules file has to write `{axis: x}` for the name, because
// the name alone is a built-in logical axis or an axis rule.
bool NeedsAxisKey(const SpecName& name);
// Returns `text`, the name in the syntax of a file, or `{axis: text}` if
// NeedsAxisKey().
std::string WrittenName(const SpecName& name, const std::string& text);

// One dimension of a spec as written: empty (null or `_`), one name, or a group
// of names. Nulls inside a group are dropped while reading.
struct SpecEntry {
  std::vector<SpecName> names;
  bool is_group = false;  // True if the dimension is written as a list.
};

struct SpecList {
  std::vector<SpecEntry> entries;
  Place place;
};

// A spec that is copied from another parameter (`like`). `rewrite` gives the
// name of that parameter. `\1` in it is replaced by the text that the first
// group of the rule's pattern matched.
struct SpecLike {
  // The name of the parameter whose spec is copied, such as `\1.weight`.
  std::string rewrite;
  Place place;
};

// The name of a bundle, written in place of a list.
struct SpecBundle {
  std::string name;
  Place place;
};

using SpecSource = std::variant<SpecList, SpecBundle, SpecLike>;

enum class IllegalPolicy : uint8_t { kError, kDrop, kShrink, kPad };
enum class UnmatchedPolicy : uint8_t { kError, kReplicate };
enum class Compat : uint8_t { kNone, kEformer, kFjformer };
std::string_view IllegalPolicyName(IllegalPolicy policy);
std::string_view UnmatchedPolicyName(UnmatchedPolicy policy);
std::string_view CompatName(Compat compat);

// States which devices hold an expert's tensor, if each expert has its own
// tensor. These are the devices at one coordinate along the mesh axis `axis`.
// For the expert `index` of `count`, the coordinate is index * size / count,
// where `size` is the size of the axis.
struct Placement {
  std::string axis;
  // An RE2 pattern whose first group is the expert's index.
  std::string index_pattern;
  // The number of experts. 0 means one more than the largest expert's index in
  // the names of the parameters.
  int64_t count = 0;
  Place place;
};

// How the separator between the parts of names in a rule's pattern is
// determined. If the separator depends on the names of the parameters (kNames)
// or on the compat mode (kCompat), SettleSeparators stores it in the rule.
enum class SeparatorFrom : uint8_t {
  kFile,      // The file has the key `separator`.
  kPatterns,  // The patterns contain a slash or an escaped dot, but not both.
  // The patterns contain neither a slash nor an escaped dot, so the rule uses
  // the separator of the parameter names.
  kNames,
  // The patterns contain both a slash and an escaped dot, so the file must
  // state the separator.
  kBoth,
  // `compat` is set, so names are split as in eformer or fjformer, which only
  // support the slash.
  kCompat
};

struct Rule {
  std::string match;  // An RE2 pattern, searched anywhere in the name.
  SpecSource spec;
  // Specs that replace `spec` in these modes.
  std::map<Mode, SpecSource> modes;
  // The parts of each dimension, each of which the axes divide.
  DimParts parts;
  std::optional<IllegalPolicy> illegal;
  // Parameters with fewer elements than this are replicated.
  std::optional<int64_t> min_size;
  std::optional<Placement> placement;
  std::string note;
  // The character between the parts of a name in `match`: `/` or `.`.
  char separator = '/';
  SeparatorFrom separator_from = SeparatorFrom::kFile;
  // The name by which plans refer to the rule's file.
  std::string source_name;
  Place place;        // place of the entire rule
  Place match_place;  // place of the pattern
};

// The rule that a file registers for a logical axis, such as `kv_head` in
// `KV_GROUP: {rule: kv_head}`. It is null, or the names of axis rules, logical
// axes or mesh axes. A name that is written `{axis: x}` is always a mesh axis.
struct RegisteredRule {
  struct Name {
    std::string text;
    bool forced_axis = false;
    bool operator==(const Name&) const = default;
  };
  bool is_null = true;
  // True if the rule is written as a list. As in eformer, only a name outside a
  // list implies a rule for generation modes: `kv_head` implies
  // `decode_kv_head`, and `[kv_head]` does not.
  bool is_list = false;
  std::vector<Name> names;
  bool operator==(const RegisteredRule&) const = default;
};

struct Registration {
  // The name as written. `KV_GROUP` is short for `__KV_GROUP__`.
  std::string name;
  RegisteredRule rule;
  // The rule for generation modes; absent if it is derived from `rule`.
  std::optional<RegisteredRule> generation;
  bool override_existing = false;
  // True if this entry removes the logical axis `name`, which is registered by
  // a file that this file extends. With `missing_ok: false` it is an error if
  // no file registers the name.
  bool unregister = false;
  bool missing_ok = true;
  Place place;
};

// A named list of logical axes. `mode` is the mode, such as decode, in which
// the axes are mapped to mesh axes if the bundle is not used by a rule, for
// example in the command `resolve`. If a rule names the bundle, `mode` is
// ignored, because a plan resolves the rule in the plan's own modes.
struct Bundle {
  std::string name;
  SpecList axes;
  // An int n means that the size of dimension n decides the mode: size 1 means
  // decode.
  std::variant<Mode, int> mode = Mode::kTrain;
  Place place;
};
std::span<const Bundle> BuiltinBundles();

// The spec that `activations:` gives to an activation, such as `hidden`.
struct ActivationRule {
  std::string name;
  SpecSource spec;
  // Specs that replace `spec` in these modes.
  std::map<Mode, SpecSource> modes;
  Place place;
};

// Returns a built-in bundle by its name or by the name of its class in eformer:
// the class of AttnQ is `AttnQSharding`. Returns null if there is none.
const Bundle* FindBuiltinBundle(std::string_view name);

struct Policy {
  std::optional<UnmatchedPolicy> unmatched;
  std::optional<IllegalPolicy> illegal;
  std::optional<int64_t> min_size;
  std::optional<Compat> compat;
  // Whether KV heads that are fewer than the devices of their axes are
  // replicated: each device then has the head that its query heads use. It is a
  // key of the file itself and not of `policy`.
  std::optional<bool> kv_replicate;
};

// A number of KV heads and their size.
struct KvHeads {
  int64_t heads = 0, head_dim = 0;
  bool operator==(const KvHeads&) const = default;
};

// A pattern for parameter names that is not part of a rule, from a file or a
// flag.
struct NamePattern {
  std::string match;  // An RE2 pattern, searched anywhere in the name.
  Place place;
};
// Patterns of the parameters without weight decay; absent if neither a file nor
// a flag gives any.
using WeightDecayExclusions = std::optional<std::vector<NamePattern>>;

// All rules files merged. A file is nearer than the files that it extends. The
// rules of the nearest file come first, and a setting is read from the nearest
// file that has it.
struct RuleSet {
  // The rules in order; the first that matches a parameter applies.
  std::vector<Rule> rules;
  AxisRules axes;
  // The place of each axis rule that a file gives, indexed by AxisRule.
  std::array<Place, kAxisRuleCount> axes_places;
  // The registered logical axes; names are distinct.
  std::vector<Registration> registrations;
  // The bundles of the files; names are distinct.
  std::vector<Bundle> bundles;
  // The activations whose specs the files state; names are distinct.
  std::vector<ActivationRule> activations;
  Policy policy;
  // The KV heads of the model, by which `kv_replicate` finds them in
  // parameters; several if layers differ. Empty without `kv_replicate`, or if
  // they are unknown.
  std::vector<KvHeads> kv_heads;
  WeightDecayExclusions weight_decay_exclude;
  // The `model:` section of the first file of `sources` that has one; or null.
  std::shared_ptr<const ModelDescription> model;
  // All files read; a file comes before the files that it extends. Comments in
  // them such as `# shardc: ignore[SHD105]` disable findings. The plan lists
  // the files as its `source`.
  std::vector<SourceRef> sources;

  // Returns whether the name has a meaning in specs without a mesh: it is a
  // built-in or registered logical axis, or an axis rule.
  bool IsLogical(std::string_view name) const;
};

// Returns the canonical name of a logical axis. For a built-in axis it is the
// short name. For any other axis it is the name without surrounding `__`, so
// `X` and `__X__` have the same canonical name.
std::string CanonicalToken(std::string_view name);

// Sets the separator of each rule whose file does not state it. Under `compat`
// the separator is the slash. Otherwise, rules with kNames get `names`, the
// separator of the parameter names, or the slash if `names` is 0. For a file
// with kBoth, a finding is added.
void SettleSeparators(RuleSet& rules, char names, Compat compat,
                      Findings& findings);

struct ImportedRule {
  Rule rule;
  // The comments of the rule in the imported file, without `#`.
  std::vector<std::string> comments;
};

struct Imported {
  // The comments that concern the file as a whole.
  std::vector<std::string> comments;
  std::optional<Mesh> mesh;
  AxisRules axes;
  // The logical axes that the imported file registers, in its order.
  std::vector<Registration> registrations;
  std::vector<ImportedRule> rules;
  // The separator between the parts of names in patterns; 0 if unknown.
  char separator = 0;
  Policy policy;
};

// Logical axis rules (MaxText, t5x, flax): ordered pairs of a logical axis name
// and mesh axes. They map the logical names of a parameter's dimensions to a
// spec.

struct LogicalRule {
  std::string name;
  AxisGroup axes;
};

// A parameter with the logical names of its dimensions. A dimension may have no
// name.
struct LogicalNames {
  std::string param;
  // For each dimension, its logical name; empty if it has none.
  std::vector<AxisGroup> dims;
  Place place;
};

// An ordered list of rules, indexed by logical name so that many parameters are
// resolved quickly.
class LogicalRules {
 public:
  // The rules must outlive this object.
  explicit LogicalRules(std::span<const LogicalRule> rules);

  // Returns the spec of a parameter whose dimensions have these logical names.
  // The rules apply in the order of the list, not of the dimensions. A rule
  // concerns the first dimension that has the rule's logical name. The rule
  // sets that dimension's axes if no earlier rule has set them and no other
  // dimension uses one of the rule's axes. A missing mesh axis is treated like
  // an axis of size 1: a dimension uses it, and the spec leaves it out.
  Spec Resolve(std::span<const AxisGroup> names, const Mesh& mesh) const;

 private:
  std::span<const LogicalRule> rules_;
  // For each logical name, the indices of its rules, ascending.
  std::unordered_map<std::string_view, std::vector<size_t>> by_name_;
};

}  // namespace shardc

#endif  // SHARDC_MODEL_RULES_H_
