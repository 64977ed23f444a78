// Applies fixes to the texts of rules files: the fixes that change no spec and,
// on request, the fixes that change specs.
#ifndef SHARDC_CLI_FIXES_H_
#define SHARDC_CLI_FIXES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/check_targets.h"

namespace shardc::cli {

struct FixedFile {
  std::string name, before, after;
};

struct FixResult {
  std::vector<FixedFile> files;  // sorted by name
  int64_t made = 0;
  // The number of fixes that change specs. With FixRequest::unsafe these have
  // been made, otherwise they have not.
  int64_t unsafe = 0;
  // Whether the fixes are proven to change no spec for any names of parameters.
  bool proven = false;
  std::string changes;  // spec changes of the unsafe fixes, as text
};

struct FixRequest {
  std::vector<Target> checked;  // targets whose findings are fixed
  std::vector<Target> all;      // all targets of the project
  CheckOptions options;
  bool unsafe = false;  // whether to also make the fixes that change specs
};

// Makes the fixes of `checked`, the results of the targets `request.checked`.
// Fixes that change specs are made only with `request.unsafe`. Other fixes are
// safe: every target that compiles has the same specs with and without the fix,
// in every mode. If possible, this is proven for all names of parameters. The
// fixed texts are checked and fixed again until nothing is left to fix, at most
// ten times.
FixResult MakeFixes(std::span<const CheckedTarget> checked,
                    const FixRequest& request, const Selection& selection,
                    const Common& common);

bool IsSafe(const RuleFix& fix, std::span<const Target> targets,
            const InputFlags& inputs, const Common& common);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_FIXES_H_
