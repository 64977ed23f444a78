// Fuzzes commands as they are run. Those that read a config.json get a tree
// that is built from the config if its family is known. Others get the bytes as
// the file `{F}` of a command line of a table.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/parser.h"
#include "emit/plans/input_text.h"
#include "families/families.h"
#include "fuzz/reading.h"
#include "source/sink.h"

namespace shardc::fuzz {
namespace {

using Arguments = std::vector<std::string>;

// Larger trees take seconds under sanitizers, and do not reach other code.
constexpr size_t kMostTensors = 400;

// A tree of one layer, for configs from which no tree can be built.
constexpr std::string_view kTree = R"({"schema": "shardc.manifest/v1",
 "params": {
  "model.embed_tokens.weight": {"shape": [32, 16], "dtype": "F32"},
  "model.layers.0.self_attn.q_proj.weight": {"shape": [16, 16], "dtype": "F32"},
  "model.layers.0.self_attn.k_proj.weight": {"shape": [8, 16], "dtype": "F32"},
  "model.layers.0.self_attn.v_proj.weight": {"shape": [8, 16], "dtype": "F32"},
  "model.layers.0.self_attn.o_proj.weight": {"shape": [16, 16], "dtype": "F32"},
  "model.layers.0.input_layernorm.weight": {"shape": [16], "dtype": "F32"},
  "model.norm.weight": {"shape": [16], "dtype": "F32"}}})";

const std::array<Arguments, 8> kCommands = {{
    {"cost", "--mesh", "fsdp:2,tp:2", "--rules", "auto", "--batch", "8",
     "--seq", "64"},
    {"cost", "--mesh", "dp:2,tp:2", "--rules", "auto", "--mode", "decode",
     "--batch", "1099511627776", "--kv-len", "1099511627776"},
    {"search", "--all", "--devices", "4", "--rules", "auto", "--batch", "8",
     "--seq", "64"},
    {"report", "--mesh", "fsdp:2,tp:2", "--rules", "auto"},
    {"show", "memory", "--mesh", "fsdp:2,tp:2", "--rules", "auto", "--batch",
     "8", "--seq", "64"},
    {"check", "--mesh", "fsdp:2,tp:2", "--rules", "auto"},
    {"suggest", "--devices", "4"},
    {"verify", "step", "--mesh", "fsdp:2,tp:2", "--rules", "auto", "--batch",
     "4"},
}};

// Returns the text of the tree that the config describes, if its family and
// sizes allow that, and otherwise of kTree.
std::string TreeOf(const std::string& config) {
  Findings findings;
  const auto tree = families::BuildTree(config, "hf", findings);
  CheckFindings(findings);
  Require(tree.has_value() != findings.HasErrors(), "a tree or an error");
  if (!tree || tree->tensors.size() > kMostTensors) return std::string(kTree);
  return TextOf([&](Sink& out) { WriteManifestJson(*tree, out); });
}

void RunCommand(Arguments arguments) {
  arguments.insert(arguments.begin(), "shardc");
  std::vector<char*> pointers;
  for (std::string& one : arguments) pointers.push_back(one.data());
  cli::Common common;
  Findings findings;
  const auto parsed = cli::ParseArguments(static_cast<int>(pointers.size()),
                                          pointers.data(), common, findings);
  Require(parsed && parsed->run != nullptr, "arguments that parse");
  const int status = parsed->run(common, findings);
  Require(status >= 0 && status <= 2, "a status of 0, 1 or 2");
  CheckFindings(findings);
}

// Runs one command, without what it prints.
void RunQuietly(Arguments arguments) {
  static const int quiet = ::open("/dev/null", O_WRONLY);
  Require(quiet >= 0, "a place for what is printed");
  for (const char* more : {"--quiet", "--threads", "1"}) {
    arguments.emplace_back(more);
  }
  const int out = ::dup(STDOUT_FILENO);
  ::dup2(quiet, STDOUT_FILENO);
  RunCommand(std::move(arguments));
  ::dup2(out, STDOUT_FILENO);
  ::close(out);
}

