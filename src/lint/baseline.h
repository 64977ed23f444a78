// Reads, writes and applies baselines. A baseline lists known findings that
// `check` accepts for now. A finding is identified by its code and parameter
// and not by its line, so a baseline stays valid if lines move.
#ifndef SHARDC_LINT_BASELINE_H_
#define SHARDC_LINT_BASELINE_H_

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "lint/rules/lint.h"
#include "source/sink.h"

namespace shardc {

// The content of a baseline file:
//   {"schema": "shardc.baseline/v1", "findings": {"SHD202": ["layers.*.up"]}}
struct Baseline {
  // The known names, keyed by code.
  std::map<std::string, std::set<std::string>, std::less<>> known;

  void Add(const Finding& finding);
  // Removes known parameters from findings, and removes findings whose
  // parameters are all known. Returns the number of removed findings.
  int64_t Apply(std::vector<Finding>& findings) const;
  void Write(Sink& out) const;
};

std::optional<Baseline> ReadBaseline(const std::string& path,
                                     Findings& findings);

}  // namespace shardc

#endif  // SHARDC_LINT_BASELINE_H_
