// Known findings that are accepted for now. They are identified by code and
// parameter, so a baseline stays valid when lines move.
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
  std::map<std::string, std::set<std::string>, std::less<>> known;  // by code

  void Add(const Finding& finding);
  // Removes known parameters from findings, and removes findings that have no
  // others. Returns the number of findings removed.
  int64_t Apply(std::vector<Finding>& findings) const;
  void Write(Sink& out) const;
};

std::optional<Baseline> ReadBaseline(const std::string& path,
                                     Findings& findings);

}  // namespace shardc

#endif  // SHARDC_LINT_BASELINE_H_
