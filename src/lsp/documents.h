// Stores the texts of the documents that are open in the editor.
#ifndef SHARDC_LSP_DOCUMENTS_H_
#define SHARDC_LSP_DOCUMENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "source/file_texts.h"

namespace shardc::lsp {

struct Document {
  std::string uri;   // as the editor spells it
  std::string path;  // empty if the URI names no file
  std::string text;
  std::optional<int64_t> version;
  // The file at `path` when the document was opened, or at the last
  // RefreshFiles().
  FileId file;

  // Returns the name by which findings refer to the document.
  const std::string& name() const { return path.empty() ? uri : path; }
};

class Documents {
 public:
  void Open(std::string uri, std::string text, std::optional<int64_t> version);
  void Close(const std::string& uri);
  // Sets Document::file of all documents again, because a file on disk may have
  // been replaced since the documents were opened.
  void RefreshFiles();

  Document* Find(const std::string& uri);
  const Document* Find(const std::string& uri) const;
  // Returns the document of the file at this path, even if the document's path
  // is spelt differently. Returns null if the file is not open.
  const Document* Showing(const std::string& path) const;
  const std::map<std::string, Document>& all() const { return open_; }

  // Returns the number of documents that show this file.
  int64_t CountOf(const FileId& file) const;

  // Returns the texts of all open documents, keyed by file. These texts are
  // read in place of the contents on disk.
  FileTexts Texts() const;

 private:
  std::map<std::string, Document> open_;  // keyed by URI
  // The URIs of open documents, keyed by Document::name(). Several URIs may
  // refer to the same file.
  std::map<std::string, std::set<std::string>> uris_;
};

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_DOCUMENTS_H_
