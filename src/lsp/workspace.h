// Open documents and what checking them gave: the projects they are in, and
// those that no project reads, each by itself.
#ifndef SHARDC_LSP_WORKSPACE_H_
#define SHARDC_LSP_WORKSPACE_H_

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lsp/checker.h"
#include "lsp/context.h"
#include "lsp/documents.h"
#include "model/rules.h"
#include "resolve/resolve.h"
#include "source/finding.h"

namespace shardc::lsp {

// What a document's names mean, in a target that reads it or in the document
// alone. As of the last time that it could be told.
struct Reading {
  std::string target;                        // empty: alone
  std::shared_ptr<const Compiled> compiled;  // null: alone
  const RuleSet* rules = nullptr;            // never null
  const Resolver* resolver = nullptr;        // never null
  bool current = false;                      // of the texts as they are
};

class Workspace {
 public:
  explicit Workspace(Checker& checker) : checker_(checker) {}

  Documents& documents() { return documents_; }
  const Documents& documents() const { return documents_; }
  Checker& checker() const { return checker_; }

  // All that is open, as it is now.
  void Check();

  // What was found, by file (a document's name where it is no file).
  using FileFindings = std::map<std::string, std::vector<Finding>>;
  const FileFindings& found() const { return found_; }
  const FileTexts& texts() const { return texts_; }  // that were checked

  FileKind KindOf(const Document& document) const;
  // The projects that read a document.
  std::vector<const CheckedProject*> ProjectsOf(const Document& document) const;
  std::vector<Reading> ReadingsOf(const Document& document) const;

 private:
  // A document that no project reads.
  struct Alone {
    Findings findings;
    std::optional<RuleSet> rules;
    std::optional<Resolver> resolver;
  };
  struct Kept {  // a target that was compiled once
    std::shared_ptr<const Compiled> compiled;
    Findings reads;
  };

  void CheckProjects();
  void CheckAlone(const Document& document);
  bool IsOpen(const CheckedProject& project);
  void Keep(const CheckedProject& project);
  void Tell(Finding finding, const std::string& otherwise);

  Checker& checker_;
  Documents documents_;
  FileTexts texts_;
  FileFindings found_;
  std::map<std::string, CheckedProject> projects_;  // by path
  std::map<std::string, Alone> alone_;              // by uri
  // By project and target.
  std::map<std::string, std::map<std::string, Kept>> kept_;
  // Of documents; rules stay rules, as they are being typed.
  std::map<std::string, FileKind> kinds_;  // by uri
};

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_WORKSPACE_H_
