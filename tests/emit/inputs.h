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

// The inputs are files in a folder of their own. A case has the parts `mesh`,
// `rules` and, if others than the default are wanted, `manifest` and `model`; a
// part with the prefix replaces the one without.
class Inputs {
 public:
  Inputs(const TableCase& given, const std::string& prefix);

  // `text` without the folder.
  std::string Plain(std::string text) const;
  // The findings as text.
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

// A part of a case's result with a heading; a text that ends without a line
// break is marked.
std::string Titled(std::string_view title, const std::string& text);

template <class Write>
std::string Titled(std::string_view title, const Write& write) {
  return Titled(title, TextOf([&](Sink& out) { write(out); }));
}

// The number of a part; nothing if the case has no such part.
std::optional<int64_t> NumberOf(const TableCase& given, std::string_view name);

// The settings that the parts batch, length, memory, microbatches and device
// give.
cost::Settings SettingsOf(const TableCase& given);

}  // namespace shardc

#endif  // SHARDC_TESTS_EMIT_INPUTS_H_
