#include "lsp/documents.h"

#include <utility>

#include "lsp/uri.h"
#include "source/file.h"

namespace shardc::lsp {

void Documents::Open(std::string uri, std::string text,
                     std::optional<int64_t> version) {
  Document document;
  document.path = PathOfUri(uri).value_or("");
  document.text = std::move(text);
  document.version = version;
  document.uri = uri;
  open_.insert_or_assign(std::move(uri), std::move(document));
}

const Document* Documents::Find(const std::string& uri) const {
  const auto at = open_.find(uri);
  return at == open_.end() ? nullptr : &at->second;
}

Document* Documents::Find(const std::string& uri) {
  const auto at = open_.find(uri);
  return at == open_.end() ? nullptr : &at->second;
}

const Document* Documents::Showing(const std::string& path) const {
  for (const auto& [uri, document] : open_) {
    if (document.name() == path) return &document;
  }
  const FileId file = FileIdOf(path);
  for (const auto& [uri, document] : open_) {
    if (!document.path.empty() && FileIdOf(document.path) == file) {
      return &document;
    }
  }
  return nullptr;
}

FileTexts Documents::Texts() const {
  FileTexts out;
  for (const auto& [uri, document] : open_) {
    out[FileIdOf(document.name())] = document.text;
  }
  return out;
}

}  // namespace shardc::lsp
