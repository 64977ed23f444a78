// Compares sessions of the server with testdata/tables/lsp.txt, which has the
// messages that a client sends and all that it receives. ProjectChecker
// replaces the checker of the room cli.
#include "lsp/server.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "lint/run.h"
#include "lsp/position.h"
#include "lsp/recover.h"
#include "parse/project.h"
#include "source/json_writer.h"
#include "tables.h"
#include "target/open.h"
#include "temporary_folder.h"

namespace shardc::lsp {
namespace {

// Checks a project as the program does, except for baselines and committed
// plans.
class ProjectChecker final : public Checker {
 public:
  bool AllowsOutside() const override { return false; }

  CheckedProject Check(const std::string& path,
                       const FileTexts& texts) override {
    Recovery recovery(texts);
    for (int reading = 1;; ++reading) {
      CheckedProject out = Read(path, recovery.texts());
      out.partial = recovery.any();
      if (reading == Recovery::kReadings ||
          !recovery.LeaveOut(out.findings, {path})) {
        if (recovery.any()) recovery.Finish(out.findings);
        return out;
      }
    }
  }
  bool IsSafe(const RuleFix& fix, const CheckedProject&) override {
    return fix.code->Id() != "SHD110";
  }
  std::vector<NewText> SafeFixes(const CheckedProject& project) override {
    std::vector<NewText> out;
    for (const CheckedTarget& target : project.targets) {
      for (const RuleFix& fix : target.fixes) {
        if (fix.by_hand) continue;
        out.push_back(
            {fix.source->name(), Fixed(fix.source->text(), {&fix, 1})});
      }
    }
    return out;
  }

 private:
  static CheckedProject Read(const std::string& path, const FileTexts& texts) {
    CheckedProject out;
    out.path = path;
    out.texts = texts;
    const auto project = ReadProject(path, out.findings, &texts, false);
    if (!project) return out;
    const auto selection = Selection::Make(project->lint, false, out.findings);
    if (!selection) return out;
    for (const Target& target : project->targets) {
      CheckedTarget& one = out.targets.emplace_back();
      one.target = target;
      OpenOptions options;
      options.held.texts = &texts;
      options.threads = 1;
      auto opened = OpenTarget(target, options, one.errors);
      if (opened) one.compiled = CompileTarget(std::move(*opened), one.errors);
      out.findings.Append(one.errors);
      if (one.compiled == nullptr) continue;
      LintInputs inputs;
      inputs.compiled = one.compiled.get();
      inputs.mesh_place = MeshPlace(target.mesh);
      Facts facts(inputs);
      LintResult lints = RunLints(facts, *selection);
      one.fixes = FixesOf(facts, lints.findings);
      for (Finding& finding : lints.findings) {
        finding.params.clear();
        out.findings.Add(std::move(finding));
      }
    }
    return out;
  }
};

constexpr std::pair<std::string_view, std::string_view> kFiles[] = {
    {"shardc.yaml", R"(version: 1
targets:
  small:
    mesh: mesh.yaml
    rules: [rules.yaml]
    manifest: manifest.json
)"},
    {"mesh.yaml", "axes: {dp: 2, fsdp: 4, tp: 2}\n"},
    {"rules.yaml", R"(version: 1
extends: [./base.yaml]
bundles:
  COLUMN: [FSDP, TP]
register:
  WIDE: {rule: [fsdp, tp]}
rules:
  - match: 'q_proj/kernel$'
    spec: COLUMN
  - match: 'mlp/up/kernel'
    spec: [FSDP, TP]
  - match: 'embed$'
    spec: [VOCAB, WIDE]
    note: 'of a table'
)"},
    {"base.yaml", R"(version: 1
axes: {vocab: [dp], decode_kv_head: []}
rules:
  - match: 'norm$'
    spec: [null]
  - match: 'up/kernel$'
    spec: [TP, FSDP]
)"},
    {"manifest.json", R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/q_proj/kernel": {"shape": [64, 64], "dtype": "BF16"},
  "layers/1/q_proj/kernel": {"shape": [64, 64], "dtype": "BF16"},
  "layers/0/mlp/up/kernel": {"shape": [64, 256], "dtype": "BF16"},
  "layers/1/mlp/up/kernel": {"shape": [64, 256], "dtype": "BF16"},
  "layers/0/norm": {"shape": [64], "dtype": "BF16"},
  "layers/1/norm": {"shape": [64], "dtype": "BF16"},
  "embed": {"shape": [512, 64], "dtype": "BF16"}}})"}};

// The order in which the files of a session are created. Most file systems
// number files in this order.
enum class FileOrder : uint8_t { kByName, kReversed };

// One client with its texts. Each line of a session has one of these forms:
//   open FILE
//   change FILE OLD => NEW     (the first OLD; as an edit of its range)
//   replace FILE               (the text of the part `new FILE`)
//   close FILE
//   METHOD FILE WORD [+N] [JSON members]   (at the WORD's Nth byte)
//   lines METHOD FILE FIRST LAST [JSON members]
//   send JSON
class Session {
 public:
  Session(const TableCase& given, FileOrder order)
      : given_(given), server_(checker_, "1.0") {
    for (const auto& [name, text] : kFiles) texts_[std::string(name)] = text;
    for (const TableCase::Part& part : given.parts) {
      if (part.name.starts_with("file ")) {
        texts_[part.name.substr(5)] = part.text;
      }
    }
    const auto write = [&](const auto& file) {
      folder_.Write(file.first, file.second);
    };
    if (order == FileOrder::kByName) {
      std::for_each(texts_.begin(), texts_.end(), write);
    } else {
      std::for_each(texts_.rbegin(), texts_.rend(), write);
    }
  }

