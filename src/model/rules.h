// Partition rules as files write them, before any name is resolved.
#ifndef SHARDC_MODEL_RULES_H_
#define SHARDC_MODEL_RULES_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/axis_rules.h"
#include "model/spec.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc {

struct ModelDescription;

struct SpecName {
  std::string text;
  Place place;
  // Whether an imported file uses the name for a mesh axis. The name may also
  // be that of a logical axis.
  bool is_mesh_axis = false;
};

// One dimension as written: empty (null or `_`), one name, or a group. Nulls
// inside a group are dropped while reading.
struct SpecEntry {
  std::vector<SpecName> names;
  bool is_group = false;  // written as a list
};

struct SpecList {
  std::vector<SpecEntry> entries;
  Place place;
};

// A spec that is copied from another parameter (`like`). `rewrite` gives the
// name of that parameter; `\1` in it is the first group of the rule's match.
struct SpecLike {
  std::string rewrite;  // `\1.weight`
  Place place;
};

// The name of a bundle, written in place of a list.
struct SpecBundle {
  std::string name;
  Place place;
};

using SpecSource = std::variant<SpecList, SpecBundle, SpecLike>;

enum class IllegalPolicy : uint8_t { kError, kDrop, kShrink };
enum class UnmatchedPolicy : uint8_t { kError, kReplicate };
enum class Compat : uint8_t { kNone, kEformer, kFjformer };
std::string_view IllegalPolicyName(IllegalPolicy policy);
std::string_view UnmatchedPolicyName(UnmatchedPolicy policy);
std::string_view CompatName(Compat compat);

// Places each expert's tensor on the devices whose coordinate along `axis` is
// index * size / count.
struct Placement {
  std::string axis;
  std::string index_pattern;  // RE2; its first group is the expert's index
  int64_t count = 0;          // 0: one more than the largest index in the names
  Place place;
};

// How the separator of a rule is determined. SettleSeparators sets the
// separator where it depends on the names of the parameters (kNames) or on the
// compat mode (kCompat).
enum class SeparatorFrom : uint8_t {
  kFile,      // its key `separator`
  kPatterns,  // the patterns contain a slash or an escaped dot
  kNames,     // the patterns contain neither: use the separator of the names
  kBoth,      // the patterns contain both: the file has to state it
  kCompat     // under `compat`: reference systems know only the slash
};

struct Rule {
  std::string match;  // RE2, searched anywhere in the name
  SpecSource spec;
  std::map<Mode, SpecSource> modes;  // replace `spec` in these modes
  std::optional<IllegalPolicy> illegal;
  // Parameters with fewer elements are replicated.
  std::optional<int64_t> min_size;
  std::optional<Placement> placement;
  std::string note;
  char separator = '/';  // the separator in `match`
  SeparatorFrom separator_from = SeparatorFrom::kFile;
  std::string source_name;  // the file's name in plans
  Place place;              // of the entire rule
  Place match_place;        // of the pattern
};

// The value of the rule of a registered logical axis: null, or names (axis
// rules, logical axes or mesh axes). A name under `{axis: x}` is always a mesh
// axis.
struct RegisteredRule {
  struct Name {
    std::string text;
    bool forced_axis = false;
    bool operator==(const Name&) const = default;
  };
  bool is_null = true;
  // Whether the rule is written as a list. As in eformer, only a name that is
  // not in a list implies a rule for generation modes: `kv_head` implies
  // `decode_kv_head`, and `[kv_head]` implies nothing.
  bool is_list = false;
  std::vector<Name> names;
  bool operator==(const RegisteredRule&) const = default;
};

struct Registration {
  std::string name;  // as written: `KV_GROUP` stands for `__KV_GROUP__`
  RegisteredRule rule;
  std::optional<RegisteredRule> generation;  // absent: derived from `rule`
  bool override_existing = false;
  // Removes the registration of this name by a file that this file extends.
  // With `missing_ok: false` it is an error if no file registers the name.
  bool unregister = false;
  bool missing_ok = true;
  Place place;
};

// A named list of logical axes. `mode` is the mode in which the bundle is
// resolved outside of a rule, for example by the command `resolve`. The spec of
// a rule uses only the axes.
struct Bundle {
  std::string name;
  SpecList axes;
  // An int n means that the size of dimension n decides the mode.
  std::variant<Mode, int> mode = Mode::kTrain;
  Place place;
};
std::span<const Bundle> BuiltinBundles();
// Returns a built-in bundle by its name or by its class name in the reference
// system: `AttnQSharding` is AttnQ. Returns null if there is none.
const Bundle* FindBuiltinBundle(std::string_view name);

struct Policy {
  std::optional<UnmatchedPolicy> unmatched;
  std::optional<IllegalPolicy> illegal;
  std::optional<int64_t> min_size;
  std::optional<Compat> compat;
};

// A pattern outside of a rule, from a file or a flag, with its place.
struct NamePattern {
  std::string match;  // RE2, searched anywhere in the name
  Place place;
};
// Parameters without weight decay; absent if neither file nor flag gives any.
using WeightDecayExclusions = std::optional<std::vector<NamePattern>>;

// All rules files merged: the nearest file first, settings merged key by key.
struct RuleSet {
  std::vector<Rule> rules;  // the first match wins
  AxisRules axes;
  // Place of each axis rule that a file gives.
  std::array<Place, kAxisRuleCount> axes_places;
  std::vector<Registration> registrations;  // distinct names
  std::vector<Bundle> bundles;              // from files, distinct names
  Policy policy;
  WeightDecayExclusions weight_decay_exclude;
  // The `model:` section of the nearest file that has one; null if none has.
  std::shared_ptr<const ModelDescription> model;
  // All files read, nearest first; for ignore comments and the plan's `source`.
  std::vector<SourceRef> sources;
};

// Sets the separator of each rule whose file does not state it. Under `compat`
// it is the slash. Otherwise, rules with kNames get `names`, the separator of
// the parameter names, or the slash if `names` is 0. A file with kBoth gets a
// finding.
void SettleSeparators(RuleSet& rules, char names, Compat compat,
                      Findings& findings);

}  // namespace shardc

#endif  // SHARDC_MODEL_RULES_H_
