// Finds roles by the other matrices of a module. d is the model's width, h a
// number of heads and c the columns of one head:
//
//   query [d, h, c], x [h, c, d]         ->  x is the output of attention
//   query [d, h * c], wo [h * c, d]      ->  wo is the output of attention
//   query, key, value, x [d, d]          ->  x is the output of attention
//   qkv [d, 3d], x [d, d]                ->  x is the output of attention
//   x [d, 3d], y [d, d]                  ->  x is a fused qkv, y the output
//   x, y, z [d, h, c], o [h, c, d]       ->  x, y, z are projections to heads
//
// The last four need that only one matrix of the module has the output's
// sizes: of several square matrices, nothing shows which one is the output. A
// matrix [3d, d] next to [d, 3d] shows a feed-forward block of width 3d, and a
// convolution or a decay (`A_log`) shows a mixer, whose parts are no queries,
// keys and values.
#include "suggest/siblings.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "roles/words.h"
#include "source/index.h"
#include "source/wording.h"
#include "suggest/heads.h"
#include "suggest/matrices.h"

namespace shardc::suggest {
namespace {

// The number of projections that one matrix or one leading dimension stacks:
// query, key and value.
constexpr int64_t kJoined = 3;
// The largest number of parts of a name between a module and the stored tensor,
// as in `attn/to_out/0/kernel`.
constexpr int kMostBelow = 3;

// Parameters of state-space mixers and of linear attention. `in_proj` is not
// one of them, because it is also a fused projection of attention.
constexpr std::array<std::string_view, 3> kMixing = {"A_log", "conv1d",
                                                     "dt_bias"};

// Returns whether one of the last two parts of the name is a word for the
// output projection of attention, such as `o_proj`.
bool IsCalledOutput(const ParameterGroup& group) {
  const auto names = [](std::string_view part) {
    return RoleOfWord(part, {.in_attention = true}, Confidence::kSure) ==
           Role::kOutput;
  };
  const size_t count = group.parts.size();
  return names(group.parts[count - 1]) ||
         (count > 1 && names(group.parts[count - 2]));
}

bool IsWeightMatrix(const ParameterGroup& group, const InferredDims& inferred) {
  return group.rank() >= 2 && !MayPack(group) && inferred.role != Role::kBias &&
         inferred.role != Role::kScale && !IsNorm(inferred.role) &&
         !IsAdapter(inferred.role) && inferred.role != Role::kPosition;
}

// The groups of one module: of the innermost subtree that holds several
// matrices.
struct Module {
  std::string path;
  std::vector<size_t> matrices;
  // Whether a part of the module shows that it is no attention.
  bool mixes = false;
};

class SiblingRoles {
 public:
  SiblingRoles(const Tree& tree, const ModelConfig* model, ModelDims& dims)
      : tree_(tree), model_(model), dims_(dims) {}

  void Run() {
    NameOutputsOfQueries();
    for (const Module& module : Modules()) {
      NameOutputOfNamed(module);
      NameByHeads(module);
      NameFused(module);
    }
    for (const Module& module : Modules()) FindFeedForward(module);
  }

 private:
  InferredDims& At(size_t k) { return dims_.groups[k]; }
  const Shape& ShapeOf(size_t k) const { return tree_.groups[k].shape; }
  bool IsUnknown(size_t k) const {
    return dims_.groups[k].role == Role::kOther &&
           !dims_.groups[k].by_name.expert;
  }

