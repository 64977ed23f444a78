// Converts names of files to names of modules. From version 5 on, modules of
// transformers have other names than the tensors in the files that it reads and
// writes, and the weights of all experts of a layer are one parameter. For
// example:
//
//   model.layers.0.block_sparse_moe.experts.3.w1.weight [inner, width]
//     -> model.layers.*.mlp.experts.gate_up_proj [experts, 2 * inner, width]
//
// A tensor of a name that is not in a table here has its name in the model too.
// If that is wrong, transformers refuses the plan, because it has a key that
// matches no module.
#include "emit/exports/hf_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "model/name.h"
#include "source/after_last.h"

namespace shardc::exports {
namespace {

// The last parts of names of tensors that are buffers of modules.
constexpr std::array<std::string_view, 9> kBuffers = {"e_score_correction_bias",
                                                      "expert_bias",
                                                      "layer_scalar",
                                                      "inv_freq",
                                                      "masked_bias",
                                                      "slope_rate",
                                                      "query_decay",
                                                      "key_decay",
                                                      "diagonal_decay"};

// The part of a stacked parameter that a tensor of one expert is.
struct ExpertPart {
  std::string_view module;
  std::string_view name;
  int64_t packed;
};
constexpr std::array<ExpertPart, 6> kExpertParts = {
    {{"gate_proj", "gate_up_proj", 2},
     {"up_proj", "gate_up_proj", 2},
     {"down_proj", "down_proj", 1},
     {"w1", "gate_up_proj", 2},
     {"w3", "gate_up_proj", 2},
     {"w2", "down_proj", 1}}};

// Returns the parameter of all experts of which the tensor of an expert, such
// as `mlp.experts.*.up_proj.weight`, is a part. Returns nullopt for other
// tensors.
std::optional<HfName> OfAllExperts(std::string_view name) {
  constexpr std::string_view kLeaf = ".weight";
  constexpr std::string_view kExperts = "experts.*.";
  if (!name.ends_with(kLeaf)) return std::nullopt;
  const std::string_view module = name.substr(0, name.size() - kLeaf.size());
  const std::string_view part = AfterLast(module, '.');
  const std::string_view before = module.substr(0, module.size() - part.size());
  if (!before.ends_with(kExperts)) return std::nullopt;
  const size_t start = before.size() - kExperts.size();
  if (start > 0 && before[start - 1] != '.') return std::nullopt;
  for (const ExpertPart& one : kExpertParts) {
    if (one.module != part) continue;
    return HfName{std::string(before.substr(0, before.size() - 2)) +
                      std::string(one.name),
                  true, one.packed};
  }
  return std::nullopt;
}

}  // namespace

// The first renaming whose `from` occurs in a name is applied. Texts that begin
// without a dot are compared with the start of the name.
const HfNames::Renaming HfNames::kRenamings[] = {
    {"embed_out.", "lm_head.", "gpt_neox."},
    // PhiMoE, whose norms have a bias.
    {".block_sparse_moe.gate.", ".mlp.router.", "model.norm.bias"},
    // Mixtral and MiniMax.
    {".block_sparse_moe.", ".mlp.", ".block_sparse_moe.experts.*.w1."},
    // The models of Granite, whose files have the stacked weights.
    {".block_sparse_moe.input_linear.weight",
     ".block_sparse_moe.experts.gate_up_proj",
     ".block_sparse_moe.input_linear."},
    {".block_sparse_moe.output_linear.weight",
     ".block_sparse_moe.experts.down_proj", ".block_sparse_moe.input_linear."},
    {".block_sparse_moe.router.layer.weight", ".block_sparse_moe.router.weight",
     ".block_sparse_moe.input_linear."},
};

HfNames::HfNames(const ReadPlan& plan, bool converts) : converts_(converts) {
  if (!converts) return;
  std::vector<std::string> names;
  for (const ReadParam& param : plan.params) {
    names.push_back(NameTemplate(param.name, '.', TemplateNumbers::kParts));
  }
  for (const Renaming& one : kRenamings) {
    const bool applies =
        std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return name.find(one.sign) != std::string::npos;
        });
    if (applies) renamings_.push_back(&one);
  }
}

HfName HfNames::Of(std::string_view generic) const {
  if (!converts_) return {std::string(generic)};
  std::string name(generic);
  for (const Renaming* one : renamings_) {
    const size_t at = name.find(one->from);
    if (at == std::string::npos || (!one->from.starts_with('.') && at > 0)) {
      continue;
    }
    name.replace(at, one->from.size(), one->to);
    break;
  }
  if (auto expert = OfAllExperts(name)) return std::move(*expert);
  const std::string_view last = AfterLast(generic, '.');
  const bool buffer =
      std::find(kBuffers.begin(), kBuffers.end(), last) != kBuffers.end();
  return {std::move(name), false, 1, buffer};
}

}  // namespace shardc::exports
