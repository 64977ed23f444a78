// Makes fixes of rules files, those that are proven to change no spec and,
// where they are asked for, the others.
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
  std::vector<FixedFile> files;  // by name
  int64_t made = 0;
  int64_t unsafe = 0;   // of those made; or that are left, if not asked for
  bool proven = false;  // all that are made: no name's spec can change
  std::string changes;  // what the unsafe ones made change in the plans
};

// The fixes of `checked`. `witnesses` are all targets at hand: a fix is safe
// if each of them has the same specs before and after, in every mode; that is
// proven of all names where it can be.
FixResult MakeFixes(std::span<const CheckedTarget> checked,
                    std::span<const Target> witnesses, const InputFlags& inputs,
                    const Common& common, bool unsafe);

// Whether this fix alone is safe.
bool IsSafe(const RuleFix& fix, std::span<const Target> witnesses,
            const InputFlags& inputs, const Common& common);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_FIXES_H_
