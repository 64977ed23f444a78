// A rules file written from the model: what `rules --resolved` and importers
// give, and what `--rules` reads back.
#ifndef SHARDC_EMIT_PLANS_RULES_FILE_H_
#define SHARDC_EMIT_PLANS_RULES_FILE_H_

#include <string>

#include "model/axis_rules.h"
#include "model/imported.h"
#include "model/rules.h"
#include "source/sink.h"

namespace shardc {

// All files together as one rules file in JSON, which YAML's reader takes:
// every axis rule with the value in force, registrations, bundles, rules and
// policy. Rules of both separators cannot stand in one file: see
// HasMixedSeparators.
void WriteRulesFileJson(const RuleSet& rules, Sink& out);
bool HasMixedSeparators(const RuleSet& rules);

// Axis rules as a rules file, only those given.
std::string AxesFileYaml(const AxisRules& axes);
void WriteAxesFileJson(const AxisRules& axes, Sink& out);

// What was imported as a rules file: in YAML with its comments, or in JSON
// with the comments as notes.
std::string ImportedFileYaml(const Imported& imported);
void WriteImportedFileJson(const Imported& imported, Sink& out);
// A mesh file.
std::string MeshFileYaml(const Mesh& mesh);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_RULES_FILE_H_
