// Collects the matrices that neither a section, nor a word of their names, nor
// their place in a block shows to be a matmul of the step. A tree may have
// known names but for one:
//
//   model.layers.*.mlp.up_proj.weight  ->  known by its word
//   unlex.weight                       ->  the head, or a table, or unused
//
// The logits of such a model are not known, and so is the peak of its memory.
#include "cost/unknown_roles.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/name.h"
#include "roles/described.h"
#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::cost {
namespace {

// Words of published models for matrices, kernels and tables to which no role
// belongs: embeddings of token types and codebooks, projections of CLIP and
// OPT, the transforms before the heads of BERT and its kin, and the layer that
// joins two tokens for multi-token prediction. Of these, the matrices in layers
// are matmuls of a step. The others are less than 1 % of it and are left out.
constexpr std::string_view kPublished[] = {
    "embed",           "embedding",       "embeddings",
    "embedder",        "adapter_list",    "conv",
    "convs",           "dwconv",          "visual_projection",
    "classifier",      "text_projection", "pooler",
    "project_in",      "project_out",     "eh_proj",
    "vocab_transform", "transform.dense", "lm_head.dense"};

// Returns the last three parts of a name, not counting numbers: the parameter's
// own, those of its module and of the module around it. Modules further outside
// say nothing about the parameter: `text_embedder.layers.0.x.weight` is no
// embedding.
std::string_view OwnParts(std::string_view name) {
  size_t begin = name.size();
  for (int part = 0; part < 3 && begin > 0;) {
    const size_t at = name.find_last_of("./", begin - 1);
    if (at == name.npos) return name;
    const std::string_view own = name.substr(at + 1, begin - at - 1);
    if (own.find_first_not_of("*0123456789") != own.npos) ++part;
    begin = at;
  }
  return name.substr(begin);
}

// Returns whether the text has the word between characters that are no letters:
// `short_conv` and `conv1d` have `conv`, and `conversation` has not.
bool HasWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos;
       at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !IsLetter(text[at - 1]);
    if (begins && (end == text.size() || !IsLetter(text[end]))) return true;
  }
  return false;
}

bool IsPublished(const CostInputs& work, const ParamClass& param) {
  // Zamba has a projection behind each mixer that attends.
  const bool zamba = work.model && work.model->model_type.starts_with("zamba");
  return (zamba && param.name.ends_with("layers.*.linear.weight")) ||
         std::any_of(std::begin(kPublished), std::end(kPublished),
                     [&](std::string_view word) {
                       return HasWord(OwnParts(param.name), word);
                     });
}

bool IsKnown(const CostInputs& work, const ParamClass& param) {
  const ParameterRole& role = param.role;
  const bool named = role.module_role != Role::kOther ||
                     (role.role != Role::kOther && role.role != Role::kVector &&
                      role.role != Role::kBias);
  if (param.strange) return param.stream == Stream::kNone;
  return param.described || param.mixes || named ||
         param.stream == Stream::kNone || IsPublished(work, param);
}

// Returns the number of dimensions of more than one element, without those that
// count layers.
int DimsOf(const ParamClass& param) {
  const Shape& shape = *param.type.shape;
  const auto first =
      shape.begin() + std::min<ptrdiff_t>(param.layer_dims, std::ssize(shape));
  return static_cast<int>(
      std::count_if(first, shape.end(), [](int64_t size) { return size > 1; }));
}

// Collects the parameters of one missing fact.
class Collected {
 public:
  void Add(const ParamClass& param) {
    count_ += param.count;
    const auto elements = CheckedProduct(*param.type.shape);
    std::optional<int64_t> bytes;
    if (elements && param.type.dtype) {
      bytes = BytesOf(*elements, *param.type.dtype);
      if (bytes) bytes = CheckedMul(*bytes, param.count);
    }
    bytes_ = bytes_ && bytes ? CheckedAdd(*bytes_, *bytes) : std::nullopt;
    if (seen_.insert(param.name).second) names_.push_back(param.name);
  }

  void Finish(std::string_view singular, std::string_view plural,
              std::vector<NotKnown>& out) {
    if (count_ == 0) return;
    out.push_back({.what = "the role of " + Counted(count_, singular, plural),
                   .params = std::move(names_),
                   .bytes = bytes_,
                   .settled_by = "a `model:` section in the rules"});
  }

