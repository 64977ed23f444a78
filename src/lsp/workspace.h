// Stores the open documents of an editor and the results of the last checks. A
// check covers the projects that read an open document, and the open documents
// that no project reads.
#ifndef SHARDC_LSP_WORKSPACE_H_
#define SHARDC_LSP_WORKSPACE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lint/fix.h"
#include "lsp/position.h"
#include "model/project.h"
#include "model/rules.h"
#include "plan/compile.h"
#include "resolve/resolve.h"
#include "source/file.h"
#include "source/finding.h"

namespace shardc::lsp {

// The interface by which the language server checks a project. src/cli
// implements the interface, because src/lsp must not include headers of
// src/cli.

struct CheckedTarget {
  Target target;
  Findings errors;  // errors in reading the target's inputs
  std::shared_ptr<const Compiled> compiled;  // null if compiling failed
  std::vector<RuleFix> fixes;
};

struct CheckedProject {
  std::string path;   // the path of the project file
  Findings findings;  // the findings that `check` reports
  std::vector<CheckedTarget> targets;
  // Whether some entries of rules files had errors, and the targets were
  // checked without these entries.
  bool partial = false;
  // The texts of open files that were checked, in place of the contents on
  // disk. Entries that could not be read are replaced by blanks.
  FileTexts texts = {};
};

struct NewText {
  std::string path, text;
};

class Checker {
 public:
  virtual ~Checker() = default;

  // Returns whether a project may name files outside its repository.
  virtual bool AllowsOutside() const = 0;

  // Checks a project. `texts` are the texts of open files, which are read in
  // place of the files on disk.
  virtual CheckedProject Check(const std::string& project,
                               const FileTexts& texts) = 0;
  // Returns whether the fix changes no spec of the project's targets.
  virtual bool IsSafe(const RuleFix& fix, const CheckedProject& project) = 0;
  // Returns the changed files after applying fixes that together change no
  // spec. Returns an empty list if `project.partial` is true.
  virtual std::vector<NewText> SafeFixes(const CheckedProject& project) = 0;
};

// The rules and the resolver that give the names in a document their meaning.
// Both belong to a target that reads the document, or to the document alone. If
// the files of a target have errors, the rules and the resolver are from the
// last version of the files that compiled.
struct NameScope {
  std::string target;                        // empty without a target
  std::shared_ptr<const Compiled> compiled;  // null without a target
  const RuleSet* rules = nullptr;            // never null
  const Resolver* resolver = nullptr;        // never null
  bool current = false;  // whether the rules are from the current texts
  std::string project;   // path of the project file; empty if none
  // The target's entry in the project file; null without a target.
  const Target* of = nullptr;
};

class Workspace {
 public:
  explicit Workspace(Checker& checker) : checker_(checker) {}

  Documents& documents() { return documents_; }
  const Documents& documents() const { return documents_; }
  Checker& checker() const { return checker_; }

  // Checks all open documents in their current state.
  void Check();
  // Has the same result as Check if only the texts of these documents have
  // changed since the last check. Checks only the projects, and the documents
  // without a project, that read one of the changed documents. Keeps all other
  // results.
  void CheckChanges(const std::set<std::string>& uris);

  // Findings, keyed by the file's path or by the name of a document without a
  // file.
  using FileFindings = std::map<std::string, std::vector<Finding>>;
  const FileFindings& found() const { return found_; }
  // Returns the texts of the open documents, as of the last check.
  const FileTexts& texts() const { return texts_; }

  // Returns how many checks of documents and projects have run so far. Tests
  // use this to prove that an edit does not check everything.
  int64_t checks() const { return checks_; }

  FileKind KindOf(const Document& document) const;
  // Returns the projects that read a document.
  std::vector<const CheckedProject*> ProjectsOf(const Document& document) const;
  std::vector<NameScope> ScopesOf(const Document& document) const;
  // Returns the scopes of the targets that read one of these files, or whose
  // project file is one of them.
  std::vector<NameScope> ScopesReading(const std::set<FileId>& files) const;

 private:
  // A document that no project reads.
  struct LoneDocument {
    Findings findings;
    std::optional<RuleSet> rules;
    std::optional<Resolver> resolver;
  };
  // The result of the last successful compilation of a target.
  struct LastPlan {
    std::shared_ptr<const Compiled> compiled;
    Findings reads;
    Target target;
  };

  FileKind NewKindOf(const Document& document) const;
  void CheckProject(const std::string& path);
  void CheckAlone(const Document& document);
  void ReadRulesAlone(const Document& document, const FileTexts& texts,
                      LoneDocument& alone);
  void CheckThoseAlone(const std::set<FileId>& changed);
  void ReportAll();
  bool IsOpen(const CheckedProject& project);
  void Keep(const CheckedProject& project);
  void Report(Finding finding, const std::string& otherwise);

  Checker& checker_;
  Documents documents_;
  FileTexts texts_;
  FileFindings found_;
  // Keyed by the path of the project file.
  std::map<std::string, CheckedProject> projects_;
  // The open documents that no project reads, keyed by URI.
  std::map<std::string, LoneDocument> alone_;
  // Both maps are keyed by URI. `nearest_`: the path of the project file in the
  // document's folder or the nearest folder above, if there is one. `readers_`:
  // the paths of the projects that read the document.
  std::map<std::string, std::optional<std::string>> nearest_;
  std::map<std::string, std::set<std::string>> readers_;
  int64_t checks_ = 0;
  // The last plan of each target that compiled, keyed by project and target.
  std::map<std::string, std::map<std::string, LastPlan>> kept_;
  // The kind of each document. While a rules file is being typed, its kind does
  // not change.
  std::map<std::string, FileKind> kinds_;  // keyed by uri
};

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_WORKSPACE_H_
