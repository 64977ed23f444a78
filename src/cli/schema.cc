// `shardc schema NAME`: a schema that the program carries.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr std::string_view kEnding = ".schema.json";

std::string_view SchemaName(const EmbeddedFile& file) {
  return file.name.substr(0, file.name.size() - kEnding.size());
}

int RunSchema(const std::string& name, Findings& findings) {
  std::string names;
  std::vector<std::string> known;
  for (const EmbeddedFile& file : EmbeddedSchemas()) {
    known.emplace_back(SchemaName(file));
    names += known.back() + "\n";
    if (known.back() == name) {
      return PutOut(file.text, findings) ? kDone : kFailed;
    }
  }
  if (name.empty()) return PutOut(names, findings) ? kDone : kFailed;
  const auto near = Nearest(name, known);
  findings.Add(code::kUsage, {}, "there is no schema `" + name + "`",
               near ? "did you mean `" + *near + "`?"
                    : "`shardc schema` lists the names");
  return kFailed;
}

}  // namespace

Run DeclareSchema(CLI::App& app) {
  auto name = std::make_shared<std::string>();
  app.add_option("NAME", *name, "a schema; without it their names are listed");
  return [name](const Common&, Findings& findings) {
    return RunSchema(*name, findings);
  };
}

}  // namespace shardc::cli
