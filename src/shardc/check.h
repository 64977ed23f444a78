// Runs lints, which find mistakes in a plan before the model runs.
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

// Options of Check. A lint that needs an option which is not set is skipped.
struct CheckOptions {
  std::string model = {};  // path of the model's config.json; empty: not known
  std::optional<int64_t> batch = std::nullopt;
  std::optional<int64_t> kv_len = std::nullopt;  // positions in the KV cache
  // The memory of one device, in bytes.
  std::optional<int64_t> bytes_of_device = std::nullopt;
  // Codes (`SHD101`), names or families (`SHD2`) of lints. An empty `select`
  // means all lints.
  std::vector<std::string> select = {};
  std::vector<std::string> ignore = {};
  // Pairs of a lint's code or name and the level of its findings. A lint that
  // is not listed keeps its default level.
  std::vector<std::pair<std::string, Level>> severity = {};
};

struct SkippedCheck {
  std::string code;
  // The missing inputs in words, such as "a model's config.json, a batch".
  std::string missing;
};

struct CheckResult {
  Findings findings;  // sorted by file, line, column and code
  std::vector<SkippedCheck> skipped;
};

// Runs the lints on a plan. Returns nullopt after a finding: `select`, `ignore`
// or `severity` has an unknown name, or `model` cannot be read.
std::optional<CheckResult> Check(const Plan& plan, const CheckOptions& options,
                                 Findings& findings);

// Returns the explanation of a code and its remedy; `code` is "SHD101" or
// "catch-all-replicates". Returns nullopt for an unknown code.
std::optional<std::string> Explain(std::string_view code);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_CHECK_H_
