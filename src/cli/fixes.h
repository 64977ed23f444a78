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
  // Fixes that change specs: all that were made, or else those that are left.
  int64_t unsafe = 0;
  bool proven = false;  // no fix changes a spec, whatever names parameters have
  std::string changes;  // spec changes of the unsafe fixes
};

struct FixRequest {
  std::vector<Target> checked;  // whose findings are fixed
  std::vector<Target> all;      // of the project
  CheckOptions options;
  bool unsafe = false;  // make fixes that change specs too
};

// Makes the safe fixes of `checked`, the findings of the request's targets,
// and, with `unsafe`, also the fixes that change specs. A fix is safe if every
// target that compiles has the same specs with it as without it, in every mode.
// If possible, the equality is proven for all names that parameters could have.
// The fixed texts are checked and fixed again until nothing is left to fix, at
// most ten times in all.
FixResult MakeFixes(std::span<const CheckedTarget> checked,
                    const FixRequest& request, const Selection& selection,
                    const Common& common);

bool IsSafe(const RuleFix& fix, std::span<const Target> targets,
            const InputFlags& inputs, const Common& common);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_FIXES_H_