void ModelConfig(std::string_view bytes) {
  const MemoryFile config(bytes);
  const MemoryFile manifest(TreeOf(config.path()));
  // Each input runs one command, because a fuzzer has many inputs.
  const size_t which = std::hash<std::string_view>()(bytes);
  Arguments arguments = kCommands[which % kCommands.size()];
  arguments.insert(arguments.end(),
                   {"--no-project", "--manifest", manifest.path(), "--model",
                    config.path()});
  RunQuietly(std::move(arguments));
}

// Runs one of the command lines, which the first byte selects, on the other
// bytes.
void RunWith(std::span<const std::string_view> lines, std::string_view bytes) {
  if (bytes.empty()) return;
  static const MemoryFile tree(kTree);
  static const MemoryFile rules("version: 1\nrules: [{match: ., spec: []}]\n");
  static const MemoryFile names(R"({"model.norm.weight": ["embed"]})");
  const MemoryFile file(bytes.substr(1));
  const std::string_view line =
      lines[static_cast<unsigned char>(bytes[0]) % lines.size()];
  Arguments arguments;
  for (size_t at = 0; at <= line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view word = line.substr(at, end - at);
    arguments.emplace_back(word == "{F}"   ? file.path()
                           : word == "{T}" ? tree.path()
                           : word == "{R}" ? rules.path()
                           : word == "{N}" ? names.path()
                                           : std::string(word));
    at = end + 1;
  }
  RunQuietly(std::move(arguments));
}

// Each of these reads what it is given in other ways than the readers alone.
constexpr std::string_view kOfPlans[] = {
    "kv --from {F} --to {F} --tokens 8 --allow-edited",
    "kv --from {F} --to {F} --allow-edited --page 4:8 --mode decode:decode",
    "diff {F} {F} --allow-edited",
    "show rules --plan {F} --allow-edited",
    "show cache --plan {F} --allow-edited --kv-len 64 --batch 4",
    "cost --plan {F} --allow-edited --batch 8 --seq 64",
    "export jax --plan {F} --allow-edited",
    "export csv --plan {F} --allow-edited",
};
constexpr std::string_view kOfPrograms[] = {
    "explain --no-project --mesh fsdp:2,tp:2 --rules {R} --program {F} up",
    "suggest --no-project --mesh fsdp:2,tp:4 --program {F}",
    "verify step --no-project --mesh fsdp:2,tp:4 --rules {R} --program {F}",
    "verify step --no-project --mesh fsdp:2 --rules {R} --program {F} "
    "--reference {F}",
};
constexpr std::string_view kOfSchedules[] = {
    "schedule {F} --times 1,2,1 --hop 1",
    "schedule {F} --picture --width 80",
    "schedule {F} --p2p exposed --format json",
};
constexpr std::string_view kOfImports[] = {
    "import maxtext {F} --names {N} --mesh fsdp:2,tp:2",
    "import maxtext-dump {F}",
    "import levanter {F} --names {N} --mesh fsdp:2,tp:2",
    "import hlo {F} --mesh fsdp:2,tp:2 --manifest {T}",
    "import shardy {F} --manifest {T}",
    "import dtensor {F} --mesh fsdp:2,tp:2 --manifest {T}",
    "import hf-tp-plan {F} --mesh tp:2 --manifest {T}",
};
constexpr std::string_view kOfAudits[] = {
    "audit {F} --mesh fsdp:2,tp:2 --by line",
    "audit {F} --mesh fsdp:4 --by scope --format json",
    "audit {F} --mesh tp:4 --by parameter --profile h100-sxm",
};

void OfPlan(std::string_view bytes) { RunWith(kOfPlans, bytes); }
void OfProgram(std::string_view bytes) { RunWith(kOfPrograms, bytes); }
void OfSchedule(std::string_view bytes) { RunWith(kOfSchedules, bytes); }
void OfImport(std::string_view bytes) { RunWith(kOfImports, bytes); }
void OfAudit(std::string_view bytes) { RunWith(kOfAudits, bytes); }

}  // namespace

std::span<const NamedTarget> CommandTargets() {
  static constexpr std::array<NamedTarget, 6> kTargets = {{
      {"model_config", ModelConfig},
      {"of_plan", OfPlan},
      {"of_program", OfProgram},
      {"of_schedule", OfSchedule},
      {"of_import", OfImport},
      {"of_audit", OfAudit},
  }};
  return kTargets;
}

}  // namespace shardc::fuzz
