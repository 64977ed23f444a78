// `shardc attention`: the specs of attention's tensors.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/open_mesh.h"
#include "cli/output.h"
#include "resolve/attention.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct AttentionFlags {
  InputFlags inputs;
  std::string mode = "train";
  std::string layout = "bthd";
  bool mni = false;
  std::string softmax_aux_rank;
};

std::string AttentionJson(std::span<const AttentionTensor> tensors) {
  std::string out = "{";
  for (size_t i = 0; i < tensors.size(); ++i) {
    out += i == 0 ? "\n  " : ",\n  ";
    AppendJsonString(out, tensors[i].name);
    out += ": " + SpecText(tensors[i].resolved.spec);
  }
  return out + "\n}\n";
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
  const auto tensors = AttentionSpecs(*resolver, *mode, options);
  return PutOut(common.format == "json" ? AttentionJson(tensors)
                                        : AttentionText(tensors),
                findings)
             ? kDone
             : kFailed;
}

}  // namespace

Run DeclareAttention(CLI::App& app) {
  auto flags = std::make_shared<AttentionFlags>();
  app.add_option("--mode", flags->mode, "train, prefill, decode or insert")
      ->type_name("MODE")
      ->capture_default_str();
  app.add_option("--layout", flags->layout,
                 "order of the dimensions; thd is packed tokens, which the "
                 "reference systems lack")
      ->type_name("bthd|bhtd|thd")
      ->capture_default_str();
  app.add_flag("--mni", flags->mni,
               "key and value have as many heads as the query");
  app.add_option("--softmax-aux-rank", flags->softmax_aux_rank,
                 "show softmax_aux (attention sinks) of this rank")
      ->type_name("N");
  AddMeshFlags(app, flags->inputs);
  AddRulesFlags(app, flags->inputs);
  AddProjectFlags(app, flags->inputs);
  return [flags](const Common& common, Findings& findings) {
    return RunAttention(*flags, common, findings);
  };
}

}  // namespace shardc::cli
