// Heads are the configuration's where they fit the block, else what its own
// vectors say, else of a likely size that divides all of its projections:
//
//   q [4096, d], k [1024, d], q_norm [128]  ->  32 heads of 128, 8 KV heads
//   qkv [4672, 4544], o [4544, 4544]        ->  64 divides 4544 and
//                                               (4672 - 4544) / 2: 71 and 1
#include "suggest/heads.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>

namespace shardc::suggest {
namespace {

constexpr std::array<int64_t, 5> kLikely = {64, 80, 96, 128, 256};
// Narrower models have heads of 64 most often, others of 128.
constexpr int64_t kNarrow = 2048;

// The kinds of one block of attention.
struct Block {
  std::vector<size_t> queries, keys, outputs, fused, joined, latents, vectors;
  int64_t width = 0;
};

struct Heads {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool assumed = false;
};

class Reader {
 public:
  Reader(const Tree& tree, const ModelConfig* model, int64_t parts,
         Readings& readings)
      : tree_(tree), model_(model), parts_(parts), readings_(readings) {}

  void Read() {
    std::map<std::string_view, Block> blocks;
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      const Reading& reading = readings_.kinds[k];
      const bool vector =
          reading.part == Part::kHeadVector || reading.part == Part::kPosition;
      if (!vector && (!IsAttention(reading.part) || !reading.IsMatrix())) {
        continue;
      }
      Put(blocks[reading.name.family], reading, k);
    }
    for (auto& [family, block] : blocks) {
      if (block.latents.empty()) {
        ReadPlain(family, block);
      } else {
        ReadLatent(block);
      }
    }
    for (Reading& reading : readings_.kinds) {
      if (!reading.IsMatrix() || !reading.units.empty()) continue;
      if (reading.part == Part::kGateUp) {
        reading.units = {reading.inner_size / 2};
        if (reading.inner_size % 2 != 0) reading.units = {1};
      }
    }
  }

 private:
  void Put(Block& block, const Reading& reading, size_t k) {
    if (reading.IsMatrix()) {
      block.width = std::max(block.width, reading.width_size);
    }
    switch (reading.part) {
      case Part::kQuery:
        block.queries.push_back(k);
        break;
      case Part::kKey:
      case Part::kValue:
        block.keys.push_back(k);
        break;
      case Part::kKeyValue:
        block.joined.push_back(k);
        break;
      case Part::kQkv:
        block.fused.push_back(k);
        break;
      case Part::kOutput:
        block.outputs.push_back(k);
        break;
      case Part::kLatentUp:
        block.latents.push_back(k);
        break;
      default:
        block.vectors.push_back(k);
    }
  }

  Reading& At(size_t k) { return readings_.kinds[k]; }

  // Latent attention: heads are of other widths in each projection.
  void ReadLatent(Block& block) {
    std::vector<size_t> all = block.latents;
    all.insert(all.end(), block.outputs.begin(), block.outputs.end());
    all.insert(all.end(), block.queries.begin(), block.queries.end());
    int64_t common = 0;
    for (const size_t k : all) common = std::gcd(common, At(k).inner_size);
    int64_t heads = model_ != nullptr ? model_->heads.value_or(0) : 0;
    if (heads <= 0 || common % heads != 0) {
      heads = std::max<int64_t>(1, common / 128);
      while (common % heads != 0) --heads;
      readings_.facts.heads_assumed = true;
    }
    for (const size_t k : all) At(k).units = {heads};
    Say({heads, heads, 0, false});
  }

  // Of projections that pack several, what the query takes.
  int64_t QueryWidth(const Block& block) {
    for (const size_t k : block.outputs) return At(k).inner_size;
    for (const size_t k : block.queries) return At(k).inner_size;
    for (const size_t k : block.fused) {
      if (At(k).inner_size == 3 * At(k).width_size) return At(k).width_size;
    }
    return 0;
  }

  int64_t KeyWidth(const Block& block, int64_t query) {
    for (const size_t k : block.keys) return At(k).inner_size;
    for (const size_t k : block.joined) return At(k).inner_size / 2;
    for (const size_t k : block.fused) {
      const int64_t rest = At(k).inner_size - query;
      if (query > 0 && rest > 0 && rest % 2 == 0) return rest / 2;
    }
    return query;
  }

  // As the configuration says, where the widths are what it says.
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