  // Sets the role of the output of attention next to a query, or to a fused
  // projection with a dimension of heads, whose shape is the transposed one.
  void NameOutputsOfQueries() {
    // For each attention block, the shape of its output projection.
    std::map<std::string_view, Shape> outputs;
    for (size_t k = 0; k < tree_.groups.size(); ++k) {
      const InferredDims& inferred = At(k);
      const std::string_view block = inferred.by_name.block_path;
      const Shape& shape = ShapeOf(k);
      if (inferred.role == Role::kQuery && shape.size() == 3) {
        outputs.try_emplace(block, Shape{shape[1], shape[2], shape[0]});
      } else if (inferred.role == Role::kQuery && shape.size() == 2) {
        outputs.try_emplace(block, Shape{shape[1], shape[0]});
      } else if (inferred.role == Role::kFusedQkv && shape.size() == 4 &&
                 shape[1] == kJoined) {
        outputs.try_emplace(block, Shape{shape[2], shape[3], shape[0]});
      }
    }
    for (size_t k = 0; k < tree_.groups.size(); ++k) {
      InferredDims& inferred = At(k);
      if (inferred.role != Role::kOther && inferred.role != Role::kDown) {
        continue;
      }
      std::string_view path = inferred.by_name.block_path;
      auto output = outputs.find(path);
      // The end of the name may be an unknown word, as in `lookback/mix/v1`.
      // The block's path is then one part too long, `lookback/mix`, and has no
      // queries. The path without this part, `lookback`, is tried.
      if (output == outputs.end() && inferred.role == Role::kOther) {
        const size_t end = path.rfind(tree_.separator);
        if (end != path.npos) output = outputs.find(path.substr(0, end));
      }
      if (output == outputs.end() || ShapeOf(k) != output->second) continue;
      if (ShapeOf(k).size() == 3 || IsCalledOutput(tree_.groups[k])) {
        inferred.role = Role::kOutput;
      }
    }
  }

  std::vector<Module> Modules() const {
    std::map<std::string_view, int> matrices;
    const auto paths_of = [&](size_t k) {
      std::vector<std::string_view> out;
      std::string_view path = tree_.groups[k].name;
      for (int i = 0; i < kMostBelow; ++i) {
        const size_t end = path.rfind(tree_.separator);
        if (tree_.separator == 0 || end == path.npos) break;
        path = path.substr(0, end);
        out.push_back(path);
      }
      return out;
    };
    for (size_t k = 0; k < tree_.groups.size(); ++k) {
      if (!IsWeightMatrix(tree_.groups[k], dims_.groups[k])) continue;
      for (const std::string_view path : paths_of(k)) ++matrices[path];
    }
    std::map<std::string_view, Module> modules;
    for (size_t k = 0; k < tree_.groups.size(); ++k) {
      for (const std::string_view path : paths_of(k)) {
        if (matrices[path] < 2) continue;
        Module& module = modules[path];
        module.path = path;
        const auto& parts = tree_.groups[k].parts;
        module.mixes =
            module.mixes || dims_.groups[k].role == Role::kStateSpace ||
            std::any_of(parts.begin(), parts.end(),
                        [](auto part) { return IsAmong(part, kMixing); });
        if (IsWeightMatrix(tree_.groups[k], dims_.groups[k])) {
          module.matrices.push_back(k);
        }
        break;
      }
    }
    std::vector<Module> out;
    for (auto& [path, module] : modules) out.push_back(std::move(module));
    return out;
  }

  // Sets a role that sizes show, and the block to which the matrix belongs.
  void SetRole(size_t k, Role role, const std::string& block, Siblings by) {
    InferredDims& inferred = At(k);
    inferred.role = role;
    inferred.siblings = by;
    inferred.by_name.block_path = block;
  }

  // Finds the output next to named queries, keys and values: the only other
  // matrix of the module that has the transposed sizes of the queries.
  void NameOutputOfNamed(const Module& module) {
    std::optional<size_t> query, output;
    bool keys = false, values = false;
    for (const size_t k : module.matrices) {
      const Role role = At(k).role;
      if (role == Role::kOutput) return;
      if (role == Role::kQuery && ShapeOf(k).size() == 2) query = k;
      keys = keys || role == Role::kKey;
      values = values || role == Role::kValue;
    }
    if (!query || !keys || !values) return;
    const Shape wanted = {ShapeOf(*query)[1], ShapeOf(*query)[0]};
    for (const size_t k : module.matrices) {
      if (!IsUnknown(k) || ShapeOf(k) != wanted) continue;
      if (output) return;
      output = k;
    }
    if (!output) return;
    SetRole(*output, Role::kOutput, At(*query).by_name.block_path,
            Siblings::kNames);
  }

