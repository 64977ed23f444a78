// `shardc import FORMAT FILE`: another system's configuration as ours.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/output.h"
#include "emit/rules_file.h"
#include "importers/eformer.h"
#include "source/file.h"

namespace shardc::cli {
namespace {

struct ImportFlags {
  std::string format;
  std::string file;
  std::string output;
};

std::optional<std::string> ImportEformer(SourceRef source, bool json,
                                         Findings& findings) {
  const auto document = JsonDocument::Parse(std::move(source), findings);
  if (!document) return std::nullopt;
  const auto axes = ImportEformerAxes(*document, findings);
  if (!axes) return std::nullopt;
  return json ? AxesFileJson(*axes) : AxesFileYaml(*axes);
}

// One line per system.
struct Importer {
  std::string_view name;
  std::string_view what;
  std::optional<std::string> (*run)(SourceRef source, bool json,
                                    Findings& findings);
};
constexpr Importer kImporters[] = {
    {"eformer", "PartitionAxis in JSON, to the axis rules of a rules file",
     ImportEformer},
};

int RunImport(const ImportFlags& flags, const Common& common,
              Findings& findings) {
  const auto* importer =
      std::find_if(std::begin(kImporters), std::end(kImporters),
                   [&](const Importer& i) { return i.name == flags.format; });
  if (importer == std::end(kImporters)) {
    std::string known;
    for (const Importer& i : kImporters) {
      known += (known.empty() ? "`" : ", `") + std::string(i.name) + "`";
    }
    findings.Add(code::kUsage, {},
                 "there is no importer `" + flags.format + "`",
                 "the importers are " + known);
    return kFailed;
  }
  SourceRef source = ReadSource(flags.file, findings);
  if (source == nullptr) return kFailed;
  const auto text =
      importer->run(std::move(source), common.format == "json", findings);
  if (!text || findings.HasErrors()) return kFailed;
  return PutResult(*text, flags.output, findings) ? kDone : kFailed;
}

}  // namespace

Run DeclareImport(CLI::App& app) {
  auto flags = std::make_shared<ImportFlags>();
  std::string formats;
  for (const Importer& importer : kImporters) {
    formats += (formats.empty() ? "" : "; ") + std::string(importer.name) +
               ": " + std::string(importer.what);
  }
  app.add_option("FORMAT", flags->format, formats)->required();
  app.add_option("FILE", flags->file, "file to read; - is standard input")
      ->required();
  app.add_option("-o,--output", flags->output,
                 "file to write (default: standard output)")
      ->type_name("FILE");
  return [flags](const Common& common, Findings& findings) {
    return RunImport(*flags, common, findings);
  };
}

}  // namespace shardc::cli
