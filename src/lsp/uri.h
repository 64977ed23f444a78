// Files as the protocol names them.
#ifndef SHARDC_LSP_URI_H_
#define SHARDC_LSP_URI_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc::lsp {

// "/a b" for "file:///a%20b"; nothing for what is no file of this machine.
std::optional<std::string> PathOfUri(std::string_view uri);
// The path is made absolute.
std::string UriOfPath(const std::string& path);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_URI_H_
