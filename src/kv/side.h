// Directory: kv. Maps a KV cache from the devices of one plan to those of
// another, as a server does that hands a request from prefill to decode.
// Its files include headers of these directories: source, model, plan.
//
// A side is the layout of the cache in one mode of one plan: which layers,
// heads and tokens of a request each device has. Requests are sharded over the
// axes of the batch: all tokens of a request are on the devices of one data
// parallel rank, and only these are listed. For example, 8 KV heads with the
// key's heads over tp:4 of mesh dp:2,tp:4, in the data parallel rank 1:
//
//   device 4: heads 0-1, device 5: heads 2-3, device 6: .., device 7: heads 6-7
#ifndef SHARDC_KV_SIDE_H_
#define SHARDC_KV_SIDE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/axis_rules.h"
#include "model/dtype.h"
#include "plan/kv_layout.h"
#include "plan/plan_stages.h"
#include "plan/plan_table.h"
#include "source/finding.h"

namespace shardc::kv {

// The order of the dimensions of a page: heads, tokens, numbers of a head; or
// tokens, heads, numbers of a head.
enum class Order : uint8_t { kHnd, kNhd };

// What a side's plan does not state, because it is a setting of the server.
struct SideSettings {
  Mode mode = Mode::kPrefill;
  Dtype dtype = Dtype::kBF16;       // of keys, values, latent rows and indexers
  Dtype state_dtype = Dtype::kF32;  // of states
  Dtype conv_dtype = Dtype::kBF16;  // of inputs of convolutions
  std::optional<int64_t> page;      // the tokens of a page
  std::optional<Order> order;
  // True if a page holds keys and values of a layer next to each other.
  bool joint = false;
  int64_t dp_rank = 0;
  // The number of consecutive tokens that a device has if the tokens are
  // sharded: tokens 0 to n - 1 are on the first part, the next n on the second,
  // and so on. 0 if the tokens are divided into one block for each part.
  std::optional<int64_t> interleave;
  // The number of layers of a draft model, behind the model's layers, that have
  // the sizes of the model's last layer.
  int64_t draft = 0;
};

// A kind of layers that both sides have. Draft layers are a kind of their own.
struct Kind {
  KvKind is;
  bool draft = false;

  // Returns whether all devices have the one head of the kind.
  bool IsReplicated() const {
    return is.kind == KvKindName::kLatent || is.kind == KvKindName::kIndexer;
  }
  // Returns whether tokens are stored in pages.
  bool IsPaged() const {
    return IsReplicated() || is.kind == KvKindName::kFull ||
           is.kind == KvKindName::kWindow;
  }
  // Returns the number of tokens that are kept of a request of `tokens`. A
  // state counts as one token.
  int64_t Kept(int64_t tokens) const;
  // Returns the tensors of a layer, for example 2 for keys and values.
  int64_t Tensors() const;
  std::string Name() const;  // such as "window", or "full, draft"
};

// Returns the bytes that a side stores for one token and one head of a layer.
int64_t BytesOfHead(const Kind& kind, const SideSettings& settings);

struct Holder {
  int64_t device = 0;  // the position in the mesh (model/mesh_layout.h)
  int64_t stage_rank = 0;
  int64_t token_part = 0;
  std::vector<int64_t> head_part;  // indexed by kind
};

struct Side {
  SideSettings settings;
  int64_t dp_ranks = 1;
  int64_t token_parts = 1;
  std::vector<int64_t> head_parts;  // indexed by kind
  // Indexed by pipeline rank: the layers of its stages, ascending and disjoint.
  // One entry with all layers for a plan without stages.
  std::vector<std::vector<LayerRange>> layers_of_rank;
  std::vector<Holder> holders;  // the devices of the data parallel rank

  // Returns the heads of a holder.
  LayerRange HeadsOf(const Kind& kind, size_t index,
                     const Holder& holder) const;
  // Returns the part that has a token, and the number of earlier tokens in this
  // part, for a request of `tokens` tokens.
  struct At {
    int64_t part = 0, index = 0;
  };
  At Locate(int64_t token, int64_t tokens) const;
};

// Returns the kinds of layers of a plan with draft layers, or of `fallback` if
// the plan states none.
std::vector<Kind> KindsOf(const ReadPlan& plan,
                          const std::vector<KvKind>& fallback, int64_t draft);

// Makes a side of a plan. Adds a reason to `refused` for each property for
// which no map can be made, such as axes that split a head. `name` is "source"
// or "destination". Returns nullopt after a finding, if the plan lacks the mode
// or the data parallel rank, or has too many devices.
std::optional<Side> SideOf(const ReadPlan& plan, const std::vector<Kind>& kinds,
                           const SideSettings& settings, std::string_view name,
                           std::vector<std::string>& refused,
                           Findings& findings);

// Returns the layers that both lists have. Lists are ascending and disjoint.
std::vector<LayerRange> Common(const std::vector<LayerRange>& a,
                               const std::vector<LayerRange>& b);
int64_t CountOf(const std::vector<LayerRange>& ranges);

}  // namespace shardc::kv

#endif  // SHARDC_KV_SIDE_H_
