// The formats of findings: which there are, the plain JSON object of one
// finding, and the format with one line for each finding.
#include "emit/findings/formats.h"

#include <algorithm>
#include <array>
#include <optional>

#include "lint/rules/lint.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr std::array kFormats = {
#define SHARDC_FINDING_FORMAT(name, write, lists_names) \
  FindingFormat{name, write, lists_names},
#include "emit/findings/table.h"
#undef SHARDC_FINDING_FORMAT
};

}  // namespace

std::span<const FindingFormat> FindingFormats() { return kFormats; }

const FindingFormat* FindFindingFormat(std::string_view name) {
  const auto* at =
      std::find_if(kFormats.begin(), kFormats.end(),
                   [&](const FindingFormat& f) { return f.name == name; });
  return at == kFormats.end() ? nullptr : at;
}

void FindingsText(const FindingReport& report, Sink& out) {
  for (const Finding& finding : report.findings) {
    out.Append(FindingText(finding, report.style));
  }
}

void FindingsJson(const FindingReport& report, Sink& out) {
  JsonWriter json(out);
  WriteFindings(json, report.findings);
  out.Put('\n');
}

std::string MessageText(const Finding& finding) {
  const std::vector<std::string>& names = finding.targets;
  if (names.empty()) return finding.message;
  constexpr size_t kShown = 3;
  std::string list = Join(First(names, kShown), ", ", Quote);
  if (names.size() > kShown) {
    list += " and " + std::to_string(names.size() - kShown) + " more";
  }
  return finding.message + " (in target" + (names.size() == 1 ? " " : "s ") +
         list + ")";
}

std::string PlacedMessageText(const Finding& finding) {
  const std::string text = MessageText(finding);
  if (finding.place.source == nullptr || IsFile(finding.place)) return text;
  return finding.place.ToString() + ": " + text;
}

const Place& FilePlace(const Finding& finding) {
  return IsFile(finding.place) ? finding.place : finding.main_file;
}

bool IsFile(const Place& place) {
  if (place.source == nullptr) return false;
  const std::string& name = place.source->name();
  return !name.empty() && name[0] != '-' && name[0] != '<' &&
         !name.starts_with("builtin:") && !name.starts_with("config:");
}

namespace {

void WritePosition(JsonWriter& json, const Place& place) {
  LineColumn begin;
  LineColumn end;
  if (place.HasPosition()) {
    begin = place.source->At(place.begin);
    end = place.end == Place::kEntireFile ? begin : place.source->At(place.end);
  }
  const auto known = [](int number) {
    return number > 0 ? std::optional(number) : std::nullopt;
  };
  json.Members("file",
               place.source != nullptr ? std::optional(place.source->name())
                                       : std::nullopt,
               "line", known(begin.line), "column", known(begin.column),
               "end_line", known(end.line), "end_column", known(end.column));
}

}  // namespace

void WriteFinding(JsonWriter& json, const Finding& finding) {
  json.BeginObject();
  json.Members("code", finding.code->Id(), "name", finding.code->name, "level",
               LevelName(finding.level), "message", MessageText(finding));
  WritePosition(json, finding.place);
  json.Members("help", finding.help, "params", finding.params, "targets",
               Given(finding.targets));
  json.EndObject();
}

void WriteFindings(JsonWriter& json, std::span<const Finding> findings) {
  json.BeginArray(JsonLayout::kLines);
  for (const Finding& finding : findings) WriteFinding(json, finding);
  json.EndArray();
}

void FindingsConcise(const FindingReport& report, Sink& out) {
  for (const Finding& finding : report.findings) {
    const std::string place = Printable(finding.place.ToString());
    out.Append(place.empty() ? "shardc" : place);
    out.Append(": " + std::string(LevelName(finding.level)) + ": " +
               Printable(MessageText(finding)) + " [" + finding.code->Id() +
               "]\n");
  }
}

namespace {

std::string_view ExplanationOf(const Code& code) {
  const CodePage* page = FindPage(code);
  return page == nullptr ? "" : page->explanation();
}

bool IsPreview(const Code& code) {
  const Lint* lint = FindLint(code);
  return lint != nullptr && lint->preview;
}

void WriteCode(JsonWriter& json, const Code& code) {
  json.Block("code", code.Id(), "name", code.name, "level",
             LevelName(code.level), "preview", IsPreview(code), "meaning",
             code.meaning, "explanation", ExplanationOf(code));
}

}  // namespace

const CodePage* FindPage(const Code& code) {
  for (const CodePage& page : CodePages()) {
    if (page.number == code.number) return &page;
  }
  return nullptr;
}

std::optional<std::string> ExplainCode(std::string_view text) {
  const Code* code = FindCode(text);
  if (code == nullptr) return std::nullopt;
  return code->Id() + " " + std::string(code->name) + " (" +
         std::string(LevelName(code->level)) +
         "): " + std::string(code->meaning) + "\n\n" +
         std::string(ExplanationOf(*code));
}

void WriteCodeJson(std::string_view text, Sink& out) {
  const Code* code = FindCode(text);
  if (code == nullptr) return;
  JsonWriter json(out);
  WriteCode(json, *code);
  out.Put('\n');
}

void WriteCodesJson(Sink& out) {
  JsonWriter json(out);
  json.BeginArray(JsonLayout::kLines);
  for (const Code* code : AllCodes()) WriteCode(json, *code);
  json.EndArray();
  out.Put('\n');
}

std::string CodesMarkdown() {
  std::string out = "| code | name | level | meaning |\n|---|---|---|---|\n";
  for (const Code* code : AllCodes()) {
    out += "| " + code->Id() + " | " + std::string(code->name) + " | " +
           std::string(LevelName(code->level)) +
           (IsPreview(*code) ? ", preview" : "") + " | " +
           std::string(code->meaning) + " |\n";
  }
  return out;
}

}  // namespace shardc
