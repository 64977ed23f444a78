// `shardc schema NAME`: prints an embedded schema; without a name, lists the
// names: rules, plan, project and so on.
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "source/json_form.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr std::string_view kEnding = ".schema.json";

std::string_view SchemaName(const EmbeddedFile& file) {
  return file.name.substr(0, file.name.size() - kEnding.size());
}

Strings SchemaNames() {
  Strings names;
  for (const EmbeddedFile& file : EmbeddedSchemas()) {
    names.emplace_back(SchemaName(file));
  }
  return names;
}

int RunSchema(const std::string& name, const Common&, Findings& findings) {
  const Strings known = SchemaNames();
  std::string names;
  for (const EmbeddedFile& file : EmbeddedSchemas()) {
    names += std::string(SchemaName(file)) + "\n";
    if (SchemaName(file) == name) {
      return PutOut(file.text, findings) ? kDone : kFailed;
    }
  }
  if (name.empty()) return PutOut(names, findings) ? kDone : kFailed;
  findings.Add(code::kUsage, {}, "there is no schema `" + name + "`",
               DidYouMean(name.substr(0, name.find('.')), known,
                          "`shardc schema` lists the names"));
  return kFailed;
}

Options SchemaOptions(std::string& name) {
  return {{.name = "NAME",
           .to = &name,
           .help = "name of a schema (default: list the names)",
           .words = SchemaNames}};
}

}  // namespace

Declared DeclareSchema() { return Declare(SchemaOptions, RunSchema); }

}  // namespace shardc::cli
