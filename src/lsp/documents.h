// The texts that an editor has open.
#ifndef SHARDC_LSP_DOCUMENTS_H_
#define SHARDC_LSP_DOCUMENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lsp/position.h"
#include "source/file_texts.h"

namespace shardc::lsp {

struct Document {
  std::string uri;   // as the editor writes it
  std::string path;  // empty: no file
  std::string text;
  std::optional<int64_t> version;

  // What findings call it.
  const std::string& name() const { return path.empty() ? uri : path; }
};

// The part of a text that becomes another; nothing: all of it.
struct Change {
  std::optional<Range> range;
  std::string text;
};

class Documents {
 public:
  void Open(std::string uri, std::string text, std::optional<int64_t> version);
  void Close(const std::string& uri) { open_.erase(uri); }

  Document* Find(const std::string& uri);
  const Document* Find(const std::string& uri) const;
  // The one that shows this file, however it is named; null where none does.
  const Document* Showing(const std::string& path) const;
  const std::map<std::string, Document>& all() const { return open_; }

  // All of them, in place of what files hold.
  FileTexts Texts() const;

 private:
  std::map<std::string, Document> open_;  // by uri
};

void Apply(const Change& change, Encoding encoding, std::string& text);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_DOCUMENTS_H_
