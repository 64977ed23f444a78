#include "lsp/workspace.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "draws.h"
#include "source/file.h"
#include "temporary_folder.h"

namespace shardc::lsp {
namespace {

// A checker for projects with one target, which reads `rules.yaml` in the
// project's folder and, if that contains the word SHARED, `shared.yaml` in the
// parent folder.
class RulesOnly final : public Checker {
 public:
  bool AllowsOutside() const override { return true; }
  CheckedProject Check(const std::string& path,
                       const FileTexts& texts) override {
    checked.push_back(path);
    CheckedProject out{path, {}, {{}}};
    Findings& findings = out.targets[0].errors;
    Findings& shown = out.findings;
    const SourceRef rules =
        ReadSource(PathNextTo(path, "rules.yaml"), &texts, findings);
    if (rules == nullptr) return out;
    const size_t at = rules->text().find("SHARED");
    if (at != std::string_view::npos) {
      ReadSource(PathNextTo(path, "../shared.yaml"), &texts, findings);
      shown.Add(code::kUsage, {rules, at, at + 6}, "reads the shared rules");
    }
    return out;
  }
  bool IsSafe(const RuleFix&, const CheckedProject&) override { return false; }
  std::vector<NewText> SafeFixes(const CheckedProject&) override { return {}; }

  std::vector<std::string> checked;
};

std::string Rules(const std::string& pattern) {
  return "version: 1\nrules:\n  - {match: '" + pattern + "', spec: []}\n";
}

std::string Text(const Workspace::FileFindings& found) {
  std::string out;
  for (const auto& [name, findings] : found) {
    out += name + "\n";
    for (const Finding& finding : findings) {
      out += "  " + std::to_string(finding.place.begin) + " " +
             finding.message + "\n";
    }
  }
  return out;
}

TEST_CASE("workspace: an edit checks what reads the document, not all") {
  const TemporaryFolder folder;
  RulesOnly checker;
  Workspace workspace(checker);
  Documents& documents = workspace.documents();
  constexpr int kAlone = 1000, kProjects = 20;
  for (int i = 0; i < kAlone; ++i) {
    documents.Open("untitled:" + std::to_string(i), Rules("a"), 1);
  }
  for (int i = 0; i < kProjects; ++i) {
    const std::string at = "p" + std::to_string(i);
    std::filesystem::create_directory(folder / at);
    folder.Write(at + "/shardc.yaml", "targets: {}\n");
    documents.Open("file://" + folder.Write(at + "/rules.yaml", Rules("a")),
                   Rules("a"), 1);
  }
  workspace.Check();
  CHECK(workspace.checks() == kAlone + kProjects);
  documents.Find("untitled:7")->text = Rules("(");
  workspace.CheckChanges({"untitled:7"});
  CHECK(workspace.checks() == kAlone + kProjects + 1);
  CHECK(workspace.found().size() == 1);
  checker.checked.clear();
  const std::string uri = "file://" + (folder / "p3/rules.yaml");
  documents.Find(uri)->text = "# SHARED\n" + Rules("a");
  workspace.CheckChanges({uri});
  CHECK(checker.checked == std::vector{folder / "p3/shardc.yaml"});
  CHECK(workspace.checks() == kAlone + kProjects + 2);
  CHECK(workspace.found().size() == 2);
}

TEST_CASE("workspace: results after edits are those of a complete check") {
  const TemporaryFolder folder;
  RulesOnly checker;
  Workspace edited(checker), checked(checker);
  std::vector<std::string> uris;
  const std::string base = "version: 1\nextends: [";
  const std::vector<std::string> texts = {
      Rules("a"),
      Rules("("),
      "# SHARED\n" + Rules("b"),
      base + "alone0.yaml]\nrules: []\n",
      base + "alone1.yaml, none.yaml]\nrules: []\n",
      base + "../shared.yaml]\nrules: []\n",
      "axes: {tp: 2}\n",
      "version: 1\nrules: [",
      ""};
  const auto open = [&](const std::string& name) {
    uris.push_back("file://" + folder.Write(name, texts[0]));
    edited.documents().Open(uris.back(), texts[0], 1);
    checked.documents().Open(uris.back(), texts[0], 1);
  };
  for (const std::string at : {"p0", "p1", "q"}) {
    std::filesystem::create_directory(folder / at);
  }
  for (const std::string at : {"p0", "p1"}) {
    folder.Write(at + "/shardc.yaml", "targets: {}\n");
    open(at + "/rules.yaml");
    open(at + "/other.yaml");
  }
  open("shared.yaml");
  for (const char digit : {'0', '1', '2'}) {
    open(std::string("q/alone") + digit + ".yaml");
  }
  edited.Check();
  checked.Check();
  Draws draws(3);
  for (int round = 0; round < 400; ++round) {
    std::set<std::string> changed;
    for (uint64_t i = draws() % 3; i > 0; --i) {
      const std::string& uri = uris[draws() % uris.size()];
      const std::string& text = texts[draws() % texts.size()];
      edited.documents().Find(uri)->text = text;
      checked.documents().Find(uri)->text = text;
      changed.insert(uri);
    }
    edited.CheckChanges(changed);
    checked.Check();
    REQUIRE(Text(edited.found()) == Text(checked.found()));
    for (const std::string& uri : uris) {
      const Document& one = *edited.documents().Find(uri);
      const Document& other = *checked.documents().Find(uri);
      REQUIRE(edited.KindOf(one) == checked.KindOf(other));
      REQUIRE(edited.ProjectsOf(one).size() ==
              checked.ProjectsOf(other).size());
      REQUIRE(edited.ScopesOf(one).size() == checked.ScopesOf(other).size());
    }
  }
}

}  // namespace
}  // namespace shardc::lsp
