#include "emit/findings/explain_code.h"

#include "lint/rules/lint.h"
#include "source/json_writer.h"

namespace shardc {
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
