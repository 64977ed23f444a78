// `shardc explain`: why a parameter got its spec, or what a code means.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "emit/explain.h"
#include "lint/explain.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct ExplainFlags {
  InputFlags inputs;
  std::string what;
  bool codes = false;
};

// The parameter with this name, in either separator; else the nearest names.
std::optional<size_t> FindParam(const Compiled& compiled,
                                const std::string& name, Findings& findings) {
  const auto& names = compiled.plan.names;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
  }
  std::string swapped = name;
  const char separator = compiled.manifest.separator;
  for (char& c : swapped) {
    if (separator != 0 && (c == '/' || c == '.')) c = separator;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == swapped) return i;
  }
  const auto near = Nearest(name, names);
  findings.Add(code::kUsage, {}, "the manifest has no parameter `" + name + "`",
               near ? "did you mean `" + *near + "`?"
                    : "`shardc manifest` lists the names");
  return std::nullopt;
}

int RunExplain(const ExplainFlags& flags, const Common& common,
               Findings& findings) {
  if (flags.codes) return PutOut(CodesMarkdown(), findings) ? kDone : kFailed;
  if (flags.what.empty()) {
    findings.Add(code::kUsage, {}, "there is nothing to explain",
                 "name a parameter or a code; `--codes` lists the codes");
    return kFailed;
  }
  if (const auto text = ExplainCode(flags.what)) {
    return PutOut(*text, findings) ? kDone : kFailed;
  }
  const auto target = ChooseTarget(flags.inputs, findings);
  if (!target) return kFailed;
  const auto compiled = LoadAndCompile(flags.inputs, *target, common, findings);
  if (compiled == nullptr) return kFailed;
  const auto param = FindParam(*compiled, flags.what, findings);
  if (!param) return kFailed;
  const std::string text = common.format == "json"
                               ? ExplainJson(*compiled, *param)
                               : ExplainText(*compiled, *param);
  return PutOut(text, findings) ? kDone : kFailed;
}

}  // namespace

Run DeclareExplain(CLI::App& app) {
  auto flags = std::make_shared<ExplainFlags>();
  app.add_option("WHAT", flags->what,
                 "a parameter's name, or a code or its name")
      ->type_name("PARAM|CODE");
  app.add_flag("--codes", flags->codes, "list every diagnostic as Markdown");
  AddInputFlags(app, flags->inputs);
  return [flags](const Common& common, Findings& findings) {
    return RunExplain(*flags, common, findings);
  };
}

}  // namespace shardc::cli
