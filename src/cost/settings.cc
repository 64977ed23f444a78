// Completes the settings of a cost report from the rules.
//
// A rules file may give the kind of loss, as in `model: {loss: {kind: fused,
// chunk: 4096}}`. This has the same meaning as the flags `--loss` and
// `--loss-chunk`. If a flag is given, it takes precedence over the rules.
#include "cost/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <set>
#include <utility>

#include "cost/rates.h"
#include "legalize/legalize.h"
#include "model/model_description.h"
#include "model/name.h"
#include "plan/compile.h"
#include "plan/placement.h"
#include "plan/representatives.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cost {

Settings WithLossOf(const RuleSet& rules, Settings settings) {
  if (rules.model == nullptr) return settings;
  const DescribedText* const kind = rules.model->Setting("loss.kind");
  if (kind != nullptr && settings.loss == LossKind::kStack) {
    settings.loss = LossNamed(kind->text).value_or(settings.loss);
  }
  const DescribedText* const chunk = rules.model->Setting("loss.chunk");
  if (chunk != nullptr && !settings.loss_chunk) {
    int64_t tokens = 0;
    const std::string& text = chunk->text;
    std::from_chars(text.data(), text.data() + text.size(), tokens);
    if (tokens > 0) settings.loss_chunk = tokens;
  }
  return settings;
}

namespace {

// Decides whether the plan of a mesh is legal for a model. A plan is legal if
// every spec is legal, if no head and no block of quantised weights is split,
// and if the mesh axes divide the batch's rows and tokens. For example:
//
//   8 KV heads over tp 16: illegal, because 16 does not divide 8
//
// The policy for illegal specs applies to the specs of attention as well. Axes
// that do not divide the heads are an error under `illegal: error`. They are
// dropped or shrunk under `drop` and `shrink`. They are an error under `pad`
// too, because a device computes with complete heads.

constexpr size_t kMostReasons = 2;

class Reasons {
 public:
  void Add(std::string text) {
    if (seen_.insert(text).second) texts_.push_back(std::move(text));
  }
  // Adds a reason if `parts` does not divide `size`. The nouns name what `size`
  // counts, for example "KV head". Without a plural, an `s` is appended.
  void Divides(int64_t size, int64_t parts, std::string_view singular,
               std::string_view plural = {}) {
    if (parts > 1 && size % parts != 0) {
      Add(Counted(size, singular, plural) + (size == 1 ? " is" : " are") +
          " not divisible by " + CountText(parts));
    }
  }
  std::vector<std::string> Take() {
    if (texts_.size() > kMostReasons) {
      const size_t more = texts_.size() - kMostReasons;
      texts_.resize(kMostReasons);
      texts_.push_back("and " +
                       Counted(static_cast<int64_t>(more), "more", "more"));
    }
    return std::move(texts_);
  }

 private:
  std::set<std::string> seen_;
  std::vector<std::string> texts_;
};

std::string EditText(const std::string& name, const Edit& edit) {
  switch (edit.reason) {
    case Reason::kIndivisible:
      if (edit.dim_parts.several()) {
        return Printable(name) + ": " + GroupText(edit.from) + " of " +
               CountText(edit.parts) + " does not divide each of " +
               PartsProblemText(edit);
      }
      return Printable(name) + ": " + CountText(edit.size) +
             " is not divisible " +
             (edit.parts > 0 && edit.size % edit.parts == 0
                  ? "between blocks of the dtype "
                  : "") +
             "by " + GroupText(edit.from) + " of " + CountText(edit.parts);
    case Reason::kMissingAxis:
      return Printable(name) + ": the mesh has no axis `" + edit.axis + "`";
    case Reason::kRepeatedAxis:
      return Printable(name) + ": axis `" + edit.axis + "` is used twice";
    case Reason::kKvHeads:
      return Printable(name) + ": dimension " +
             std::to_string(edit.dim.value_or(0)) + " over " +
             GroupText(edit.from) + ", " + KvProblemText(edit);
    default:
      return Printable(name) + ": " + std::string(ReasonName(edit.reason));
  }
}

// Adds a reason for each weight whose shard ends inside a block of quantised
// numbers. The numbers of a block have a common scale, so if a weight is used
// while a dimension is sharded, no block may be split between devices.
// With `uneven`, axes may shard a dimension that they do not divide.
void AddBlocks(const Compiled& compiled, const CostInputs& work, bool uneven,
               Reasons& out) {
  if (!work.model) return;
  const QuantisedModules modules(*work.model);
  if (!modules.Any()) return;
  // Returns whether a parameter of this class is in a module with this block.
  const auto has = [&](const ParamClass& param, const QuantisedBlock& block) {
    const char separator = compiled.manifest.separator;
    const auto& names = compiled.plan.names;
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return NameTemplate(name, separator) == param.name &&
             modules.Of(name, separator, param.role.leaf != Leaf::kOther) ==
                 &block;
    });
  };
  for (const ParamClass& param : work.params) {
    if (!param.IsWeight()) continue;
    // Returns the size of a shard that ends inside a block, or 0.
    const auto cut = [&](int dim, int64_t block, int64_t packing) -> int64_t {
      const int64_t parts = work.Parts(work.KeptAt(param, dim));
      const int64_t size = Times(param.SizeAt(dim), packing);
      const bool ends = parts > 1 && (uneven || size % parts == 0) &&
                        size % block == 0 && ShareOf(size, parts) % block != 0;
      return ends ? ShareOf(size, parts) : 0;
    };
    const auto add = [&](int64_t shard, int64_t block) {
      if (shard == 0) return;
      out.Add(Printable(param.name) + ": a part of " + CountText(shard) +
              " splits blocks of " + CountText(block));
    };
    const Role role = param.role.module_role;
    for (const QuantisedBlock& block : modules.blocks()) {
      // The weights that are packed into one stored number belong to the same
      // block.
      const int64_t columns = cut(param.in_dim, block.columns, param.packing);
      const int64_t rows = IsAttention(role) || IsMlp(role)
                               ? cut(param.out_dim, block.rows, 1)
                               : 0;
      if ((columns == 0 && rows == 0) || !has(param, block)) continue;
      add(columns, block.columns);
      add(rows, block.rows);
    }
  }
}

