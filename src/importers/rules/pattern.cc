#include "importers/rules/pattern.h"

namespace shardc::imports {
namespace {

bool IsSpecial(char c) {
  return std::string_view("\\.+*?()|[]{}^$").find(c) != std::string_view::npos;
}

}  // namespace

std::string Literal(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (IsSpecial(c)) out += '\\';
    out += c;
  }
  return out;
}

std::string EntireName(std::string_view name) {
  return "^" + Literal(name) + "$";
}

}  // namespace shardc::imports
