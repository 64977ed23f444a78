// Where a cursor stands in a text that is being typed, and so may be no YAML:
// told by lines and indentation alone.
#ifndef SHARDC_LSP_CONTEXT_H_
#define SHARDC_LSP_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardc::lsp {

enum class FileKind : uint8_t { kOther, kRules, kMesh, kProject };
// By the file's name and its keys; kOther is no file of this program.
FileKind KindOf(std::string_view path, std::string_view text);

struct Context {
  enum class At : uint8_t { kKey, kValue, kComment, kIgnore };
  At at = At::kKey;
  // The keys around the cursor, outermost first; in a value the last one is
  // the value's own.
  std::vector<std::string> keys;
  size_t begin = 0;           // of the word that ends at the cursor
  bool behind_colon = false;  // a value on the line of its key, not in a list

  bool In(std::initializer_list<std::string_view> path) const;
};

// `*` in a path of In() stands for any key.
Context ContextAt(std::string_view text, size_t offset);

// The name around an offset, of letters, digits and `_`; empty where none is.
struct Word {
  size_t begin = 0, end = 0;
};
Word WordAt(std::string_view text, size_t offset);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_CONTEXT_H_
