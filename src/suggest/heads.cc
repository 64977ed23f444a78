// Infers the number of heads of an attention block. The first of these sources
// that is available determines the number:
// - a dimension of the projections that counts heads
// - the model's configuration, if it fits the sizes of the block
// - a vector of the block, such as the norm of the queries of one head
// - an assumed head size, such as 64 or 128, that divides all projections
//
// For example, where d is the model's width:
//
//   q [4096, d], k [1024, d], q_norm [128]  ->  32 heads of 128, 8 KV heads
//   qkv [4672, 4544], o [4544, 4544]        ->  71 heads of 64, 1 KV head
//
// In the second block, the second dimension of o shows that the queries have
// 4544 rows of qkv. The other 4672 - 4544 = 128 rows are keys and values, 64
// each. The head size 64 is assumed, because it divides 4544 and 64.
#include "suggest/dims.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>

#include "roles/described.h"
#include "source/list.h"

namespace shardc::suggest {
namespace {

// Common head sizes, in columns, in the order in which they are tried.
constexpr std::array<int64_t, 5> kLikely = {64, 80, 96, 128, 256};
// Most models whose width is less than this have heads of 64 columns. Most
// wider models have heads of 128 columns.
constexpr int64_t kNarrow = 2048;
// The head size that is assumed for latent attention.
constexpr int64_t kLatentHead = 128;

// The indices of the parameter groups of one attention block.
struct AttentionBlock {
  std::vector<size_t> queries, keys, outputs, fused, joined, latents, vectors;
  int64_t width = 0;
};

class HeadInference {
 public:
  HeadInference(const Tree& tree, const ModelConfig* model, int64_t parts,
                ModelDims& dims)
      : tree_(tree), model_(model), parts_(parts), dims_(dims) {}

  void Run() {
    std::map<std::string_view, AttentionBlock> blocks;
    for (size_t k = 0; k < tree_.groups.size(); ++k) {
      const InferredDims& inferred = dims_.groups[k];
      const bool vector =
          IsHeadVector(inferred.role) || inferred.role == Role::kPosition;
      if (!vector && (!IsAttention(inferred.role) || !inferred.IsMatrix())) {
        continue;
      }
      Put(blocks[inferred.by_name.block_path], inferred, k);
    }
    for (auto& [path, block] : blocks) {
      if (block.latents.empty()) {
        SetPlain(block);
      } else {
        SetLatent(block);
      }
    }
    auto& texts = dims_.facts.heads;
    if (!fits_ && !texts.empty()) texts.back() += ", unlike config.json";
    for (InferredDims& inferred : dims_.groups) {
      if (!inferred.IsMatrix() || !inferred.units.empty()) continue;
      if (inferred.role == Role::kFusedGateUp) {
        const bool halves = inferred.inner_size % 2 == 0;
        inferred.units = {halves ? inferred.inner_size / 2 : 1};
      }
    }
  }

 private:
  void Put(AttentionBlock& block, const InferredDims& inferred, size_t k) {
    if (inferred.IsMatrix()) {
      block.width = std::max(block.width, inferred.width_size);
    }
    switch (inferred.role) {
      case Role::kQuery:
        block.queries.push_back(k);
        break;
      case Role::kKey:
      case Role::kValue:
        block.keys.push_back(k);
        break;
      case Role::kFusedKeyValue:
        block.joined.push_back(k);
        break;
      case Role::kFusedQkv:
        block.fused.push_back(k);
        break;
      case Role::kOutput:
        block.outputs.push_back(k);
        break;
      case Role::kLatentUp:
        block.latents.push_back(k);
        break;
      default:
        block.vectors.push_back(k);
    }
  }

  InferredDims& At(size_t k) { return dims_.groups[k]; }

  // Sets the number of heads of a block with latent attention. In such a block,
  // the size of a head differs from one projection to another.
  void SetLatent(AttentionBlock& block) {
    std::vector<size_t> all = block.latents;
    all.insert(all.end(), block.outputs.begin(), block.outputs.end());
    all.insert(all.end(), block.queries.begin(), block.queries.end());
    int64_t common = 0;
    for (const size_t k : all) common = std::gcd(common, At(k).inner_size);
    int64_t heads = model_ != nullptr ? model_->heads.value_or(0) : 0;
    if (heads <= 0 || common % heads != 0) {
      heads = std::max<int64_t>(1, common / kLatentHead);
      while (common % heads != 0) --heads;
      dims_.facts.heads_assumed = true;
    }
    for (const size_t k : all) At(k).units = {heads};
    AddText({heads, heads, 0, dims_.facts.heads_assumed});
  }

