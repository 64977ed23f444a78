// Converts between paths and the URIs of the protocol.
#ifndef SHARDC_LSP_URI_H_
#define SHARDC_LSP_URI_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc::lsp {

// "/a b" for "file:///a%20b"; nullopt if it is not a file on this machine.
std::optional<std::string> PathOfUri(std::string_view uri);
// The path is made absolute.
std::string UriOfPath(const std::string& path);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_URI_H_
