#include "lsp/documents.h"

#include <algorithm>
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
  document.file = FileIdOf(document.name());
  uris_[document.name()].insert(uri);
  open_.insert_or_assign(std::move(uri), std::move(document));
}

void Documents::Close(const std::string& uri) {
  const auto at = open_.find(uri);
  if (at == open_.end()) return;
  const auto named = uris_.find(at->second.name());
  named->second.erase(uri);
  if (named->second.empty()) uris_.erase(named);
  open_.erase(at);
}

void Documents::RefreshFiles() {
  for (auto& [uri, document] : open_) {
    document.file = FileIdOf(document.name());
  }
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
  const auto named = uris_.find(path);
  if (named != uris_.end()) return Find(*named->second.begin());
  const FileId file = FileIdOf(path);
  for (const auto& [uri, document] : open_) {
    if (!document.path.empty() && document.file == file) return &document;
  }
  return nullptr;
}

int64_t Documents::CountOf(const FileId& file) const {
  return std::count_if(open_.begin(), open_.end(), [&](const auto& one) {
    return one.second.file == file;
  });
}

FileTexts Documents::Texts() const {
  FileTexts out;
  for (const auto& [uri, document] : open_) {
    out[document.file] = document.text;
  }
  return out;
}

}  // namespace shardc::lsp