  // Returns the number of columns of all query heads together; 0 if it is
  // unknown.
  int64_t QueryWidth(const AttentionBlock& block) {
    for (const size_t k : block.outputs) return At(k).inner_size;
    for (const size_t k : block.queries) return At(k).inner_size;
    for (const size_t k : block.fused) {
      if (At(k).inner_size == 3 * At(k).width_size) return At(k).width_size;
      const auto heads = ConfiguredHeads(model_);
      if (heads &&
          At(k).inner_size == heads->Columns() + 2 * heads->KvColumns()) {
        return heads->Columns();
      }
    }
    return 0;
  }

  // Returns the number of columns of all KV heads together; `query`, the
  // columns of the query heads, if it is unknown.
  int64_t KeyWidth(const AttentionBlock& block, int64_t query) {
    for (const size_t k : block.keys) return At(k).inner_size;
    for (const size_t k : block.joined) return At(k).inner_size / 2;
    for (const size_t k : block.fused) {
      const int64_t rest = At(k).inner_size - query;
      if (query > 0 && rest > 0 && rest % 2 == 0) return rest / 2;
    }
    return query;
  }

  // Returns the heads of the configuration, or nullopt if their number and size
  // contradict the widths of the query and the key. If only the number of KV
  // heads contradicts the width of the key, this number is computed from the
  // width.
  std::optional<Heads> Configured(int64_t query, int64_t key) const {
    if (model_ == nullptr || !model_->heads) return std::nullopt;
    Heads out;
    out.heads = *model_->heads;
    out.kv_heads = model_->kv_heads.value_or(out.heads);
    if (out.heads <= 0 || query % out.heads != 0) return std::nullopt;
    out.head_dim = model_->head_dim.value_or(query / out.heads);
    if (out.head_dim * out.heads != query) return std::nullopt;
    if (key % out.head_dim != 0) return std::nullopt;
    if (key != out.kv_heads * out.head_dim) out.kv_heads = key / out.head_dim;
    return out;
  }

  // Returns the size of a head, derived from a vector of the block: a norm over
  // the columns of one head, or a vector or position table with a number for
  // each head. Returns 0 if the block has no such vector.
  int64_t HeadSizeOfVectors(const AttentionBlock& block, int64_t query,
                            int64_t key) {
    for (const size_t k : block.vectors) {
      const ParameterGroup& group = tree_.groups[k];
      if (At(k).role == Role::kPosition) {
        const int64_t heads = group.rank() == 2 ? group.shape.back() : 0;
        if (heads > 1 && query % heads == 0 && key % (query / heads) == 0) {
          return query / heads;
        }
        continue;
      }
      if (group.rank() != 1 || group.shape[0] <= 1) continue;
      const int64_t size = group.shape[0];
      const bool norm = IsNorm(At(k).role);
      if (norm && size < query && query % size == 0 && key % size == 0) {
        return size;
      }
      if (!norm && query % size == 0 && key % (query / size) == 0) {
        return query / size;
      }
    }
    return 0;
  }

  // Returns the heads of a block whose head size is that of a vector, or else
  // assumed. Returns nullopt if the heads would not divide by the KV heads: the
  // columns are then not those of queries, keys and values.
  std::optional<Heads> Guessed(const AttentionBlock& block, int64_t query,
                               int64_t key) {
    const int64_t common = std::gcd(query, key);
    Heads out;
    out.head_dim = HeadSizeOfVectors(block, query, key);
    out.assumed = out.head_dim == 0;
    const int64_t preferred = block.width < kNarrow ? 64 : 128;
    if (out.assumed && common % preferred == 0) out.head_dim = preferred;
    for (const int64_t likely : kLikely) {
      if (out.head_dim == 0 && common % likely == 0) out.head_dim = likely;
    }
    // The true size of a head divides the columns that are common to queries
    // and keys. Shards of complete multiples of all of them never split a head.
    out.likely = out.head_dim != 0;
    if (!out.likely) out.head_dim = common;
    // The assumed head size may be wrong: 768 columns are 12 heads of 64 or 8
    // heads of 96. Three shards divide 12 heads, but not 8. If the number of
    // shards is not a power of two, the assumed size is a multiple of all
    // likely sizes that divide the columns, so that no shard ends inside a
    // head.
    if (out.assumed && (parts_ & (parts_ - 1)) != 0) {
      for (const int64_t likely : kLikely) {
        if (common % likely == 0) {
          out.head_dim = std::lcm(out.head_dim, likely);
        }
      }
      if (common % out.head_dim != 0) out.head_dim = common;
      out.likely = IsAmong(out.head_dim, kLikely);
    }
    out.heads = query / out.head_dim;
    out.kv_heads = key / out.head_dim;
    if (out.heads % std::max<int64_t>(1, out.kv_heads) != 0) {
      return std::nullopt;
    }
    return out;
  }