  // Finds the projections to and from heads of a module whose matrices have one
  // dimension for heads and one for the columns of a head.
  void NameByHeads(const Module& module) {
    std::optional<size_t> output;
    std::vector<size_t> inputs;
    std::string block = module.path;
    for (const size_t k : module.matrices) {
      const Shape& shape = ShapeOf(k);
      const bool known = At(k).role == Role::kOutput;
      if (shape.size() != 3 || (!IsUnknown(k) && !known)) continue;
      const Shape first = {shape[2], shape[0], shape[1]};
      const bool fits = std::any_of(
          module.matrices.begin(), module.matrices.end(), [&](size_t other) {
            return other != k && ShapeOf(other) == first &&
                   (IsUnknown(other) || At(other).role == Role::kQuery);
          });
      if (!fits) continue;
      // Two matrices of which each may be the output of the other.
      if (output) return;
      output = k;
      if (known) block = At(k).by_name.block_path;
    }
    if (!output) return;
    const Shape& out = ShapeOf(*output);
    for (const size_t k : module.matrices) {
      const Shape& shape = ShapeOf(k);
      if (shape.size() != 3 || k == *output || shape[0] != out[2] ||
          shape[2] != out[1] || shape[1] <= 0 || out[0] % shape[1] != 0) {
        continue;
      }
      if (At(k).role == Role::kQuery) block = At(k).by_name.block_path;
      if (IsUnknown(k)) inputs.push_back(k);
    }
    for (const size_t k : inputs) {
      SetRole(k, ShapeOf(k)[1] == out[0] ? Role::kQuery : Role::kKey, block,
              Siblings::kSizes);
    }
    if (IsUnknown(*output)) {
      SetRole(*output, Role::kOutput, block, Siblings::kSizes);
    }
  }

  // Returns the width if the sizes are those of a fused projection from it to
  // queries, keys and values: 3 times the width or, by the configuration, all
  // heads and KV heads.
  std::optional<int64_t> WidthOfFused(const Shape& shape) const {
    if (shape.size() != 2) return std::nullopt;
    const int64_t width = std::min(shape[0], shape[1]);
    const int64_t fused = std::max(shape[0], shape[1]);
    if (fused / kJoined == width && fused % kJoined == 0) return width;
    const auto heads = ConfiguredHeads(model_);
    const bool fits = heads && model_->hidden == width &&
                      fused == heads->Columns() + 2 * heads->KvColumns();
    return fits ? std::optional(width) : std::nullopt;
  }

  // Returns whether `shape` may be the output of the attention whose queries,
  // keys and values `fused` projects: the columns that are not those of its
  // queries are as many keys as values, and no more than those of the queries.
  static bool MayBeOutput(const Shape& fused, const Shape& shape) {
    for (const int side : {0, 1}) {
      const int64_t width = fused[AsIndex(side)];
      const int64_t inner = fused[AsIndex(1 - side)];
      if (shape[0] != width && shape[1] != width) continue;
      const int64_t queries = shape[0] == width ? shape[1] : shape[0];
      const int64_t rest = inner - queries;
      if (rest > 0 && rest % 2 == 0 && rest / 2 <= queries) return true;
    }
    return false;
  }

  // Returns whether `shape` has the sizes of the output next to a fused
  // projection that only its sizes show: from the width, or from all heads of
  // the configuration, to the width.
  bool IsOutputBySizes(const Shape& fused, const Shape& shape) const {
    const int64_t width = std::min(fused[0], fused[1]);
    const auto heads = ConfiguredHeads(model_);
    const int64_t queries =
        heads && model_->hidden == width ? heads->Columns() : width;
    return (shape[0] == width && shape[1] == queries) ||
           (shape[1] == width && shape[0] == queries);
  }

