// Writes findings as SARIF 2.1.0 for code scanning services. The file has one
// run. The rules of the run are the diagnostic codes, such as SHD101. Paths
// start at the root of the repository, columns count code points, and
// fingerprints do not change when lines move. GitHub rejects a file that has a
// result without a location. A finding without a place, for example about the
// mesh of `--mesh`, therefore gets a file of its target as location: the
// project file, or else the manifest, the mesh file or the rules file.
#include <map>

#include "emit/findings/formats.h"
#include "lint/rules/lint.h"
#include "source/digest.h"
#include "source/json_writer.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Escapes the text of a message. A text such as `[text](1)` would otherwise be
// a link in SARIF.
std::string Escaped(std::string_view raw) {
  std::string text = Printable(raw);
  size_t at = text.find("](");
  while (at != std::string::npos) {
    text.insert(at, 1, '\\');
    at = text.find("](", at + 2);
  }
  return text;
}

// Percent-encodes all characters that are not allowed in the path of a URI.
std::string Uri(std::string_view path) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "-._~/!$&'()*+,;=@";
  std::string out = path.starts_with("/") ? "file://" : "";
  for (char c : path) {
    const bool plain =
        IsLetter(c) || IsDigit(c) || kPlain.find(c) != std::string_view::npos;
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

void WriteText(JsonWriter& json, std::string_view key, std::string_view text) {
  json.Member(key, Record("text", Escaped(text)));
}

void WriteRegion(JsonWriter& json, const Place& place) {
  const LineColumn begin = place.source->At(place.begin);
  json.Key("region");
  json.BeginObject();
  json.Members("startLine", begin.line, "startColumn", begin.column);
  if (place.end != Place::kEntireFile && place.end >= place.begin) {
    const LineColumn end = place.source->At(place.end);
    json.Members("endLine", end.line, "endColumn", end.column);
  }
  json.EndObject();
}

void WriteLocation(JsonWriter& json, const Repository& repository,
                   const Place& place, std::string_view text) {
  json.BeginObject();
  json.Key("physicalLocation");
  json.BeginObject();
  json.Member("artifactLocation",
              Record("uri", Uri(repository.PathOf(place.source->name()))));
  if (place.HasPosition()) WriteRegion(json, place);
  json.EndObject();
  if (!text.empty()) WriteText(json, "message", text);
  json.EndObject();
}

void WriteRule(JsonWriter& json, const Code& code) {
  json.BeginObject();
  json.Members("id", code.Id(), "name", code.name);
  WriteText(json, "shortDescription", code.meaning);
  if (const CodePage* page = FindPage(code); page && code.number > 99) {
    WriteText(json, "fullDescription", page->what());
    WriteText(json, "help",
              std::string(page->why()) + " " + std::string(page->fix()));
  }
  json.Member("defaultConfiguration", Record("level", LevelName(code.level)));
  json.EndObject();
}

// Returns a hash that identifies a finding in later runs. The hash includes the
// code, the file and the names of the affected parameters of the model. If no
// parameters are affected, it includes the message. It does not include the
// line. If an earlier finding has the same values, a number is hashed as well.
std::string Fingerprint(const FindingReport& report, const Finding& finding,
                        std::map<std::string, int>& seen) {
  std::string text = finding.code->Id();
  if (const SourceRef& source = finding.place.source) {
    text +=
        '\0' + (IsFile(finding.place) ? report.repository.PathOf(source->name())
                                      : source->name());
  }
  for (const std::string& name : finding.params) text += '\0' + name;
  if (finding.params.empty()) text += '\0' + MessageText(finding);
  const int count = seen[text]++;
  text += '\0' + std::to_string(count);
  return Sha256(text);
}

void WriteResult(JsonWriter& json, const Repository& repository,
                 const Finding& finding, size_t rule,
                 const std::string& fingerprint) {
  json.BeginObject();
  json.Members("ruleId", finding.code->Id(), "ruleIndex", rule, "level",
               LevelName(finding.level));
  json.Key("message");
  json.BeginObject();
  std::string text = Escaped(PlacedMessageText(finding));
  if (!finding.help.empty()) text += "; help: " + Escaped(finding.help);
  json.Member("text", text);
  json.EndObject();
  if (const Place& place = FilePlace(finding); place.source != nullptr) {
    json.Key("locations");
    json.BeginArray();
    WriteLocation(json, repository, place, {});
    json.EndArray();
  }
  bool related = false;
  for (const Label& label : finding.labels) {
    if (!IsFile(label.place)) continue;
    if (!related) {
      json.Key("relatedLocations");
      json.BeginArray();
    }
    related = true;
    WriteLocation(json, repository, label.place, label.text);
  }
  if (related) json.EndArray();
  json.Member("partialFingerprints", Record("shardc/v1", fingerprint));
  if (!finding.targets.empty()) {
    json.Member("properties", Record("targets", finding.targets));
  }
  json.EndObject();
}

// Writes the member `tool`. Returns the index of each code in its `rules`.
std::map<const Code*, size_t> WriteTool(JsonWriter& json,
                                        std::string_view version) {
  std::map<const Code*, size_t> index;
  json.Key("tool");
  json.BeginObject();
  json.Key("driver");
  json.BeginObject();
  json.Members("name", "shardc", "version", version);
  json.Key("rules");
  json.BeginArray(JsonLayout::kLines);
  for (const Code* code : AllCodes()) {
    index.emplace(code, index.size());
    WriteRule(json, *code);
  }
  json.EndArray();
  json.EndObject();
  json.EndObject();
  return index;
}

}  // namespace

void FindingsSarif(const FindingReport& report, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Members("$schema", "https://json.schemastore.org/sarif-2.1.0.json",
               "version", "2.1.0");
  json.Key("runs");
  json.BeginArray();
  json.BeginObject(JsonLayout::kLines);
  json.Member("columnKind", "unicodeCodePoints");
  const auto index = WriteTool(json, report.version);
  json.Key("results");
  json.BeginArray(JsonLayout::kLines);
  std::map<std::string, int> seen;
  for (const Finding& finding : report.findings) {
    WriteResult(json, report.repository, finding, index.at(finding.code),
                Fingerprint(report, finding, seen));
  }
  json.EndArray();
  json.EndObject();
  json.EndArray();
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