  std::string Run() {
    const std::string capabilities = given_.Text("capabilities");
    Send(
        "\"id\": 0, \"method\": \"initialize\", \"params\": "
        "{\"capabilities\": " +
        (capabilities.empty() ? "{}" : capabilities) + "}");
    Send(R"("method": "initialized", "params": {})");
    // The messages with which every session begins are in the result only if
    // the case has a part `start`.
    const std::string start = Flush();
    if (given_.Find("start") != nullptr) out_ += start;
    std::istringstream lines(given_.Text("send"));
    for (std::string line; std::getline(lines, line);) {
      out_ += "> " + line + "\n";
      Do(line);
      out_ += Flush();
    }
    return out_;
  }

 private:
  std::string Uri(const std::string& name) { return UriOfPath(folder_ / name); }
  std::string DocumentOf(const std::string& name) {
    return "\"textDocument\": {\"uri\": " + JsonString(Uri(name)) + "}";
  }

  static std::string PositionAt(const std::string& text, size_t at) {
    int line = 0, character = 0;
    for (size_t i = 0; i < at; ++i) {
      ++character;
      if (text[i] != '\n') continue;
      ++line;
      character = 0;
    }
    return "{\"line\": " + std::to_string(line) +
           ", \"character\": " + std::to_string(character) + "}";
  }

  void Send(const std::string& members) {
    server_.Receive(Framed("{\"jsonrpc\": \"2.0\", " + members + "}"));
  }

  void Request(const std::string& method, const std::string& members) {
    Send("\"id\": " + std::to_string(++id_) + ", \"method\": \"textDocument/" +
         method + "\", \"params\": {" + members + "}");
  }

  void Change(const std::string& name, const std::string& range,
              const std::string& text) {
    Send(
        "\"method\": \"textDocument/didChange\", \"params\": {"
        "\"textDocument\": {\"uri\": " +
        JsonString(Uri(name)) + ", \"version\": " + std::to_string(++version_) +
        "}, \"contentChanges\": [{" + range + "\"text\": " + JsonString(text) +
        "}]}");
  }

  void Do(const std::string& line) {
    std::istringstream words(line);
    std::string verb, name;
    words >> verb >> name;
    std::string& text = texts_[name];
    const auto rest = [&] {
      std::string out;
      std::getline(words >> std::ws, out);
      return out;
    };
    if (verb == "open") {
      Send(
          "\"method\": \"textDocument/didOpen\", \"params\": {"
          "\"textDocument\": {\"uri\": " +
          JsonString(Uri(name)) + ", \"languageId\": \"yaml\", \"version\": " +
          std::to_string(++version_) + ", \"text\": " + JsonString(text) +
          "}}");
    } else if (verb == "close") {
      Send("\"method\": \"textDocument/didClose\", \"params\": {" +
           DocumentOf(name) + "}");
    } else if (verb == "replace") {
      text = given_.Text("new " + name);
      Change(name, "", text);
    } else if (verb == "change") {
      const std::string change = rest();
      const size_t arrow = change.find(" => ");
      const std::string old = change.substr(0, arrow);
      const std::string now = change.substr(arrow + 4);
      const size_t at = text.find(old);
      REQUIRE_MESSAGE(at != std::string::npos, line);
      const std::string range =
          "\"range\": {\"start\": " + PositionAt(text, at) +
          ", \"end\": " + PositionAt(text, at + old.size()) + "}, ";
      text.replace(at, old.size(), now);
      Change(name, range, now);
    } else if (verb == "send") {
      Send(line.substr(5));
    } else if (verb == "lines") {
      const std::string method = std::exchange(name, "");
      std::string first, last;
      words >> name >> first >> last;
      std::string more = rest();
      Request(method,
              DocumentOf(name) + ", \"range\": {\"start\": {\"line\": " +
                  first + ", \"character\": 0}, \"end\": {\"line\": " + last +
                  ", \"character\": 0}}" + (more.empty() ? "" : ", " + more));
    } else {
      std::string word;
      words >> word;
      size_t shift = 0;
      if ((words >> std::ws).peek() == '+') {
        words.get();
        words >> shift;
      }
      std::string more = rest();
      const size_t at = texts_[name].find(word);
      REQUIRE_MESSAGE(at != std::string::npos, line);
      Request(verb, DocumentOf(name) + ", \"position\": " +
                        PositionAt(texts_[name], at + shift) +
                        (more.empty() ? "" : ", " + more));
    }
  }

  // Returns the messages that the server sends, one per line, with short names
  // of files.
  std::string Flush() {
    while (server_.Step()) {
    }
    if (server_.HasEdits()) server_.CheckNow();
    FrameReader reader;
    reader.Feed(server_.TakeOutput());
    std::string out;
    while (const auto frame = reader.Next()) out += frame->body + "\n";
    for (const std::string& path : {Uri(""), folder_ / ""}) {
      for (size_t at; (at = out.find(path)) != std::string::npos;) {
        out.replace(at, path.size(), "");
      }
    }
    return out;
  }

  const TableCase& given_;
  TemporaryFolder folder_;
  ProjectChecker checker_;
  Server server_;
  std::map<std::string, std::string> texts_;
  int id_ = 0, version_ = 0;
  std::string out_;
};

TEST_CASE("sessions: what a client sends and gets") {
  CheckTable("lsp.txt", [](const TableCase& given) {
    const std::string out = Session(given, FileOrder::kByName).Run();
    CHECK(out == Session(given, FileOrder::kReversed).Run());
    return out;
  });
}

}  // namespace
}  // namespace shardc::lsp
