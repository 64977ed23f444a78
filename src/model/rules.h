// Partition rules as files say them, before anything is resolved.
#ifndef SHARDC_MODEL_RULES_H_
#define SHARDC_MODEL_RULES_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/axis_rules.h"
#include "model/spec.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc {

struct ModelDescription;

// One name in a spec with the place it was written at.
struct SpecName {
  std::string text;
  Place place;
};

// One dimension as written: empty = null (or `_`), one name, or a group.
// Nulls inside a written group are left out when read.
struct SpecEntry {
  std::vector<SpecName> names;
  bool is_group = false;  // written as a list
};

// A list of dimensions, as written.
struct SpecList {
  std::vector<SpecEntry> entries;
  Place place;
};

// The spec of another parameter, named by a rewrite of the match.
struct SpecLike {
  std::string rewrite;  // `\1.weight`
  Place place;
};

// A bundle by name, as the whole spec.
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

// One tensor per expert: it lives where `axis`'s coordinate is
// index * size / count.
struct Placement {
  std::string axis;
  std::string index_pattern;  // RE2; its first group is the index
  int64_t count = 0;
  Place place;
};

// What says how a file's patterns separate parts of a path. All but the first
// are settled where the names are known: SettleSeparators.
enum class SeparatorFrom : uint8_t {
  kFile,      // its `separator`
  kPatterns,  // they have a slash, or an escaped dot
  kNames,     // they have neither: the separator of the names
  kBoth,      // they have both: it has to be written
  kCompat     // a reference system, which knows only the slash
};

struct Rule {
  std::string match;  // RE2, searched anywhere in the path
  SpecSource spec;
  std::map<Mode, SpecSource> modes;  // only where a mode differs
  std::optional<IllegalPolicy> illegal;
  std::optional<int64_t> min_size;  // elements
  std::optional<Placement> placement;
  std::string note;
  char separator = '/';  // of the file it stands in
  SeparatorFrom separator_from = SeparatorFrom::kFile;
  std::string source_name;  // that file as the plan names it
  Place place;              // of the whole rule
  Place match_place;        // of the pattern's text
};

// A registration's rule: null, or names (axis-rule names or mesh axes); a
// name under `{axis: x}` is forced to be a mesh axis.
struct RegisteredRule {
  struct Name {
    std::string text;
    bool forced_axis = false;
    bool operator==(const Name&) const = default;
  };
  bool is_null = true;
  std::vector<Name> names;
  bool operator==(const RegisteredRule&) const = default;
};

struct Registration {
  std::string name;  // as written: `KV_GROUP` serves for `__KV_GROUP__`
  RegisteredRule rule;
  std::optional<RegisteredRule> generation;  // nothing: inferred
  bool override_existing = false;
  Place place;
};

// A named list of semantic axes. Its mode matters to `resolve` only.
struct Bundle {
  std::string name;
  SpecList axes;
  std::variant<Mode, int> mode = Mode::kTrain;  // int: from shape[n]
  Place place;
};
std::span<const Bundle> BuiltinBundles();

struct Policy {
  std::optional<UnmatchedPolicy> unmatched;
  std::optional<IllegalPolicy> illegal;
  std::optional<int64_t> min_size;
  std::optional<Compat> compat;
};

// A pattern that a file or a flag gives apart from rules, with its place.
struct NamePattern {
  std::string match;  // RE2, searched anywhere in the name
  Place place;
};
// Parameters that take no weight decay; nothing where nobody speaks of it.
using WeightDecayExclusions = std::optional<std::vector<NamePattern>>;

// All rules files together: nearest first, settings merged key by key.
struct RuleSet {
  std::vector<Rule> rules;  // first match wins
  AxisRules axes;
  // Place of each axis rule that a file gives, by rule.
  std::array<Place, kAxisRuleCount> axes_places;
  std::vector<Registration> registrations;  // names distinct
  std::vector<Bundle> bundles;              // of files, names distinct
  Policy policy;
  WeightDecayExclusions weight_decay_exclude;
  // The nearest file's `model:`; null where none has one.
  std::shared_ptr<const ModelDescription> model;
  // Every file read, nearest first; for ignores and for the plan's `source`.
  std::vector<SourceRef> sources;
};

// Gives rules of files without `separator` the one of the names (0: none), or
// the slash under `compat`. That both are written and none is said is an error.
void SettleSeparators(RuleSet& rules, char names, Compat compat,
                      Findings& findings);

}  // namespace shardc

#endif  // SHARDC_MODEL_RULES_H_
