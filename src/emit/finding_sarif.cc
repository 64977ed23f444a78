// SARIF 2.1.0, as code scanning services read it: one run, every lint and
// reading code as a rule, relative paths, columns in code points, and
// fingerprints that survive a move of lines.
#include <map>

#include "emit/finding_formats.h"
#include "lint/lint.h"
#include "source/digest.h"
#include "source/wording.h"

namespace shardc {
namespace {

void Member(std::string& out, std::string_view key, std::string_view value) {
  AppendJsonString(out, key);
  out += ": ";
  AppendJsonString(out, value);
}

// `[text](1)` is a link in SARIF's messages.
std::string MessageText(std::string_view raw) {
  std::string text = Printable(raw);
  size_t at = text.find("](");
  while (at != std::string::npos) {
    text.insert(at, 1, '\\');
    at = text.find("](", at + 2);
  }
  return text;
}

// What may stand in a URI's path stays, the rest is percent-encoded.
std::string Uri(std::string_view path) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "-._~/!$&'()*+,;=@";
  std::string out = path.starts_with("/") ? "file://" : "";
  for (char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') ||
                       kPlain.find(c) != std::string_view::npos;
    if (plain) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c == '\\' ? '/' : c);
    if (byte == '/') {
      out += '/';
      continue;
    }
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

void AppendLocation(std::string& out, const Place& place,
                    std::string_view text) {
  out += "{\"physicalLocation\": {\"artifactLocation\": {";
  Member(out, "uri", Uri(place.source->name()));
  out += "}";
  if (place.HasPosition()) {
    const LineColumn begin = place.source->At(place.begin);
    out += ", \"region\": {\"startLine\": " + std::to_string(begin.line) +
           ", \"startColumn\": " + std::to_string(begin.column);
    if (place.end != Place::kWhole && place.end >= place.begin) {
      const LineColumn end = place.source->At(place.end);
      out += ", \"endLine\": " + std::to_string(end.line) +
             ", \"endColumn\": " + std::to_string(end.column);
    }
    out += "}";
  }
  out += "}";
  if (!text.empty()) {
    out += ", \"message\": {";
    Member(out, "text", MessageText(text));
    out += "}";
  }
  out += "}";
}

void AppendRule(std::string& out, const Code& code) {
  out += "{";
  Member(out, "id", code.Id());
  out += ", ";
  Member(out, "name", code.name);
  out += ", \"shortDescription\": {";
  Member(out, "text", MessageText(code.meaning));
  out += "}, ";
  if (const Lint* lint = FindLint(code)) {
    out += "\"fullDescription\": {";
    Member(out, "text", MessageText(lint->what));
    out += "}, \"help\": {";
    Member(
        out, "text",
        MessageText(std::string(lint->why) + " " + std::string(lint->instead)));
    out += "}, ";
  }
  out += "\"defaultConfiguration\": {";
  Member(out, "level", LevelName(code.level));
  out += "}}";
}

// By code, file and parameters, not by line; a repetition gets a number.
std::string Fingerprint(const Finding& finding,
                        std::map<std::string, int>& seen) {
  std::string text = finding.code->Id();
  if (finding.place.source != nullptr) {
    text += '\0' + finding.place.source->name();
  }
  for (const std::string& name : finding.params) text += '\0' + name;
  if (finding.params.empty()) text += '\0' + finding.message;
  const int count = seen[text]++;
  text += '\0' + std::to_string(count);
  return HexDigest("sha256", text).value_or(std::string());
}

void AppendResult(std::string& out, const Finding& finding, size_t rule,
                  const std::string& fingerprint) {
  out += "{";
  Member(out, "ruleId", finding.code->Id());
  out += ", \"ruleIndex\": " + std::to_string(rule) + ", ";
  Member(out, "level", LevelName(finding.level));
  out += ", \"message\": {";
  std::string text = MessageText(finding.message);
  if (!finding.help.empty()) text += "; help: " + MessageText(finding.help);
  Member(out, "text", text);
  out += "}";
  if (IsFile(finding.place)) {
    out += ", \"locations\": [";
    AppendLocation(out, finding.place, {});
    out += "]";
  }
  bool related = false;
  for (const Label& label : finding.labels) {
    if (!IsFile(label.place)) continue;
    out += related ? ", " : ", \"relatedLocations\": [";
    related = true;
    AppendLocation(out, label.place, label.text);
  }
  if (related) out += "]";
  out += ", \"partialFingerprints\": {";
  Member(out, "shardc/v1", fingerprint);
  out += "}}";
}

}  // namespace

std::string FindingsSarif(const FindingReport& report) {
  std::string out =
      "{\n  \"$schema\": "
      "\"https://json.schemastore.org/sarif-2.1.0.json\",\n"
      "  \"version\": \"2.1.0\",\n  \"runs\": [{\n"
      "    \"columnKind\": \"unicodeCodePoints\",\n"
      "    \"tool\": {\"driver\": {\"name\": \"shardc\", ";
  Member(out, "version", report.version);
  out += ", \"rules\": [";
  std::map<const Code*, size_t> index;
  for (const Code* code : AllCodes()) {
    out += index.empty() ? "\n      " : ",\n      ";
    index.emplace(code, index.size());
    AppendRule(out, *code);
  }
  out += "\n    ]}},\n    \"results\": [";
  std::map<std::string, int> seen;
  bool first = true;
  for (const Finding& finding : report.findings) {
    out += first ? "\n      " : ",\n      ";
    first = false;
    AppendResult(out, finding, index.at(finding.code),
                 Fingerprint(finding, seen));
  }
  out += first ? "]\n  }]\n}\n" : "\n    ]\n  }]\n}\n";
  return out;
}

}  // namespace shardc
