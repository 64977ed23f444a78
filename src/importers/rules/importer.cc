// What all importers of rules share: their list, a cursor over texts, patterns
// of names, and the mesh axes that YAML files name.
#include "importers/rules/importer.h"

#include <algorithm>
#include <array>

#include "source/utf8.h"

namespace shardc::imports {
namespace {

constexpr std::array kImporters = {
#define SHARDC_IMPORT(name) &name,
#include "importers/rules/table.h"
#undef SHARDC_IMPORT
};

}  // namespace

std::span<const Importer* const> Importers() { return kImporters; }

const Importer* FindImporter(std::string_view name) {
  const auto* at =
      std::find_if(kImporters.begin(), kImporters.end(),
                   [&](const Importer* i) { return i->name == name; });
  return at == kImporters.end() ? nullptr : *at;
}

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

// Reads a text in another system's syntax from left to right. If the expected
// text does not follow, Take returns false and has skipped only blanks. For
// example, these calls read the start of `devices=[4,1]`:
//
//   Take("devices=[")  ->  true     Number()  ->  4     Take("]")  ->  false

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

void Scan::Blanks() {
  while (!AtEnd() && (text_[at_] == ' ' || text_[at_] == '\n' ||
                      text_[at_] == '\t' || text_[at_] == '\r')) {
    ++at_;
  }
}

bool Scan::Take(std::string_view word) {
  Blanks();
  if (!text_.substr(at_).starts_with(word)) return false;
  at_ += word.size();
  return true;
}

bool Scan::Find(std::string_view word) {
  const size_t found = text_.find(word, at_);
  if (found == std::string_view::npos) return false;
  at_ = found + word.size();
  return true;
}

std::optional<int64_t> Scan::Number() {
  Blanks();
  int64_t value = 0;
  const size_t begin = at_;
  while (Peek() >= '0' && Peek() <= '9') {
    if (value > (INT64_MAX - 9) / 10) return std::nullopt;
    value = value * 10 + (text_[at_++] - '0');
  }
  if (at_ == begin) return std::nullopt;
  return value;
}

std::optional<std::string> Scan::Quoted() {
  Blanks();
  const char quote = Peek();
  if (quote != '"' && quote != '\'') return std::nullopt;
  std::string out;
  for (++at_; !AtEnd() && text_[at_] != quote; ++at_) {
    if (text_[at_] != '\\' || at_ + 1 >= text_.size()) {
      out += text_[at_];
      continue;
    }
    const int high = HexDigit(text_[at_ + 1]);
    const int low = at_ + 2 < text_.size() ? HexDigit(text_[at_ + 2]) : -1;
    if (high >= 0 && low >= 0) {
      out += static_cast<char>(high * 16 + low);
      at_ += 2;
    } else {
      out += text_[++at_];
    }
  }
  if (AtEnd()) return std::nullopt;
  ++at_;
  return out;
}

std::string Scan::Word() {
  Blanks();
  const size_t begin = at_;
  while (!AtEnd()) {
    const char c = text_[at_];
    const bool part = IsWordByte(c) || c == '.' || c == '-';
    if (!part) break;
    ++at_;
  }
  return std::string(Since(begin));
}

Place Scan::PlaceOf(size_t begin, size_t end) const {
  if (!place_.HasPosition() || place_.end - place_.begin != text_.size()) {
    return place_;
  }
  return {place_.source, place_.begin + begin, place_.begin + end};
}

void Scan::Refuse(const std::string& message, Findings& findings) const {
  const size_t begin = std::min(at_, text_.size());
  findings.Add(code::kForeignSyntax,
               PlaceOf(begin, std::min(begin + 1, text_.size())), message);
}

const YamlNode* FindMember(const YamlNode& node, std::string_view key) {
  for (const YamlMember& member : node.members) {
    if (member.key.text == key) return &member.value;
  }
  return nullptr;
}

std::optional<AxisGroup> ReadAxes(const YamlNode& node) {
  AxisGroup axes;
  if (node.IsNull()) return axes;
  if (node.IsScalar()) {
    if (!node.text.empty()) axes.push_back(node.text);
    return axes;
  }
  if (!node.IsSequence()) return std::nullopt;
  for (const YamlNode& axis : node.items) {
    if (!axis.IsScalar()) return std::nullopt;
    axes.push_back(axis.text);
  }
  return axes;
}

}  // namespace shardc::imports