  // Marks projections whose number of heads nothing shows. tp must divide each
  // of `units`. No tp larger than 1 divides the number 1, so these dimensions
  // stay unsharded: it is unknown where one head ends and the next begins.
  void SetUnknown(const AttentionBlock& block) {
    for (const auto* groups : {&block.queries, &block.outputs, &block.fused,
                               &block.keys, &block.joined}) {
      for (const size_t k : *groups) {
        if (!At(k).units.empty()) continue;
        At(k).units = {1};
        At(k).heads_unknown = true;
      }
    }
  }

  void SetPlain(AttentionBlock& block) {
    const int64_t query = QueryWidth(block);
    if (query <= 0) return SetUnknown(block);
    const int64_t key = std::max<int64_t>(1, KeyWidth(block, query));
    Heads heads;
    if (const auto unfolded = Unfolded(block)) {
      heads = *unfolded;
    } else if (const auto configured = Configured(query, key)) {
      heads = *configured;
    } else if (const auto guessed = Guessed(block, query, key)) {
      heads = *guessed;
    } else {
      return SetUnknown(block);
    }
    if (heads.assumed) dims_.facts.heads_assumed = true;
    // An output alone does not show how many heads the queries have.
    if (!heads.assumed || !block.queries.empty() || !block.fused.empty()) {
      AddText(heads);
    }
    for (const auto* groups : {&block.queries, &block.outputs}) {
      for (const size_t k : *groups) {
        Set(k, At(k).inner_size % heads.heads == 0
                   ? std::vector<int64_t>{heads.heads}
                   : std::vector<int64_t>{1});
      }
    }
    for (const size_t k : block.keys) {
      Set(k, At(k).inner_size % heads.head_dim == 0
                 ? std::vector<int64_t>{At(k).inner_size / heads.head_dim}
                 : std::vector<int64_t>{1});
    }
    for (const auto* groups : {&block.queries, &block.outputs, &block.fused,
                               &block.keys, &block.joined}) {
      for (const size_t k : *groups) At(k).heads_unknown = !heads.likely;
    }
    for (const size_t k : block.joined) Set(k, {heads.kv_heads});
    for (const size_t k : block.fused) {
      const bool packs = At(k).inner_size == query + 2 * key;
      Set(k, packs ? std::vector<int64_t>{heads.heads, heads.kv_heads}
                   : std::vector<int64_t>{1});
    }
  }

  // Returns the number and size of the heads from a projection that has one
  // dimension for heads and one for columns; nullopt if the block has no such
  // projection.
  std::optional<Heads> Unfolded(const AttentionBlock& block) {
    Heads out;
    for (const auto* groups : {&block.queries, &block.outputs}) {
      for (const size_t k : *groups) {
        if (!At(k).units.empty()) out.heads = At(k).units[0];
      }
    }
    if (out.heads == 0) return std::nullopt;
    out.kv_heads = out.heads;
    for (const size_t k : block.keys) {
      if (!At(k).units.empty()) out.kv_heads = At(k).units[0];
    }
    out.head_dim = std::max<int64_t>(1, QueryWidth(block) / out.heads);
    return out;
  }

  void Set(size_t k, std::vector<int64_t> units) {
    if (At(k).units.empty()) At(k).units = std::move(units);
  }

  void AddText(const Heads& heads) {
    if (!heads.likely) return;
    std::string text = std::to_string(heads.heads) + " heads";
    if (heads.head_dim > 0) text += " of " + std::to_string(heads.head_dim);
    if (heads.kv_heads != heads.heads) {
      text += ", " + std::to_string(heads.kv_heads) +
              (heads.kv_heads == 1 ? " KV head" : " KV heads");
    }
    if (heads.assumed) text += " (head size assumed)";
    fits_ =
        fits_ || !stated_ || heads.head_dim == 0 ||
        (heads.heads == stated_->heads && heads.kv_heads == stated_->kv_heads &&
         heads.head_dim == stated_->head_dim);
    auto& texts = dims_.facts.heads;
    AddOnce(texts, std::move(text));
  }

  const Tree& tree_;
  const ModelConfig* model_;
  int64_t parts_;
  ModelDims& dims_;
  const std::optional<Heads> stated_ = ConfiguredHeads(model_);
  // Whether some block has the heads of the configuration, or it states none.
  bool fits_ = false;
};

}  // namespace

std::optional<Heads> ConfiguredHeads(const ModelConfig* model) {
  if (model == nullptr) return std::nullopt;
  const auto stated = HeadsOf(*model);
  if (!stated) return std::nullopt;
  return Heads{.heads = stated->heads,
               .kv_heads = stated->kv_heads,
               .head_dim = stated->head_dim};
}

void InferHeads(const Tree& tree, const ModelConfig* model,
                int64_t tensor_parts, ModelDims& dims) {
  HeadInference(tree, model, tensor_parts, dims).Run();
}

}  // namespace shardc::suggest