  // Marks the only other matrices of a module if they are one or two [d, f] and
  // one [f, d], and the output of attention is found elsewhere in their stack.
  void FindFeedForward(const Module& module) {
    std::vector<size_t> unknown;
    for (const size_t k : module.matrices) {
      if (IsUnknown(k)) unknown.push_back(k);
    }
    if (unknown.size() < 2 || unknown.size() > 3) return;
    const std::string_view stack = tree_.groups[unknown.front()].stack();
    bool attention = false;
    for (size_t k = 0; k < tree_.groups.size(); ++k) {
      attention = attention || (At(k).role == Role::kOutput &&
                                tree_.groups[k].stack() == stack);
    }
    const Shape& first = ShapeOf(unknown.front());
    if (!attention || first.size() != 2 || first[0] == first[1]) return;
    const Shape transposed = {first[1], first[0]};
    size_t other = 0;
    for (const size_t k : unknown) {
      if (ShapeOf(k) != first && ShapeOf(k) != transposed) return;
      if (ShapeOf(k) == transposed) ++other;
    }
    if (other == 0 || other == unknown.size()) return;
    for (const size_t k : unknown) At(k).feed_forward = true;
  }

  // Finds a fused projection to queries, keys and values and the output of
  // attention next to it. At least one of them has an unknown name.
  void NameFused(const Module& module) {
    if (module.mixes) {
      // Besides queries, keys and values, `in_proj` of a mixer has gates and
      // decays, so that its columns are not those of heads.
      for (const size_t k : module.matrices) {
        InferredDims& inferred = At(k);
        if (inferred.role == Role::kFusedQkv &&
            inferred.by_name.confidence != Confidence::kSure) {
          inferred.role = Role::kStateSpace;
        }
      }
      return;
    }
    std::vector<size_t> named, unnamed, squares, others;
    bool stacked = false;
    for (const size_t k : module.matrices) {
      const Role role = At(k).role;
      if (IsAttention(role) && role != Role::kOutput &&
          role != Role::kFusedQkv) {
        return;
      }
      if (ShapeOf(k).size() > 2) {
        stacked = true;
        continue;
      }
      if (role == Role::kFusedQkv) {
        named.push_back(k);
      } else if (IsUnknown(k) && WidthOfFused(ShapeOf(k))) {
        unnamed.push_back(k);
      } else if (IsUnknown(k) || role == Role::kOutput ||
                 (role == Role::kDown && IsCalledOutput(tree_.groups[k]))) {
        const bool square = ShapeOf(k)[0] == ShapeOf(k)[1];
        (square ? squares : others).push_back(k);
      }
    }
    if (named.size() + (named.empty() ? unnamed.size() : 0) != 1) return;
    // Without a name, the sizes of the two matrices are the only evidence.
    if (named.empty() && stacked) return;
    const size_t qkv = named.empty() ? unnamed.front() : named.front();
    const Shape& fused = ShapeOf(qkv);
    std::vector<size_t> outputs;
    for (const auto* some : {&squares, &others}) {
      for (const size_t k : *some) {
        const bool fits = named.empty() ? IsOutputBySizes(fused, ShapeOf(k))
                                        : MayBeOutput(fused, ShapeOf(k));
        if (fits) outputs.push_back(k);
      }
      if (!outputs.empty()) break;
    }
    if (outputs.size() != 1) return;
    const size_t output = outputs.front();
    const bool called = At(output).role == Role::kOutput;
    const std::string block = called          ? At(output).by_name.block_path
                              : named.empty() ? module.path
                                              : At(qkv).by_name.block_path;
    if (named.empty()) {
      SetRole(qkv, Role::kFusedQkv, block,
              called ? Siblings::kNames : Siblings::kSizes);
    }
    if (!called) {
      SetRole(output, Role::kOutput, block,
              named.empty() ? Siblings::kSizes : Siblings::kNames);
    }
  }

  const Tree& tree_;
  const ModelConfig* model_;
  ModelDims& dims_;
};

}  // namespace

void NameBySiblings(const Tree& tree, const ModelConfig* model,
                    ModelDims& dims) {
  SiblingRoles(tree, model, dims).Run();
}

}  // namespace shardc::suggest
