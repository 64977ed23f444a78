// Lints: what a plan gets wrong before anything runs.
#ifndef SHARDC_SHARDC_CHECK_H_
#define SHARDC_SHARDC_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardc/findings.h"
#include "shardc/plan.h"

namespace shardc::SHARDC_V1 {

// Lints that need what is not given are skipped.
struct CheckOptions {
  std::string model = {};  // path of the model's config.json
  std::optional<int64_t> batch = std::nullopt;
  std::optional<int64_t> kv_len = std::nullopt;  // positions of the cache
  std::optional<int64_t> bytes_of_device = std::nullopt;  // its memory
  // Codes (`SHD101`), names or families (`SHD2`); empty: all.
  std::vector<std::string> select = {};
  std::vector<std::string> ignore = {};
  // By code or name; the rest keep their own level.
  std::vector<std::pair<std::string, Level>> severity = {};
};

struct SkippedCheck {
  std::string code;
  std::string missing;  // "a model's config.json, a batch"
};

struct CheckResult {
  Findings findings;  // sorted by file, line, column and code
  std::vector<SkippedCheck> skipped;
};

// Nothing when the check cannot run: a name in `select` or `ignore` means
// nothing, or `model` cannot be read.
std::optional<CheckResult> Check(const Plan& plan, const CheckOptions& options,
                                 Findings& findings);

// What a code means and how to write it better: "SHD101" or
// "catch-all-replicates". Nothing for another text.
std::optional<std::string> Explain(std::string_view code);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_CHECK_H_
