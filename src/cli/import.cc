// `shardc import FORMAT FILE`: another system's configuration as ours.
// {"head_axis": "tp"} of eformer  ->  version: 1, axes: head: tp
#include <algorithm>

#include "cli/commands.h"
#include "cli/output.h"
#include "emit/plans/rules_file.h"
#include "importers/eformer.h"
#include "source/file.h"

namespace shardc::cli {
namespace {

struct ImportFlags {
  std::string format;
  std::string file;
  std::string output;
};

// What writes the import; empty where it failed.
Write ImportEformer(SourceRef source, bool json, Findings& findings) {
  const auto document = JsonDocument::Parse(std::move(source), findings);
  if (!document) return {};
  const auto axes = ImportEformerAxes(*document, findings);
  if (!axes) return {};
  return [axes, json](Sink& out) {
    if (json) {
      WriteAxesFileJson(*axes, out);
    } else {
      out.Append(AxesFileYaml(*axes));
    }
  };
}

// One line per system.
struct Importer {
  std::string_view name;
  std::string_view what;
  Write (*run)(SourceRef source, bool json, Findings& findings);
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
  const Write write =
      importer->run(std::move(source), common.format == "json", findings);
  if (!write || findings.HasErrors()) return kFailed;
  return PutResult(write, flags.output, findings) ? kDone : kFailed;
}

// "NAME: what it reads; ..."
std::string ImportersText() {
  std::string text;
  for (const Importer& importer : kImporters) {
    text += (text.empty() ? "" : "; ") + std::string(importer.name) + ": " +
            std::string(importer.what);
  }
  return text;
}

Options OptionsOf(ImportFlags& flags) {
  return {{.name = "FORMAT",
           .to = &flags.format,
           .help = ImportersText(),
           .required = true},
          {.name = "FILE",
           .to = &flags.file,
           .help = "file to read; - is standard input",
           .required = true},
          {.name = "--output",
           .to = &flags.output,
           .value = "FILE",
           .help = "file to write (default: standard output)",
           .letter = 'o'}};
}

}  // namespace

const Command kImport = {
    .name = "import",
    .summary = "read another system's configuration",
    .about = "Reads another system's rules and writes them as shardc-rules(5).",
    .example = "shardc import eformer partition_axis.json -o axes.yaml",
    .formats = "text|json",
    .declare = [] { return Declare(OptionsOf, RunImport); },
};

}  // namespace shardc::cli
