// Computes the texts of rules files with their fixes: those that change no
// spec, and on request also those that change some.
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
  int64_t unsafe = 0;   // fixes that change specs, whether made or not
  bool proven = false;  // for all fixes: no spec of any possible name changes
  std::string changes;  // spec changes of the unsafe fixes
};

// Makes the fixes that `checked` holds; with `unsafe`, also those that change
// specs. A fix is safe if every target of `targets` (all targets of the
// project) has the same specs with it as without it, in every mode; where
// possible that is proven for all names.
FixResult MakeFixes(std::span<const CheckedTarget> checked,
                    std::span<const Target> targets, const InputFlags& inputs,
                    const Common& common, bool unsafe);

// Returns whether this fix alone is safe.
bool IsSafe(const RuleFix& fix, std::span<const Target> targets,
            const InputFlags& inputs, const Common& common);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_FIXES_H_
