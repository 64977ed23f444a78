// `shardc completion SHELL`: prints a completion script that is embedded in the
// program.
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

int RunCompletion(const std::string& shell, const Common&, Findings& findings) {
  std::string known;
  for (const EmbeddedFile& file : EmbeddedCompletions()) {
    if (file.name == shell)
      return PutOut(file.text, findings) ? kDone : kFailed;
    AppendItem(known, ", ", file.name);
  }
  findings.Add(code::kUsage, {}, "`" + shell + "` is none of: " + known);
  return kFailed;
}

Options CompletionOptions(std::string& shell) {
  return {{.name = "SHELL",
           .to = &shell,
           .help = "bash, fish or zsh",
           .required = true,
           .words = Words({"bash", "fish", "zsh"})}};
}

}  // namespace

Declared DeclareCompletion() {
  return Declare(CompletionOptions, RunCompletion);
}

}  // namespace shardc::cli
