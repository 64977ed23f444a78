// Fuzzes every command that reads a config.json. The program itself runs, with
// a tree that is built from the config if its family is known.
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
    {"fit", "--devices", "4", "--rules", "auto", "--batch", "8", "--seq", "64"},
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

void Run(Arguments arguments) {
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

void ModelConfig(std::string_view bytes) {
  static const int quiet = ::open("/dev/null", O_WRONLY);
  Require(quiet >= 0, "a place for what is printed");
  const MemoryFile config(bytes);
  const MemoryFile manifest(TreeOf(config.path()));
  // Each input runs one command, because a fuzzer has many inputs.
  const size_t which = std::hash<std::string_view>()(bytes);
  Arguments arguments = kCommands[which % kCommands.size()];
  for (const char* more :
       {"--quiet", "--no-project", "--threads", "1", "--manifest"}) {
    arguments.emplace_back(more);
  }
  arguments.push_back(manifest.path());
  arguments.insert(arguments.end(), {"--model", config.path()});
  const int out = ::dup(STDOUT_FILENO);
  ::dup2(quiet, STDOUT_FILENO);
  Run(std::move(arguments));
  ::dup2(out, STDOUT_FILENO);
  ::close(out);
}

constexpr std::array<NamedTarget, 1> kTargets = {{
    {"model_config", ModelConfig},
}};

}  // namespace

std::span<const NamedTarget> CommandTargets() { return kTargets; }

}  // namespace shardc::fuzz
