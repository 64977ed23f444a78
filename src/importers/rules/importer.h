// Directory: importers/rules. Reads rules of other systems.
// Its files include headers of these directories: source, model, yaml, hlo,
// importers.
//
// Each format has an Importer, which a source file in this folder defines, and
// a line in table.h. If an importer cannot convert a part of a file, it reports
// this part and imports nothing.
#ifndef SHARDC_IMPORTERS_RULES_IMPORTER_H_
#define SHARDC_IMPORTERS_RULES_IMPORTER_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/imported.h"
#include "model/manifest.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc::imports {

struct Request {
  SourceRef source;
  // `--symbol`: selects one of a file's plans. Empty if the flag is not given.
  std::string symbol;
  // `--names`: the file with the logical names of the parameters' dimensions;
  // null if the flag is not given.
  SourceRef names;
  std::optional<Mesh> mesh;  // mesh of the flag `--mesh`, if given
  // `--axis`: the mesh axis over which a tensor parallel plan shards. Empty if
  // the flag is not given.
  std::string axis;
  // `--contiguous`: whether weights that hold two matrices are sharded in one
  // range for each device, where the source shards each matrix.
  bool contiguous = false;
  // `--manifest`: the parameters to which the rules apply; null if the flag is
  // not given.
  const Manifest* manifest = nullptr;
};

struct Importer {
  std::string_view name;
  std::string_view what;   // description in lower case, for lists of formats
  std::string_view flags;  // flags that not all formats have, e.g. "--axis"
  std::optional<Imported> (*read)(const Request& request, Findings& findings);
};

#define SHARDC_IMPORT(name) extern const Importer name;
#include "importers/rules/table.h"
#undef SHARDC_IMPORT

// Returns all importers, in the order of table.h.
std::span<const Importer* const> Importers();
const Importer* FindImporter(std::string_view name);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_IMPORTER_H_