  // A norm of one head's columns, or a number for each head.
  int64_t ToldByVectors(const Block& block, int64_t query, int64_t key) {
    for (const size_t k : block.vectors) {
      const Kind& kind = tree_.kinds[k];
      if (At(k).part == Part::kPosition) {
        const int64_t heads = kind.rank() == 2 ? kind.shape.back() : 0;
        if (heads > 1 && query % heads == 0 && key % (query / heads) == 0) {
          return query / heads;
        }
        continue;
      }
      if (kind.rank() != 1 || kind.shape[0] <= 1) continue;
      const int64_t size = kind.shape[0];
      const bool norm = kind.name.find("norm") != std::string::npos;
      if (norm && size < query && query % size == 0 && key % size == 0) {
        return size;
      }
      if (!norm && query % size == 0 && key % (query / size) == 0) {
        return query / size;
      }
    }
    return 0;
  }

  Heads Guessed(const Block& block, int64_t query, int64_t key) {
    const int64_t common = std::gcd(query, key);
    Heads out;
    out.head_dim = ToldByVectors(block, query, key);
    out.assumed = out.head_dim == 0;
    const int64_t preferred = block.width < kNarrow ? 64 : 128;
    if (out.assumed && common % preferred == 0) out.head_dim = preferred;
    for (const int64_t likely : kLikely) {
      if (out.head_dim == 0 && common % likely == 0) out.head_dim = likely;
    }
    if (out.head_dim == 0) out.head_dim = common;
    // A cut in thirds that one likely size allows, another may not.
    if (out.assumed && (parts_ & (parts_ - 1)) != 0) {
      for (const int64_t likely : kLikely) {
        if (common % likely == 0) {
          out.head_dim = std::lcm(out.head_dim, likely);
        }
      }
      if (common % out.head_dim != 0) out.head_dim = common;
    }
    out.heads = query / out.head_dim;
    out.kv_heads = key / out.head_dim;
    return out;
  }

  void ReadPlain(std::string_view, Block& block) {
    const int64_t query = QueryWidth(block);
    if (query <= 0) {
      // Nothing tells the heads: no cut is known to be between two.
      for (const auto* kinds : {&block.fused, &block.keys, &block.joined}) {
        for (const size_t k : *kinds) {
          if (At(k).units.empty()) At(k).units = {1};
        }
      }
      return;
    }
    const int64_t key = std::max<int64_t>(1, KeyWidth(block, query));
    Heads heads;
    const auto unfolded = Unfolded(block);
    if (unfolded) {
      heads = *unfolded;
    } else if (const auto said = Configured(query, key)) {
      heads = *said;
    } else {
      heads = Guessed(block, query, key);
    }
    if (heads.assumed) readings_.facts.heads_assumed = true;
    Say(heads);
    for (const auto* kinds : {&block.queries, &block.outputs}) {
      for (const size_t k : *kinds) {
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
    for (const size_t k : block.joined) Set(k, {heads.kv_heads});
    for (const size_t k : block.fused) {
      const bool packs = At(k).inner_size == query + 2 * key;
      Set(k, packs ? std::vector<int64_t>{heads.heads, heads.kv_heads}
                   : std::vector<int64_t>{1});
    }
  }

  // Heads that are a dimension of their own.
  std::optional<Heads> Unfolded(const Block& block) {
    Heads out;
    for (const auto* kinds : {&block.queries, &block.outputs}) {
      for (const size_t k : *kinds) {
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

  void Say(const Heads& heads) {
    std::string text = std::to_string(heads.heads) + " heads";
    if (heads.head_dim > 0) text += " of " + std::to_string(heads.head_dim);
    if (heads.kv_heads != heads.heads) {
      text += ", " + std::to_string(heads.kv_heads) +
              (heads.kv_heads == 1 ? " KV head" : " KV heads");
    }
    auto& said = readings_.facts.heads;
    if (std::find(said.begin(), said.end(), text) == said.end()) {
      said.push_back(std::move(text));
    }
  }

  const Tree& tree_;
  const ModelConfig* model_;
  int64_t parts_;
  Readings& readings_;
};

}  // namespace

void ReadHeads(const Tree& tree, const ModelConfig* model, int64_t tensor_parts,
               Readings& readings) {
  Reader(tree, model, tensor_parts, readings).Read();
}

}  // namespace shardc::suggest