 private:
  int64_t count_ = 0;
  std::optional<int64_t> bytes_ = 0;
  std::vector<std::string> names_;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace

std::vector<NotKnown> UnknownRoles(const CostInputs& work) {
  const auto hidden = work.Hidden();
  Collected matrices, vectors, strange_vectors;
  bool has_norm = false;
  for (const ParamClass& param : work.params) {
    has_norm = has_norm || param.role.module_role == Role::kNorm;
    if (!param.type.shape || IsKnown(work, param)) continue;
    const int dims = DimsOf(param);
    if (dims > 1) {
      matrices.Add(param);
    } else if (dims == 1 && hidden && param.type.shape->back() == *hidden &&
               param.role.leaf != Leaf::kBias) {
      (param.strange ? strange_vectors : vectors).Add(param);
    }
  }
  std::vector<NotKnown> out;
  matrices.Finish("matrix", "matrices", out);
  // The input of each norm is kept for the backward pass. A vector of the
  // model's width may be a norm if its name has a word of no published model,
  // or if no norm is known.
  strange_vectors.Finish("vector", "vectors", out);
  if (!has_norm) vectors.Finish("vector", "vectors", out);
  return out;
}

std::optional<NotKnown> UnknownAdapters(const CostInputs& work) {
  if (work.mode != Mode::kTrain) return std::nullopt;
  // The largest rank of an adapter, and how often it fits into the other side.
  constexpr int64_t kMostRank = 1024, kLeastRatio = 4;
  std::set<int64_t> in, out;
  bool has_adapters = false;
  for (const ParamClass& param : work.params) {
    has_adapters = has_adapters || param.frozen;
    if (!param.type.shape || param.type.shape->size() < 2 ||
        IsKnown(work, param)) {
      continue;
    }
    const int64_t last = param.type.shape->back();
    const int64_t first = (*param.type.shape)[param.type.shape->size() - 2];
    if (first <= kMostRank && first <= last / kLeastRatio) in.insert(first);
    if (last <= kMostRank && last <= first / kLeastRatio) out.insert(last);
  }
  const bool pair = std::any_of(
      in.begin(), in.end(), [&](int64_t rank) { return out.contains(rank); });
  if (!pair && (!has_adapters || (in.empty() && out.empty())))
    return std::nullopt;
  return NotKnown{
      .what =
          "which parameters are trained, and so the gradients and the "
          "optimizer's states: matrices of unknown role may be adapters",
      .settled_by = "names of adapters such as `lora_A` and `lora_B`"};
}

bool CanBeSettled(const std::vector<NotKnown>& facts) {
  return std::any_of(facts.begin(), facts.end(), [](const NotKnown& fact) {
    return !fact.settled_by.empty();
  });
}

std::optional<NotKnown> MissingExpertChoice(const CostInputs& work) {
  if ((work.model && work.model->experts_per_token) ||
      work.Find(Role::kDown, true) == nullptr) {
    return std::nullopt;
  }
  return NotKnown{
      .what = "the number of experts of a token",
      .settled_by = work.model ? "a --model that gives it" : "--model"};
}

NotKnown MissingQuantisedWeights() {
  return {.what = "the bytes of the quantised weights: " +
                  std::string(kBeforeQuantisation),
          .settled_by =
              "--manifest with the checkpoint, and rules for its "
              "tensors, which `shardc suggest` writes"};
}

bool IsUnnamedMatrix(const ParamClass& param) {
  const ParameterRole& role = param.role;
  // A number in the name (`*`) shows that the matrix is in a layer. Tables of
  // embeddings are excluded, because they are outside of layers, but may have a
  // number too: `codebook_embeddings.*.weight`.
  return shardc::IsWeight(role) && role.role == Role::kOther &&
         role.module_role == Role::kOther && param.type.shape &&
         param.Rank() == 2 && param.SizeAt(0) > 1 && param.SizeAt(1) > 1 &&
         param.name.find('*') != std::string::npos &&
         param.name.find("embed") == std::string::npos;
}

// Finds the tokens that parameters are applied to. In a model with an encoder
// and a decoder, the parameters whose names have a part `encoder` are applied
// to the encoder's tokens. The weights of keys and values in cross-attention
// are applied to the encoder's result (crossed). All other parameters are
// applied to the decoder's tokens (model). For example:
//
//   encoder.block.*.layer.*.SelfAttention.q.weight   -> encoder
//   decoder.block.*.layer.*.EncDecAttention.k.weight -> crossed
//   decoder.block.*.layer.*.EncDecAttention.q.weight -> model
//
// A language model that also reads images has a vision tower, which encodes
// them. The number of image patches is not known, so a step is assumed to have
// only text. It does not run the tower.

namespace {

constexpr std::array<std::string_view, 5> kCrossAttention = {
    "EncDecAttention", "encoder_attn", "cross_attn", "crossattention",
    "encoder_decoder_attention"};
constexpr std::array<std::string_view, 1> kEncoder = {"encoder"};
constexpr std::array<std::string_view, 1> kText = {"text_model"};

Stream EncoderStream(const ParamClass& param, char separator) {
  if (HasPart(param.name, separator, kEncoder)) return Stream::kEncoder;
  const Role role = param.role.module_role;
  const bool reads = role == Role::kKey || role == Role::kValue ||
                     role == Role::kFusedKeyValue;
  return reads && HasPart(param.name, separator, kCrossAttention)
             ? Stream::kCrossed
             : Stream::kModel;
}

// Returns whether the name is that of a parameter of a tower. The word for a
// tower is before the number of a layer: `visual.blocks.*`. After it, the word
// is that of a part of a layer. The patterns of a description match the layers
// of a tower as well as those of the language model, so that a described role
// is no evidence against a tower.
bool IsOfTower(const ParamClass& param, char separator) {
  const std::string_view name = param.name;
  return HasPart(name.substr(0, name.find('*')), separator, kTowerWords);
}

// Sets Stream::kNone for the parameters of vision and audio towers, because a
// step of a language model does not run the towers. A model that consists only
// of a tower, a head and an embedding runs the tower. A model that compares
// texts with images, as CLIP does (`text_model`), also runs its tower.
void LeaveOutTowers(CostInputs& work, char separator) {
  std::vector<ParamClass*> towers;
  bool language = false;
  for (ParamClass& param : work.params) {
    if (IsOfTower(param, separator)) {
      towers.push_back(&param);
      continue;
    }
    if (HasPart(param.name, separator, kText)) return;
    language =
        language || (param.IsWeight() && param.role.module_role != Role::kHead);
  }
  if (!language) return;
  for (ParamClass* param : towers) param->stream = Stream::kNone;
}

}  // namespace

void SetStreams(CostInputs& work, char separator) {
  LeaveOutTowers(work, separator);
  if (!work.model || !work.model->has_encoder) return;
  for (ParamClass& param : work.params) {
    if (param.stream == Stream::kModel && !param.described) {
      param.stream = EncoderStream(param, separator);
    }
  }
}

bool IsEncoderConvolution(const ParamClass& param) {
  return param.stream == Stream::kEncoder && param.type.shape &&
         param.type.shape->size() == 3 &&
         param.name.find("conv") != std::string::npos;
}

std::optional<int64_t> EncoderLength(const CostInputs& work) {
  std::optional<int64_t> out;
  bool sound = false;
  for (const ParamClass& param : work.params) {
    sound = sound || IsEncoderConvolution(param);
    if (param.stream == Stream::kEncoder && param.type.shape &&
        param.type.shape->size() == 2 && param.role.role == Role::kPosition) {
      out = param.SizeAt(0);
    }
  }
  return sound ? out : std::nullopt;
}

bool HasStream(const CostInputs& work, Stream stream) {
  return std::any_of(
      work.params.begin(), work.params.end(),
      [&](const ParamClass& one) { return one.stream == stream; });
}

bool IsEncoderAlone(const CostInputs& work) {
  return work.model && work.model->has_encoder &&
         std::none_of(work.params.begin(), work.params.end(),
                      [](const ParamClass& one) {
                        return one.IsWeight() && one.stream == Stream::kModel;
                      });
}

CostInputs WithStreams(const CostInputs& work, Stream first, Stream second) {
  CostInputs out = work;
  std::erase_if(out.params, [&](const ParamClass& one) {
    return one.stream != first && one.stream != second;
  });
  return out;
}

std::vector<int64_t> HiddenWidths(const CostInputs& work) {
  std::vector<int64_t> out;
  for (const ParamClass& param : work.params) {
    if (param.role.module_role != Role::kDown || !param.IsApplied()) continue;
    const int64_t width = param.SizeAt(param.out_dim);
    AddOnce(out, width);
  }
  return out;
}

CostInputs WithWidth(const CostInputs& work, int64_t width) {
  CostInputs out = work;
  std::erase_if(out.params, [&](const ParamClass& one) {
    if (!one.type.shape || one.type.shape->empty()) return true;
    if (!one.IsWeight()) return one.type.shape->back() != width;
    // The inner width of one tower may be the hidden size of another.
    const bool computes = GivesWidth(one.role.module_role);
    return one.SizeAt(computes ? one.out_dim : one.in_dim) != width;
  });
  return out;
}

namespace {

// Compares the sizes that a figure takes from the model's configuration with
// the parameters: heads, the hidden size, experts and layers. A configuration
// of another model gives wrong operations of attention and wrong activations.
// It is enough that one parameter of a role has the size, because a tree may
// hold several towers.

constexpr std::string_view kSettles = "the config.json of these parameters";

bool IsOfModel(const ParamClass& param) {
  return param.IsWeight() && param.IsApplied() && !param.mixes &&
         param.packing == 1 && !param.role.packed_blocks &&
         (param.stream == Stream::kModel || param.stream == Stream::kEncoder);
}

void AddHeads(const CostInputs& work, std::vector<NotKnown>& out) {
  // The heads of latent attention have two sizes.
  const auto heads = HeadsOf(*work.model);
  if (!heads || work.model->latent_rank) return;
  const int64_t query = heads->heads * heads->head_dim;
  const bool gated = std::any_of(
      work.params.begin(), work.params.end(), [&](const ParamClass& param) {
        return param.role.module_role == Role::kOutput && param.IsWeight() &&
               param.SizeAt(param.in_dim) == query;
      });
  bool has_queries = false;
  for (const StatedWidth& stated : StatedWidths(*heads, gated)) {
    const ParamClass* first = nullptr;
    bool fits = false;
    for (const ParamClass& param : work.params) {
      if (param.role.module_role != stated.role || !IsOfModel(param)) continue;
      if (first == nullptr) first = &param;
      fits = fits || IsAmong(param.SizeAt(param.out_dim), stated.widths);
    }
    has_queries = has_queries || (fits && stated.role == Role::kQuery);
    // If separate query projections fit, a fused one is of another tower.
    if (first == nullptr || fits ||
        (stated.role == Role::kFusedQkv && has_queries)) {
      continue;
    }
    out.push_back(
        {.what = "the heads and their size: the configuration gives " +
                 stated.text + ", and `" + first->name + "` has " +
                 CountText(first->SizeAt(first->out_dim)) + " outputs",
         .settled_by = std::string(kSettles)});
    return;
  }
}

void AddHidden(const CostInputs& work, std::vector<NotKnown>& out) {
  const auto hidden = work.model->hidden;
  if (!hidden) return;
  bool any = false;
  for (const ParamClass& param : work.params) {
    if (!IsOfModel(param)) continue;
    const Shape& shape = *param.type.shape;
    if (IsAmong(*hidden, shape)) return;
    any = true;
  }
  if (!any) return;
  out.push_back({.what = "the hidden size: the configuration gives " +
                         CountText(*hidden) +
                         ", which is no dimension of any matrix",
                 .settled_by = std::string(kSettles)});
}

void AddExperts(const CostInputs& work, std::vector<NotKnown>& out) {
  const auto experts = work.model->experts;
  if (!experts) return;
  const ParamClass* first = nullptr;
  for (const ParamClass& param : work.params) {
    const int rank = param.Rank();
    if (!param.role.expert || !param.IsWeight() || rank < 3) continue;
    const Shape& shape = *param.type.shape;
    if (IsAmong(*experts, shape)) return;
    if (first == nullptr) first = &param;
  }
  if (first == nullptr) return;
  out.push_back({.what = "the experts: the configuration gives " +
                         CountText(*experts) + ", and `" + first->name +
                         "` has " + CountText(first->SizeAt(first->Rank() - 3)),
                 .settled_by = std::string(kSettles)});
}

void AddLayers(const CostInputs& work, std::vector<NotKnown>& out) {
  const ModelConfig& model = *work.model;
  // Next to an encoder, each layer of the decoder attends twice, to its own
  // tokens and to the encoder's, so that projections do not count layers.
  if (!model.layers || model.has_encoder) return;
  std::set<int64_t> counts;
  for (const Role role : {Role::kOutput, Role::kDown, Role::kQuery}) {
    counts.insert(work.LayersWith(role));
  }
  // With mixers, a layer may be a mixer, attention or an MLP alone.
  if (std::any_of(work.params.begin(), work.params.end(),
                  [](const ParamClass& param) { return param.mixes; })) {
    counts.insert(
        CheckedAdd(work.LayersWith(Role::kOutput), work.LayersWith(Role::kDown))
            .value_or(INT64_MAX));
  }
  counts.erase(0);
  // The layers that predict further tokens, which may follow.
  int64_t further = 0;
  for (const ParamClass& param : work.params) {
    if (param.name.find("eh_proj") != std::string::npos) {
      further = CheckedAdd(further, param.Matrices()).value_or(INT64_MAX);
    }
  }
  const auto fits = [&](int64_t layers) {
    const auto at = counts.lower_bound(layers);
    return at != counts.end() && *at - layers <= further;
  };
  if (counts.empty() || fits(*model.layers) ||
      (model.attention_layers && fits(*model.attention_layers))) {
    return;
  }
  out.push_back({.what = "the number of layers: the configuration gives " +
                         CountText(*model.layers) +
                         ", and the parameters are those of " +
                         CountText(*counts.rbegin()),
                 .settled_by = std::string(kSettles)});
}

}  // namespace

std::vector<NotKnown> ContradictedSizes(const CostInputs& work) {
  std::vector<NotKnown> out;
  // A stage has a part of the layers, and the complete model was compared.
  if (!work.model || work.hidden_size) return out;
  AddHeads(work, out);
  AddHidden(work, out);
  AddExperts(work, out);
  AddLayers(work, out);
  return out;
}

}  // namespace shardc::cost
