// Every command, in the order of `shardc --help`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/version.h"

namespace shardc::cli {
namespace {

constexpr std::array kCommands = {
    Command{"plan", "compile mesh, rules and manifest to a plan",
            "shardc plan --mesh dp:2,fsdp:8,tp:4 --rules builtin:llama "
            "--manifest model.safetensors.index.json -o plan.json",
            DeclarePlan},
    Command{"check", "lint: every check that the inputs allow",
            "shardc check --mesh fsdp:8,tp:4 --rules rules.yaml "
            "--manifest manifest.json",
            DeclareCheck, "text concise json sarif github junit markdown"},
    Command{"explain",
            "why a parameter got its spec, or what a diagnostic means",
            "shardc explain model/embed_tokens/embedding --mesh fsdp:8,tp:4 "
            "--rules builtin:llama --manifest manifest.json",
            DeclareExplain, "text json"},
    Command{"resolve", "resolve semantic axes in a mode to a spec",
            "shardc resolve '[BATCH, [FSDP, SP], _]' --mode decode",
            DeclareResolve, "text json"},
    Command{"attention", "the specs of attention's tensors",
            "shardc attention --mode decode --layout bthd --format json",
            DeclareAttention, "text json"},
    Command{"split", "cut a safetensors checkpoint into the pieces of a plan",
            "shardc split --plan plan.json --checkpoint model.safetensors "
            "--out pieces",
            DeclareSplit, "text json"},
    Command{"merge", "put the pieces of a checkpoint together again",
            "shardc merge pieces --out model.safetensors", DeclareMerge,
            "text json"},
    Command{"reshard", "turn one plan's pieces into another's",
            "shardc reshard pieces --plan new.plan.json --out new-pieces",
            DeclareReshard, "text json"},
    Command{"verify", "run sharded attention on a simulated mesh and compare",
            "shardc verify --mesh dp:2,sp:2,tp:2 --attention "
            "heads=32,kv_heads=8,head_dim=128,batch=4,q_len=128,kv_len=4096",
            DeclareVerify, "text json"},
    Command{"mesh", "show a mesh: its device grid, processes and ranks",
            "shardc mesh --mesh dp:2,fsdp:-1,tp:4 --devices 64 --ranks",
            DeclareMesh, "text json"},
    Command{"manifest", "show a parameter tree with its totals",
            "shardc manifest --manifest model.safetensors", DeclareManifest,
            "text json"},
    Command{"rules", "show rules files together, or the packs",
            "shardc rules --rules builtin:llama/flax", DeclareRules,
            "text json"},
    Command{"import", "read another system's configuration",
            "shardc import eformer partition_axis.json -o axes.yaml",
            DeclareImport, "text json"},
    Command{"schema", "print the JSON schema of a file or an output",
            "shardc schema rules > rules.schema.json", DeclareSchema},
    Command{"completion", "print a completion script for a shell",
            "shardc completion bash > /etc/bash_completion.d/shardc",
            DeclareCompletion},
};

// "text json" to its words.
std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return words;
}

// CLI11's IsMember would print the choices a second time.
CLI::Validator OneOf(const std::vector<std::string>& choices) {
  return CLI::Validator(
      [choices](std::string& value) {
        if (std::find(choices.begin(), choices.end(), value) != choices.end()) {
          return std::string();
        }
        std::string known;
        for (const std::string& choice : choices) {
          known += (known.empty() ? "" : ", ") + choice;
        }
        return "`" + value + "` is none of: " + known;
      },
      "");
}

void DeclareCommon(CLI::App& app, const Command& command, Common& common) {
  app.add_flag("-q,--quiet", common.quiet, "say nothing on stderr but errors");
  app.add_option("--color", common.color, "colour on stderr")
      ->check(OneOf({"auto", "always", "never"}))
      ->type_name("auto|always|never");
  app.add_option("--threads", common.threads,
                 "threads to use (default: one per core); never changes a "
                 "result")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  const auto formats = Words(command.formats);
  if (!formats.empty()) {
    std::string names;
    for (const std::string& format : formats) {
      names += (names.empty() ? "" : "|") + format;
    }
    app.add_option("--format", common.format, "format of the result")
        ->check(OneOf(formats))
        ->type_name(names);
  }
}

}  // namespace

std::span<const Command> Commands() { return kCommands; }

void DeclareAll(CLI::App& app, Common& common,
                std::vector<std::pair<CLI::App*, Run>>& runs) {
  app.name("shardc");
  app.description(
      "Compile sharding rules to plans, lint them, and prove by numbers that\n"
      "sharded attention computes what the dense model computes.");
  app.set_version_flag("--version", std::string("shardc ") + kVersion);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  for (const Command& command : Commands()) {
    CLI::App* sub = app.add_subcommand(std::string(command.name),
                                       std::string(command.summary));
    sub->footer("Example:\n  " + std::string(command.example) + "\n");
    Run run = command.declare(*sub);
    DeclareCommon(*sub, command, common);
    runs.emplace_back(sub, std::move(run));
  }
}

}  // namespace shardc::cli
