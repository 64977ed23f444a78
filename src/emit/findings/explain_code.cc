// Prints the explanation of a diagnostic code. For a lint, the texts are in the
// record of the lint. For any other code, they are in a CodePage
// (pages/page.h). The texts become paragraphs of 76 columns under headings, and
// the examples are indented. For example, the first line and the headings for
// two codes are:
//
//   SHD110  ->  SHD110 unanchored-pattern (warning): a pattern also matches ...
//               What it does, Why that is bad, Example, What to write instead
//   SHD020  ->  SHD020 duplicate-key (error): a key or name is given twice
//               What it means, Why that is bad, How to fix it, Example, Fixed
#include "emit/findings/explain_code.h"

#include <algorithm>
#include <vector>

#include "emit/findings/pages/page.h"
#include "lint/rules/lint.h"
#include "source/audit_code.h"
#include "source/json_writer.h"

namespace shardc {
namespace {

constexpr size_t kWidth = 76;

void Wrap(std::string& out, std::string_view text) {
  size_t column = 0;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    if (column > 0 && column + 1 + word.size() > kWidth) {
      out += '\n';
      column = 0;
    }
    if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  out += '\n';
}

void Indented(std::string& out, std::string_view title, std::string_view text) {
  if (text.empty()) return;
  out += "  " + std::string(title) + ":\n";
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) out += "    " + std::string(text.substr(0, end));
    out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void Numbers(std::string& out, const LintExample& example) {
  const auto one = [&](std::string_view name, int64_t value) {
    if (value != 0) {
      out += "  " + std::string(name) + ": " + std::to_string(value) + "\n";
    }
  };
  one("batch", example.batch);
  one("kv_len", example.kv_len);
  one("memory in bytes", example.memory_bytes);
}

void Example(std::string& out, const LintExample& example) {
  Indented(out, "mesh", example.mesh);
  Indented(out, "rules", example.rules);
  Indented(out, "manifest", example.manifest);
  Indented(out, "config.json", example.model);
  Indented(out, "committed plan", example.locked);
  Indented(out, "target", example.target);
  Numbers(out, example);
}

// Appends the text of a shell session. A file's text is printed below its name,
// and commands are printed with their output below `command:`.
void Session(std::string& out, std::string_view text) {
  bool in_command = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("--- ")) {
      out += "  " + std::string(line.substr(4)) + ":\n";
      in_command = false;
      continue;
    }
    if (line.starts_with("$ ")) {
      if (!in_command) out += "  command:\n";
      in_command = true;
      line.remove_prefix(2);
    }
    out += "    " + std::string(line) + "\n";
  }
}

void Page(std::string& out, const CodePage& page) {
  out += "\nWhat it means\n";
  Wrap(out, page.what);
  out += "\nWhy that is bad\n";
  Wrap(out, page.why);
  out += "\nHow to fix it\n";
  Wrap(out, page.fix);
  out += "\n";
  Wrap(out, page.code->number < 100
                ? "An input error cannot be ignored or given another level: "
                  "the command ends with exit status 2."
            : page.code->number < 600
                ? "The command that reports it ends with exit status 1."
            : page.code == &code::kOverAuditBudget ||
                    page.code == &code::kTrafficGrew
                ? "`shardc check --ignore` leaves the finding out."
                : "`shardc audit --ignore` leaves the finding out.");
  out += "\nExample\n";
  Session(out, page.bad);
  out += "\nFixed\n";
  Session(out, page.good);
}

std::string Head(const Code& code) {
  return code.Id() + " " + std::string(code.name) + " (" +
         std::string(LevelName(code.level)) +
         "): " + std::string(code.meaning) + "\n";
}

// Returns the explanation without its first line, which Head() returns. The
// text begins with an empty line. Returns an empty text for a code without an
// explanation.
std::string Body(const Code& code) {
  std::string out;
  const Lint* lint = FindLint(code);
  if (lint == nullptr) {
    if (const CodePage* page = FindPage(code)) Page(out, *page);
    return out;
  }
  if (lint->preview) {
    out += "\n";
    Wrap(out,
         "In preview: it runs with --preview, or when its code or name is "
         "selected.");
  }
  out += "\nWhat it does\n";
  Wrap(out, lint->what);
  out += "\nWhy that is bad\n";
  Wrap(out, lint->why);
  out += "\nExample\n";
  Example(out, lint->bad);
  out += "\nWhat to write instead\n";
  Wrap(out, lint->instead);
  Example(out, lint->good);
  return out;
}

bool IsPreview(const Code& code) {
  const Lint* lint = FindLint(code);
  return lint != nullptr && lint->preview;
}

void WriteCode(JsonWriter& json, const Code& code) {
  const std::string body = Body(code);
  json.BeginObject(JsonLayout::kLines);
  json.Member("code", code.Id());
  json.Member("name", code.name);
  json.Member("level", LevelName(code.level));
  json.Member("preview", IsPreview(code));
  json.Member("meaning", code.meaning);
  json.Member("explanation", body.substr(std::min<size_t>(1, body.size())));
  json.EndObject();
}

}  // namespace

std::optional<std::string> ExplainCode(std::string_view text) {
  const Code* code = FindCode(text);
  if (code == nullptr) return std::nullopt;
  return Head(*code) + Body(*code);
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
