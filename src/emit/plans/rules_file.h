// Writes rules that have been read or imported as a rules file, which `--rules`
// can read again. `shardc show rules --resolved` and the importers use it.
#ifndef SHARDC_EMIT_PLANS_RULES_FILE_H_
#define SHARDC_EMIT_PLANS_RULES_FILE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "match/proof/prover.h"
#include "model/axis_rules.h"
#include "model/not_known.h"
#include "model/rules.h"
#include "source/json_writer.h"
#include "source/sink.h"

namespace shardc {

// Writes the rules of all files as one rules file in JSON, which the YAML
// parser can read. The file has the axis rules with their effective values, the
// registered logical axes, bundles, rules, policy and weight decay. It lacks
// the sections `model` and `stages`. One file cannot have rules for both
// separators (HasMixedSeparators).
void WriteRulesFileJson(const RuleSet& rules, Sink& out);

// Returns the members of a policy that are set, as keys and values of a rules
// file: {"min_size", "1024"}. The command-line flag of this key is
// `--min-size`.
std::vector<std::pair<std::string_view, std::string>> PolicyMembers(
    const Policy& policy);

bool HasMixedSeparators(const RuleSet& rules);

// Return the imported rules as a rules file. The imported file may have
// comments, on the entire file or on a rule. The YAML form has all of them. In
// the JSON form, the comments on a rule are its member `note`, and the comments
// on the file are omitted. If `not_known` is given, the JSON form also has the
// members `not_known` and `at_least` of WriteNotKnown(), which are ignored when
// the file is read.
std::string ImportedFileYaml(const Imported& imported);
void WriteImportedFileJson(const Imported& imported, Sink& out,
                           const std::vector<NotKnown>* not_known = nullptr);
// Returns the text of a mesh file.
std::string MeshFileYaml(const Mesh& mesh);

// How an entry with a single name is written. kAsWritten keeps the brackets
// that the rules file has, as in `["TP"]`. kShortest omits them: `"TP"`.
enum class SpecForm : uint8_t { kAsWritten, kShortest };

// Writes `[["FSDP", "SP"], "TP", null]`.
void WriteSpecList(JsonWriter& json, const SpecList& list, SpecForm form);
// Writes the members "match", "spec" and the other settings of the rule.
void WriteRuleMembers(JsonWriter& json, const Rule& rule, SpecForm form);

// Returns `[[FSDP, SP], TP]`, `ColumnWise` or `like: \1.weight`.
std::string SpecSourceText(const SpecSource& source);
std::string RulePlaceText(const Rule& rule);  // `rules.yaml:12`
// Parts of names in patterns are separated by `/` or `.`. Returns a line for
// each rules file that does not state which. The line has the separator that
// was inferred, and the reason.
std::vector<std::string> InferredSeparators(const RuleSet& rules);

std::string RulesText(const RuleSet& rules);
// Writes {"rules": [{"match", "spec", "modes", "source", ...}], "policy": ...}.
void WriteRulesJson(const RuleSet& rules, Sink& out);

struct RuleProofs {
  std::vector<RuleProof> of_rules;  // one per rule
  RelatedRules related;
};

std::string RuleProofsText(const RuleSet& rules, const RuleProofs& proofs);
// Writes {"rules": [{"match", "source", "proof", "name", "covers": [{"rule",
// "name"}]}], "pairs": [{"first", "second", "relation", "both", "only_first",
// "only_second"}], "pairs_apart", "pairs_not_proven"}.
void WriteRuleProofsJson(const RuleSet& rules, const RuleProofs& proofs,
                         Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_RULES_FILE_H_
