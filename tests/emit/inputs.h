// The inputs of a case of testdata/tables/emit_*.txt, compiled.
#ifndef SHARDC_TESTS_EMIT_INPUTS_H_
#define SHARDC_TESTS_EMIT_INPUTS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cost/fit.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "source/sink.h"
#include "tables.h"
#include "target/open.h"
#include "temporary_folder.h"

namespace shardc {

// Writes the inputs of a case to a temporary folder and compiles them. A case
// has the parts `mesh` and `rules`, and optionally `manifest` and `model`. If a
// part exists with the prefix too, that one is used.
class Inputs {
 public:
  Inputs(const TableCase& given, const std::string& prefix);

  // Returns `text` without the path of the temporary folder.
  std::string Plain(std::string text) const;
  // Returns the findings as text.
  std::string Errors() const;
  cost::FitInputs Fit(const cost::Settings& settings, Mode mode) const;

  Target target;
  Findings findings;
  std::unique_ptr<const Compiled> compiled;  // null if the inputs are refused
  std::optional<ModelConfig> config;

 private:
  TemporaryFolder folder_;
  CompileOptions options_;
  RuleSet rules_;
  Manifest manifest_;
};

// Returns a part of a case's result with a heading. A text that does not end
// with a line break is marked.
std::string Titled(std::string_view title, const std::string& text);

template <class Write>
std::string Titled(std::string_view title, const Write& write) {
  return Titled(title, TextOf([&](Sink& out) { write(out); }));
}

// Returns the number in a part; nullopt if the case has no such part.
std::optional<int64_t> NumberOf(const TableCase& given, std::string_view name);

// Returns the settings in the parts `batch`, `length`, `memory`, `microbatches`
// and `device`.
cost::Settings SettingsOf(const TableCase& given);

}  // namespace shardc

#endif  // SHARDC_TESTS_EMIT_INPUTS_H_
