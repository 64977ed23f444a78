// Directory: verify. Runs selected cases on the simulated mesh and reports
// their verdicts.
// Its files include headers of these directories: source, exec/machine,
// verify/cases, verify/judge, verify/traces.
//
// The results of a run, in the order of its cases.
#ifndef SHARDC_VERIFY_REPORT_H_
#define SHARDC_VERIFY_REPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "exec/machine/machine.h"
#include "verify/cases/case.h"
#include "verify/cases/matrix.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {

// The result of comparing the specs of an attention projection with the axes
// over which the axis rules shard heads.
struct Projection {
  // Name of the parameter, with `*` for layer and expert numbers.
  std::string parameter;
  int64_t count = 0;  // number of parameters that have this name
  std::string role;   // "query", "key", "value" or "output"; "" if unknown
  // Place of the rule, such as "rules.yaml:12"; may be empty.
  std::string place;
  // kUnsupported if the specs cannot be compared with the axis rules of heads,
  // for example because one parameter holds query, key and value.
  Status status = Status::kPass;
  std::vector<Mode> modes;
  std::string reason, help;  // empty for kPass
};

struct Report {
  uint64_t seed = 0;
  Sizes given, used;
  bool reduced = false;
  std::vector<std::string> remarks;  // remarks on the whole run
  std::vector<Case> cases;
  std::vector<CaseResult> results;
  // The results for the attention projections of the manifest (the list of the
  // model's parameters); empty without a manifest.
  std::vector<Projection> projections;

  // Returns the number of cases with this status; projections are not counted.
  int64_t Count(Status status) const;
  bool NothingRan() const;
};

// A function that is called after each case with the number of finished cases
// and the number of all cases. During a large case it is also called with the
// case's stage. Calls are never concurrent.
using Progress =
    std::function<void(size_t done, size_t all, const std::string& within)>;
// A function that is called with each case when its result is known, in any
// order. Calls are never concurrent.
using Keep =
    std::function<void(size_t index, const Case& test, const CaseResult& result,
                       const CaseTensors& tensors)>;

// Runs all cases on `threads` threads, then the variants (cases with one more
// feature) and the stress cases. Variants run for all cases if features were
// requested by name, else only for cases that ran. The result does not depend
// on `threads`. With several ranks, cases run one after the other, and only the
// first rank's report is complete.
Report RunMatrix(const Request& request, Matrix matrix, int threads,
                 const Progress& progress = {}, const Keep& keep = {},
                 exec::Transport* transport = nullptr);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_REPORT_H_
