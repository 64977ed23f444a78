// Directory: importers/rules. Reads rules of other systems.
// Its files include headers of these directories: source, model, yaml, hlo,
// importers.
//
// Each format has an Importer, which a source file in this folder defines, and
// a line in table.h. If an importer cannot convert a part of a file, it reports
// this part and imports nothing.
#ifndef SHARDC_IMPORTERS_RULES_IMPORTER_H_
#define SHARDC_IMPORTERS_RULES_IMPORTER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "source/finding.h"
#include "source/source.h"
#include "yaml/yaml.h"

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

// Returns a pattern that matches the text literally, such as `a\.b` for `a.b`.
std::string Literal(std::string_view text);
// Returns the pattern `^name$` with the name escaped.
std::string EntireName(std::string_view name);

// Returns the value of a hexadecimal digit, or -1 for other characters.
int HexDigit(char c);

class Scan {
 public:
  // `place` is the place of `text` in a file. If `text` was read from a string
  // in quotes, `place` is the place of this string.
  Scan(std::string_view text, Place place) : text_(text), place_(place) {}

  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  size_t at() const { return at_; }
  void MoveTo(size_t at) { at_ = at; }
  void Blanks();
  // Skips blanks and then `word`. Returns false if other text follows the
  // blanks.
  bool Take(std::string_view word);
  // Moves past the next occurrence of `word`. Returns false if `word` does not
  // occur.
  bool Find(std::string_view word);
  std::optional<int64_t> Number();
  // Reads a string in quotes `'` or `"` and replaces its escapes. `\22` (two
  // hexadecimal digits) becomes the byte with this value. A backslash before
  // any other character is removed. Returns nullopt if no string follows, or if
  // the closing quote is missing.
  std::optional<std::string> Quoted();
  // Reads a word of the characters [A-Za-z0-9_.-]. Returns an empty text if the
  // next character is another one.
  std::string Word();
  std::string_view Since(size_t begin) const {
    return text_.substr(begin, at_ - begin);
  }

  // Adds a finding (foreign-syntax) at the cursor.
  void Refuse(const std::string& message, Findings& findings) const;
  Place PlaceOf(size_t begin, size_t end) const;

 private:
  std::string_view text_;
  Place place_;
  size_t at_ = 0;
};

// Returns the value of a key. Returns null if the node is not a mapping or does
// not contain the key.
const YamlNode* FindMember(const YamlNode& node, std::string_view key);

// Reads an axis, a list of axes, or null. Returns nullopt for other values.
std::optional<AxisGroup> ReadAxes(const YamlNode& node);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_IMPORTER_H_