void AddSpecs(const Compiled& compiled, const CostInputs& work, Mode mode,
              Reasons& out) {
  const Plan& plan = compiled.plan;
  std::set<uint32_t> seen;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const uint32_t layout = plan.params[i].layout;
    if (!seen.insert(layout).second) continue;
    for (const ModeLayout& one : plan.layouts[layout].modes) {
      if (one.mode != mode) continue;
      for (const Edit& edit : one.problems) {
        out.Add(EditText(std::string(plan.names[i]), edit));
      }
    }
  }
  const bool uneven =
      std::any_of(plan.layouts.begin(), plan.layouts.end(),
                  [](const ParamLayout& layout) { return layout.uneven; });
  AddBlocks(compiled, work, uneven, out);
}

void AddHeads(const CostInputs& work, Reasons& out) {
  for (const UnevenHeads& one : UnevenHeadsOf(work)) {
    out.Divides(one.heads, one.parts, one.kv ? "KV head" : "head");
  }
}

void AddTokens(const CostInputs& work, const Settings& settings, Reasons& out) {
  if (settings.batch) {
    out.Divides(*settings.batch, work.Parts(work.Batch()), "row");
    const int64_t rows = *settings.batch / work.Parts(work.Batch());
    if (*settings.batch % work.Parts(work.Batch()) == 0) {
      out.Divides(rows, settings.microbatches, "row of a device",
                  "rows of a device");
    }
  }
  if (settings.length && !IsGeneration(work.mode)) {
    out.Divides(*settings.length, work.Parts(work.Length()), "token");
  }
  if (settings.kv_length && work.mode != Mode::kTrain) {
    out.Divides(*settings.kv_length, work.Parts(work.key[1]),
                "token of the cache", "tokens of the cache");
  }
}

// Makes the spec of a tensor of attention legal for its number of heads. The
// other dimensions of the tensor are assumed to be divisible.
void DropUneven(const Mesh& mesh, const LegalizeOptions& options, int64_t heads,
                Spec& spec) {
  Shape shape;
  for (const AxisGroup& axes : spec)
    shape.push_back(mesh.Parts(axes).value_or(1));
  shape[2] = heads;
  Legal legal = Legalize(spec, shape, mesh, options);
  if (!legal.problems.empty()) return;
  spec = std::move(legal.spec);
  spec.resize(shape.size());
}

void DropUneven(const UnevenHeads& one, const LegalizeOptions& options,
                CostInputs& work) {
  const auto tensors = one.kv ? std::array{&work.key, &work.value}
                              : std::array{&work.query, &work.output};
  for (Spec* spec : tensors) {
    DropUneven(work.mesh, options, one.heads, *spec);
  }
}

}  // namespace

std::string UnevenText(const UnevenHeads& one) {
  return GroupText(one.axes) + " of " + CountText(one.parts) +
         " does not divide the " +
         Counted(one.heads, one.kv ? "KV head" : "head");
}

std::vector<UnevenHeads> UnevenHeadsOf(const CostInputs& work) {
  std::vector<UnevenHeads> out;
  if (!work.model) return out;
  const ModelConfig& model = *work.model;
  const auto add = [&](bool kv, const std::optional<int64_t>& heads,
                       const AxisGroup& axes) {
    const int64_t parts = work.Parts(axes);
    if (heads && *heads % parts != 0) out.push_back({kv, *heads, axes, parts});
  };
  add(false, model.heads, work.query[2]);
  // Latent attention has no KV heads.
  if (!model.latent_rank) add(true, model.kv_heads, work.key[2]);
  return out;
}

void DropUnevenHeads(const Compiled& compiled, CostInputs& work) {
  LegalizeOptions options;
  options.illegal = compiled.IllegalFor(kNoRule);
  options.compat = compiled.CompatMode();
  if (options.illegal == IllegalPolicy::kError) return;
  for (const UnevenHeads& one : UnevenHeadsOf(work)) {
    DropUneven(one, options, work);
  }
}

void DropUnevenHeadsOfFile(CostInputs& work) {
  for (const UnevenHeads& one : UnevenHeadsOf(work)) {
    DropUneven(one, {.illegal = IllegalPolicy::kDrop}, work);
    work.notes.push_back(UnevenText(one) +
                         ": attention is assumed not to be sharded over it");
  }
}

std::vector<std::string> UnevenTokensOf(const CostInputs& work,
                                        const Settings& settings) {
  Reasons out;
  AddTokens(work, settings, out);
  return out.Take();
}

std::vector<std::string> ReasonsAgainst(const Compiled& compiled,
                                        const CostInputs& work,
                                        const Settings& settings) {
  Reasons reasons;
  AddHeads(work, reasons);
  AddTokens(work, settings, reasons);
  AddSpecs(compiled, work, work.mode, reasons);
  return reasons.Take();
}

}  // namespace shardc::cost
