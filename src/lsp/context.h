// Finds where a cursor is in a YAML text: the keys above it, and whether it is
// in a key, a value or a comment. The text is being typed and may not be valid
// YAML, so it is not parsed: lines, indentation, quotes and brackets are
// enough.
#ifndef SHARDC_LSP_CONTEXT_H_
#define SHARDC_LSP_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardc::lsp {

enum class FileKind : uint8_t { kOther, kRules, kMesh, kProject };
// Returns the kind of a file. It is found from the file's name, from a comment
// that names the schema (`$schema=rules.schema.json`), and from the keys.
// Returns kOther if the file does not look like a file of shardc.
FileKind KindOf(std::string_view path, std::string_view text);

struct Context {
  enum class At : uint8_t { kKey, kValue, kComment, kIgnore };
  At at = At::kKey;
  // The keys above the cursor, the outermost first. If the cursor is in a
  // value, the last key is the key of this value.
  std::vector<std::string> keys;
  size_t begin = 0;  // offset where the word before the cursor begins
  // Whether the cursor is in a value that follows its key on the same line and
  // is not in a list.
  bool behind_colon = false;

  // Returns whether `keys` equals the path. `*` in the path matches any key.
  bool In(std::initializer_list<std::string_view> path) const;
};

// Returns the context at an offset in bytes.
Context ContextAt(std::string_view text, size_t offset);

// A range of bytes. WordAt returns the name around an offset, with the
// characters that a mesh axis may have: letters, digits, `_`, `-` and `.`. The
// range is empty if there is no name.
struct Word {
  size_t begin = 0, end = 0;
};
Word WordAt(std::string_view text, size_t offset);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_CONTEXT_H_
