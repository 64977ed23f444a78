// `shardc resolve attention`: prints the specs of attention's tensors, either
// as a table with their logical axes or as JSON. With the default rules and
// `--layout bhtd --mode decode`, the spec of the query is [["fsdp", "dp"],
// "tp", "sp", null].
#include <algorithm>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "model/option_value.h"
#include "resolve/resolve.h"
#include "source/json_writer.h"

namespace shardc::cli {
namespace {

struct AttentionFlags {
  InputFlags inputs;
  std::string mode = "train";
  std::string layout = "bthd";
  bool mni = false;
  std::string softmax_aux_rank;
  std::string output;
};

void WriteAttentionJson(std::span<const AttentionTensor> tensors, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  for (const AttentionTensor& tensor : tensors) {
    json.Member(tensor.name, WrittenBy(WriteSpec, tensor.resolved.spec));
  }
  json.EndObject();
  out.Put('\n');
}

std::string AttentionText(std::span<const AttentionTensor> tensors) {
  size_t widest = 0;
  for (const AttentionTensor& tensor : tensors) {
    widest = std::max(widest, tensor.name.size());
  }
  std::string out;
  for (const AttentionTensor& tensor : tensors) {
    out += tensor.name;
    out.append(widest - tensor.name.size() + 2, ' ');
    out += SpecText(tensor.resolved.spec) + "  (";
    for (size_t i = 0; i < tensor.tokens.size(); ++i) {
      out += i == 0 ? "" : ", ";
      out += tensor.tokens[i];
    }
    out += ")\n";
  }
  return out;
}

int RunAttention(const AttentionFlags& flags, const Common& common,
                 Findings& findings) {
  const auto resolver = LoadResolver(flags.inputs, findings);
  const auto mode = ParseModeFlag(flags.mode, findings);
  AttentionOptions options;
  const auto layout = ParseLayout(flags.layout);
  if (!layout) {
    findings.Add(code::kUsage, {},
                 "`" + flags.layout + "` is none of: bthd, bhtd, thd");
  } else {
    options.layout = *layout;
  }
  options.mni = flags.mni;
  if (!flags.softmax_aux_rank.empty()) {
    const auto rank =
        ParseInteger("--softmax-aux-rank", flags.softmax_aux_rank, 0, findings);
    if (rank)
      options.softmax_aux_rank =
          static_cast<int>(std::min<int64_t>(*rank, 1000));
  }
  if (!resolver || !mode || findings.HasErrors()) return kFailed;
  const auto tensors = AttentionSpecs(resolver->resolver, *mode, options);
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteAttentionJson(tensors, out);
    } else {
      out.Append(AttentionText(tensors));
    }
  };
  return PutResult(write, flags.output, findings) ? kDone : kFailed;
}

Options OptionsOf(AttentionFlags& flags) {
  Options options = {
      OutputOption(&flags.output),
      ModeOption(&flags.mode),
      {.name = "--layout",
       .need = HelpNeed::kOften,
       .to = &flags.layout,
       .value = "bthd|bhtd|thd",
       .help =
           "order of the dimensions (default: bthd); thd holds packed tokens"},
      {.name = "--mni",
       .to = &flags.mni,
       .help = "key and value have as many heads as the query"},
      {.name = "--softmax-aux-rank",
       .to = &flags.softmax_aux_rank,
       .value = "N",
       .help = "show softmax_aux (attention sinks) with this rank"}};
  Append(options, MeshInputs(flags.inputs));
  Append(options, RulesInputs(flags.inputs));
  Append(options, ProjectInputs(flags.inputs));
  return options;
}

}  // namespace

Declared DeclareResolveAttention() { return Declare(OptionsOf, RunAttention); }

}  // namespace shardc::cli
