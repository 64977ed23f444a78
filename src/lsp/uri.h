// Converts between paths and the URIs by which LSP names files.
#ifndef SHARDC_LSP_URI_H_
#define SHARDC_LSP_URI_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc::lsp {

// Returns "/a b" for "file:///a%20b"; nullopt if the URI does not name a file
// on this machine.
std::optional<std::string> PathOfUri(std::string_view uri);
// Returns the URI of a path. A relative path is made absolute first.
std::string UriOfPath(const std::string& path);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_URI_H_
