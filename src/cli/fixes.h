// Applies fixes to the texts of rules files: the fixes that change no spec and,
// on request, the others.
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
  bool proven = false;  // no fix changes a spec, whatever names parameters have
  std::string changes;  // spec changes of the unsafe fixes
};

// Makes the safe fixes of `checked` and, with `unsafe`, also the fixes that
// change specs. `targets` are all targets of the project. A fix is safe if
// every target that compiles has the same specs with it as without it, in every
// mode. If possible, the equality is proven for all names that parameters could
// have.
FixResult MakeFixes(std::span<const CheckedTarget> checked,
                    std::span<const Target> targets, const InputFlags& inputs,
                    const Common& common, bool unsafe);

bool IsSafe(const RuleFix& fix, std::span<const Target> targets,
            const InputFlags& inputs, const Common& common);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_FIXES_H_
