#include "lsp/uri.h"

#include <filesystem>

namespace shardc::lsp {
namespace {

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') ||
         std::string_view("-._~/").find(c) != std::string_view::npos;
}

}  // namespace

std::optional<std::string> PathOfUri(std::string_view uri) {
  constexpr std::string_view kScheme = "file://";
  constexpr std::string_view kHost = "localhost";
  if (!uri.starts_with(kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  if (uri.starts_with(kHost)) uri.remove_prefix(kHost.size());
  if (!uri.starts_with('/')) return std::nullopt;
  std::string path;
  for (size_t i = 0; i < uri.size(); ++i) {
    if (uri[i] != '%') {
      path += uri[i];
      continue;
    }
    if (i + 2 >= uri.size()) return std::nullopt;
    const int high = Digit(uri[i + 1]);
    const int low = Digit(uri[i + 2]);
    if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
    path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return path;
}

std::string UriOfPath(const std::string& path) {
  std::error_code error;
  const auto whole = std::filesystem::absolute(path, error);
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "file://";
  for (const char c : (error ? path : whole.lexically_normal().string())) {
    if (IsPlain(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 0xF];
  }
  return out;
}

}  // namespace shardc::lsp
