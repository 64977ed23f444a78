// `shardc completion SHELL`: prints a completion script that is embedded in the
// program.
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/output.h"

namespace shardc::cli {
namespace {

int RunCompletion(const std::string& shell, const Common&, Findings& findings) {
  std::string known;
  for (const EmbeddedFile& file : EmbeddedCompletions()) {
    if (file.name == shell)
      return PutOut(file.text, findings) ? kDone : kFailed;
    known += (known.empty() ? "" : ", ") + std::string(file.name);
  }
  findings.Add(code::kUsage, {}, "`" + shell + "` is none of: " + known);
  return kFailed;
}

Options CompletionOptions(std::string& shell) {
  return {{.name = "SHELL",
           .to = &shell,
           .help = "bash, fish or zsh",
           .required = true,
           .words = {"bash", "fish", "zsh"}}};
}

}  // namespace

const Command kCompletion = {
    .name = "completion",
    .summary = "print a completion script for a shell",
    .about = "Prints a completion script for bash, fish or zsh.",
    .example = "shardc completion bash > /etc/bash_completion.d/shardc",
    .declare = [] { return Declare(CompletionOptions, RunCompletion); },
};

}  // namespace shardc::cli
