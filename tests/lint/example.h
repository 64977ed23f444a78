// The examples of lints. The build makes their table from the pages of
// texts/diagnostics.
#ifndef SHARDC_TESTS_LINT_EXAMPLE_H_
#define SHARDC_TESTS_LINT_EXAMPLE_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace shardc {

// A small complete input of a lint, as the texts of its files. If a member of a
// good example is empty or 0, the value of the bad example is used.
struct LintExample {
  std::string_view mesh = {};      // mesh string or YAML
  std::string_view rules = {};     // YAML
  std::string_view manifest = {};  // JSON
  std::string_view model = {};     // config.json; may be empty
  std::string_view locked = {};    // committed plan; may be empty
  std::string_view target = {};    // more YAML keys of the example's target
  std::string_view program = {};   // traced program; may be empty
  int64_t batch = 0;               // 0 if not given
  int64_t kv_len = 0;
  int64_t memory_bytes = 0;
};

struct LintExamples {
  std::string_view lint;  // its name
  LintExample bad;        // input that is reported
  LintExample good;       // input that is not reported
};

// Returns the examples of all lints, in the order of AllLints().
std::span<const LintExamples> AllExamples();

}  // namespace shardc

#endif  // SHARDC_TESTS_LINT_EXAMPLE_H_
