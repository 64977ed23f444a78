// `shardc completion SHELL`: prints a completion script that is embedded in the
// program.
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "source/other_words.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

int RunCompletion(const std::string& shell, const Common&, Findings& findings) {
  std::vector<std::string_view> known;
  for (const EmbeddedFile& file : EmbeddedCompletions()) {
    if (file.name == shell)
      return PutOut(file.text, findings) ? kDone : kFailed;
    known.push_back(file.name);
  }
  RefuseWord({}, "shell", shell, known, findings);
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
