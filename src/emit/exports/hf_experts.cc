// Chooses the styles of experts for transformers. A style is the name of the
// way in which transformers shards a module or tensor. If all tensors are
// sharded over the experts, each tensor has the style `grouped_gemm`.
//
// Otherwise each device computes its part of every expert's inner width, and
// the module's hook `moe_tp_experts` sums the results of all devices. The sum
// is correct only if all projections are sharded over the inner width. Which
// dimension this is depends on the orientation of the tensors. For example:
//
//   gate_up_proj [experts, 2 * inner, width], down_proj [experts, width, inner]
//     -> "packed_colwise", "rowwise"
//   gate_up_proj [experts, width, 2 * inner], down_proj [experts, inner, width]
//     -> "packed_rowwise", "colwise"
#include "emit/exports/hf_experts.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "source/index.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

constexpr std::string_view kUneven =
    "its projections are not sharded over one inner width";

// Returns the style of a projection of experts that is sharded along dimension
// `dim`. The tensors are [experts, inner, width] or [experts, width, inner].
// `down_dim` is the dimension of the inner width in `down_proj`: 1 or 2. In all
// other projections, the inner width is the other of these two dimensions. If
// such a projection is sharded along another dimension, returns an empty text.
std::string StyleOf(std::string_view leaf, int64_t dim, int64_t down_dim) {
  if (leaf == "down_proj") return dim == 2 ? "rowwise" : "colwise";
  if (dim + down_dim != 3) return "";
  const bool packed = leaf == "gate_up_proj";
  return std::string(packed ? "packed_" : "") +
         (dim == 2 ? "rowwise" : "colwise");
}

// Returns whether two projections of experts have the same inner width and the
// same width. `up_dim` is the dimension of the inner width in `up`, and
// `down_dim` is that in `down`. `parts` is the number of projections that `up`
// holds. For example, `up` [experts, 2 * inner, width] has 2 parts and `up_dim`
// 1, and `down` [experts, width, inner] has `down_dim` 2. Returns true if a
// shape is unknown or differs between layers.
bool SameWidth(const HfTensor& up, int64_t up_dim, int64_t parts,
               const HfTensor& down, int64_t down_dim) {
  if (up.shapes.size() != 1 || down.shapes.size() != 1) return true;
  const Shape& in = *up.shapes.begin();
  const Shape& out = *down.shapes.begin();
  const auto at = [](const Shape& shape, int64_t dim) {
    return shape[AsIndex(dim)];
  };
  return at(in, up_dim) == parts * at(out, down_dim) &&
         at(in, 3 - up_dim) == at(out, 3 - down_dim);
}

ExpertStyles Because(std::string reason) {
  ExpertStyles out;
  out.reason = std::move(reason);
  return out;
}

}  // namespace

bool HasIdentityExperts(const HfModule& experts) {
  const HfTensor* const up = experts.Find("gate_up_proj");
  const HfTensor* const down = experts.Find("down_proj");
  if (up == nullptr || down == nullptr || up->shapes.size() != 1 ||
      down->shapes.size() != 1) {
    return false;
  }
  const Shape& in = *up->shapes.begin();
  const Shape& out = *down->shapes.begin();
  return in.size() == 3 && out.size() == 3 && in[0] > out[0];
}

ExpertStyles StylesOfExperts(const HfModule& experts, bool packed) {
  ExpertStyles out;
  bool all_first = true;
  for (const auto& [leaf, tensor] : experts.tensors) {
    const AxisSharding* const same = tensor.Same();
    if (same == nullptr) {
      return Because("layers have different shardings of " + ShortQuote(leaf));
    }
    if (same->placed) {
      return Because("its tensors are placed at one coordinate of an axis");
    }
    if (same->stride > 1) {
      return Because("other axes shard a dimension before the exported axis");
    }
    // A `gate_up_proj` that the plan shards as one part is packed as well,
    // because the computation needs a part of both matrices.
    const int64_t most = leaf == "gate_up_proj" && same->dim > 0 ? 2 : 1;
    if (same->parts > most) {
      return Because("the plan divides each of " +
                     Counted(same->parts, "part") + " of " + ShortQuote(leaf));
    }
    all_first = all_first && same->dim == 0;
    out.leaves[leaf] = "grouped_gemm";
  }
  if (all_first) {
    out.module = "ep_dispatch_experts";
    out.by_expert = true;
    return out;
  }
  const HfTensor* const down = experts.Find("down_proj");
  if (down == nullptr) return Because("it has no `down_proj`");
  const int64_t down_dim = down->Same()->dim;
  if (down->Same()->rank != 3 || down_dim < 1) {
    return Because(std::string(kUneven));
  }
  for (auto& [leaf, style] : out.leaves) {
    const HfTensor& tensor = *experts.Find(leaf);
    if (tensor.Same()->rank != 3) {
      return Because("each device would add all of " + ShortQuote(leaf));
    }
    style = StyleOf(leaf, tensor.Same()->dim, down_dim);
    const int64_t parts = leaf == "gate_up_proj" ? 2 : 1;
    if (style.empty() || tensor.Same()->dim < 1 ||
        (leaf != "down_proj" &&
         !SameWidth(tensor, tensor.Same()->dim, parts, *down, down_dim))) {
      return Because(std::string(kUneven));
    }
    if (!packed && style.starts_with("packed_")) {
      return Because(
          "it packs two projections, which this version of "
          "transformers cannot shard");
    }
  }
  out.module = "moe_tp_experts";
  return out;
}

}  // namespace shardc::exports
