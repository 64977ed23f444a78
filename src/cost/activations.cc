// Computes the bytes of the activations of a layer from its projections. An
// activation is the input or the output of a projection. It has one row for
// each token of the device, and its width is the input or the output dimension
// of the projection's weight. The width is divided over the mesh axes that
// shard this dimension, except the axes over which the weight is gathered
// before its use. Attention logits are included only for operations that store
// all of them; fused kernels keep one log-sum per token and head instead.
//
// Example: the bytes of a layer of GPT-3 in 16 bits, with s tokens in a row, b
// rows and the hidden size h:
//
//   inputs and outputs of two norms   8sbh     up and its activation   16sbh
//   q, k, v and the context           8sbh     two dropout masks        2sbh
//   all together                     34sbh
//
// Source: Korthikanti et al., "Reducing Activation Recomputation in Large
// Transformer Models" (arXiv 2205.05198).
#include "cost/activations.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cost/rates.h"
#include "cost/time.h"
#include "cost/unknown_roles.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::cost {
namespace {

// Finds the number of heads in the parameters. They show it in three ways:
//
//   a dimension of heads    q_proj [5120, 64, 128], o_proj [64, 128, 5120]
//   the norm of a head      q_proj [8192, 5120], q_norm [128]
//   one sink for each head  sinks [64]
//
// Returns nullopt if they do not show it, or show different numbers.
std::optional<int64_t> HeadsOfParameters(const CostInputs& work) {
  std::set<int64_t> sizes, found;
  std::vector<int64_t> widths;
  bool queries = false;
  for (const ParamClass& param : work.params) {
    if (!param.type.shape || param.type.shape->empty() ||
        param.stream == Stream::kNone || param.mixes ||
        IsAdapter(param.role.role)) {
      continue;
    }
    const Shape& shape = *param.type.shape;
    const Role role = param.role.module_role;
    if (param.role.role == Role::kSink) {
      found.insert(shape.back());
    } else if (param.role.role == Role::kQueryNorm) {
      // A norm of more dimensions may have a scale for each head or layer.
      sizes.insert(shape.size() == 1 ? shape[0] : 0);
    } else if (param.IsWeight() &&
               (role == Role::kQuery || role == Role::kOutput)) {
      queries = queries || role == Role::kQuery;
      widths.push_back(role == Role::kQuery ? param.SizeAt(param.out_dim)
                                            : param.Inputs());
      if (param.heads > 0) found.insert(param.heads);
    }
  }
  if (sizes.size() == 1 && *sizes.begin() > 0 && queries) {
    const int64_t size = *sizes.begin();
    for (const int64_t width : widths) {
      // A norm of all columns does not show how many heads they are.
      if (width % size != 0 || width == size) return std::nullopt;
      found.insert(width / size);
    }
  }
  if (found.size() != 1 || *found.begin() <= 0) return std::nullopt;
  return *found.begin();
}

// Returns the number of heads that the configuration states or, if it states
// none, the number that the parameters show. They do not show whether queries
// are rotated. So without a configuration the result is nullopt if the policy
// keeps some tensors by name, of which the rotated ones may be others than the
// projections' outputs.
std::optional<int64_t> HeadsByEvidence(const CostInputs& work,
                                       const Settings& settings) {
  if (work.model && work.model->heads) return work.model->heads;
  using step::Keep;
  const bool by_name = settings.remat.keep != Keep::kEverything &&
                       settings.remat.keep != Keep::kNothing;
  return by_name ? std::nullopt : HeadsOfParameters(work);
}

bool HasAttention(const CostInputs& work) {
  return std::any_of(work.params.begin(), work.params.end(),
                     [](const ParamClass& param) {
                       return param.IsApplied() && !param.mixes &&
                              IsAttention(param.role.module_role);
                     });
}

class Layers {
 public:
  Layers(const CostInputs& work, const Settings& settings, const Tokens& tokens)
      : work_(work),
        layer_counts_(work),
        settings_(settings),
        tokens_(tokens),
        memory_(StackOf(work, settings).memory),
        heads_(HeadsByEvidence(work, settings)),
        bytes_(DtypeBits(settings.activations) / 8) {}

  std::vector<LayerTensor> Take(int64_t hidden) {
    hidden_ = ShareOf(hidden, work_.Parts(work_.hidden));
    const ParamClass* down = work_.Find(Role::kDown);
    // A layer with cross-attention has two output projections, so the number of
    // output projections is not the number of layers.
    crosses_ = HasStream(work_, Stream::kCrossed);
    layers_ = work_.LayersWith(Role::kDown);
    if (!crosses_) {
      const int64_t outputs = work_.LayersWith(Role::kOutput);
      layers_ = AreApart(layers_, outputs) ? layers_ + outputs
                                           : std::max(layers_, outputs);
    }
    if (work_.model && work_.model->layers && down == nullptr && layers_ == 0) {
      layers_ = *work_.model->layers;
    }
    layers_ = std::min(layers_, MostLayers());
    Hidden({"layer_input", "decoder_layer_input", Made::kCarried, true},
           layers_);
    Norms(hidden);
    Attention();
    Feedforward();
    return std::move(out_);
  }

 private:
  void Add(Candidate what, int64_t layers, int64_t elements,
           std::optional<int64_t> width = std::nullopt) {
    const int64_t bytes = Times(elements, width.value_or(bytes_));
    if (layers > 0) {
      out_.push_back({what, layers, bytes, false});
    }
  }

  void Hidden(Candidate what, int64_t layers,
              std::optional<int64_t> width = std::nullopt) {
    Add(what, layers, Times(tokens_.All(), hidden_), width);
  }

  // Returns the number of elements that one device holds for each token along
  // `dim`, which is the input or the output dimension of a projection.
  int64_t Width(const ParamClass& param, int dim) const {
    return ShareOf(param.SizeAt(dim),
                   work_.Parts(work_.Kept(param.AxesAt(dim))));
  }
  int64_t OutOf(const ParamClass& param) const {
    return Times(tokens_.Of(param.stream), Width(param, param.out_dim));
  }

  // Returns whether each layer has only one block, as in Nemotron-H. The block
  // is a mixer or attention, which has an output projection, or an MLP, which
  // has a down projection.
  bool AreApart(int64_t downs, int64_t outputs) const {
    const bool mixes =
        std::any_of(work_.params.begin(), work_.params.end(),
                    [](const ParamClass& param) { return param.mixes; });
    return mixes && work_.model && work_.model->layers == downs + outputs &&
           downs > 0 && outputs > 0;
  }

  // Returns whether `predicate` is true for some weights of a role and false
  // for others. For example, only some of the down projections belong to
  // experts if a model has experts next to an MLP.
  template <class Predicate>
  bool Differ(Role role, const Predicate& predicate) const {
    bool some = false, others = false;
    for (const ParamClass& param : work_.params) {
      if (param.role.module_role != role || !param.IsApplied()) continue;
      (predicate(param) ? some : others) = true;
    }
    return some && others;
  }

  // Returns an upper limit for `layers_`, or INT64_MAX if `layers_` needs no
  // limit. `layers_` was found by counting down or output projections, but a
  // layer has two of them if two of its blocks read the same input: an MLP next
  // to experts (Hunyuan, Arctic), or attention next to a mixer (Falcon-H1). In
  // such models the limit is the number of layers in the configuration: with 70
  // down projections and 35 layers, it is 35.
  //
  // A checkpoint may also have up to three layers that predict further tokens
  // and that the configuration does not count. So there is no limit if
  // `layers_` is at most three above the number in the configuration and less
  // than twice this number.
  int64_t MostLayers() const {
    const auto& model = work_.model;
    const bool parallel =
        Differ(Role::kDown,
               [](const ParamClass& param) { return param.role.expert; }) ||
        Differ(Role::kOutput,
               [](const ParamClass& param) { return param.mixes; });
    if (!parallel || !model || !model->layers || model->has_encoder) {
      return INT64_MAX;
    }
    // LongCat-Flash has two blocks of attention in each layer, so its
    // attention_layers are twice its layers.
    const int64_t known =
        std::max(*model->layers, model->attention_layers.value_or(0));
    return layers_ > known + 3 || layers_ >= 2 * known ? known : INT64_MAX;
  }

  void Norms(int64_t hidden) {
    int64_t norms = 0, some = 0;
    for (const ParamClass& param : work_.params) {
      if (param.role.module_role != Role::kNorm || !param.type.shape ||
          param.role.leaf == Leaf::kBias || param.type.shape->empty() ||
          param.type.shape->back() != hidden) {
        continue;
      }
      int64_t all = param.count;
      for (size_t d = 0; d + 1 < param.type.shape->size(); ++d) {
        all = Times(all, (*param.type.shape)[d]);
      }
      if (all >= layers_) {
        norms += all / std::max<int64_t>(layers_, 1);
      } else if (param.described) {
        // A section may name the norms of the first layers apart.
        some += all;
      }
    }
    if (layers_ > 0) norms += some / layers_;
    // At most one norm is counted for each block (attention, cross-attention or
    // the MLP). A norm after a block is left out: its output is only added to
    // the residual, so no gradient reads it.
    norms = std::min<int64_t>(norms, crosses_ ? 3 : 2);
    for (int64_t i = 0; i < norms; ++i) {
      Hidden({"norm", "", Made::kOther}, layers_);
    }
    for (int64_t i = 1; i < norms; ++i) {
      Hidden({"residual", "", Made::kOther}, layers_);
    }
  }

  void Projection(Role role, Candidate what) {
    for (const ParamClass& param : work_.params) {
      if (param.role.module_role != role || !param.IsApplied() ||
          param.role.expert || !param.role.attention) {
        continue;
      }
      Add(what, layer_counts_.Of(param), OutOf(param));
    }
  }

  bool Rotates() const { return work_.model && work_.model->rope; }

  void Attention() {
    // With rotary embeddings, attention reads the rotated tensor, not the
    // projection's output.
    const bool rotates = Rotates();
    const Candidate query{"q_proj", "query_proj", Made::kDot, true, !rotates};
    const Candidate key{"k_proj", "key_proj", Made::kDot, true, !rotates};
    Projection(Role::kQuery, query);
    Projection(Role::kKey, key);
    Projection(Role::kValue, {"v_proj", "value_proj", Made::kDot, true});
    Projection(Role::kFusedQkv, {"qkv_proj", "qkv_proj", Made::kDot, true});
    Projection(Role::kFusedKeyValue, {"kv_proj", "", Made::kDot});
    Projection(Role::kLatentDown, {"latent_down", "", Made::kDot});
    Projection(Role::kLatentUp, {"latent_up", "", Made::kDot});
    if (rotates) {
      Projection(Role::kQuery, {"rotated", "", Made::kOther});
      Projection(Role::kKey, {"rotated", "", Made::kOther});
    }
    for (const ParamClass& param : work_.params) {
      if (!param.mixes || !param.IsApplied() ||
          param.role.module_role == Role::kOutput) {
        continue;
      }
      Add({"in_proj", "", Made::kDot}, layer_counts_.Of(param), OutOf(param));
    }
    for (const ParamClass& param : work_.params) {
      if (param.role.module_role != Role::kOutput || !param.IsApplied())
        continue;
      const int64_t layers = layer_counts_.Of(param);
      const int64_t input = Times(tokens_.All(), Width(param, param.in_dim));
      if (param.mixes) {
        Add({"mixed", "", Made::kOther}, layers, input);
      } else {
        const bool whole = StoresLogits();
        Add({"context", "context", whole ? Made::kBatchDot : Made::kOther,
             true},
            layers, input);
        Logits(layers, whole);
      }
      Add({"out_proj", "out_proj", Made::kDot, true, false}, layers,
          Times(tokens_.All(), hidden_));
      Dropped(layers);
    }
  }

  bool StoresLogits() const {
    return settings_.operation != nullptr && settings_.operation->global_view;
  }

  void Logits(int64_t layers, bool whole) {
    if (!heads_) return;
    const int64_t heads = ShareOf(*heads_, HeadParts(work_));
    if (!whole) {
      Add({"attention_sums", "", Made::kOther}, layers,
          Times(tokens_.All(), heads), 4);
      return;
    }
    const int64_t all = Times(tokens_.All(), heads, tokens_.keys);
    Add({"logits", "", Made::kBatchDot, false, false}, layers, all);
    Add({"weights", "", Made::kOther}, layers, all);
    if (work_.model && work_.model->attention_dropout) {
      Add({"attention_mask", "", Made::kOther}, layers, all, 1);
      Add({"dropped_weights", "", Made::kOther}, layers, all);
    }
  }

  void Dropped(int64_t layers) {
    if (!work_.model || !work_.model->hidden_dropout) return;
    Hidden({"dropout_mask", "", Made::kOther}, layers, 1);
  }

  // Returns the tokens that a device's experts compute; a token that is sent to
  // several experts is counted once for each of them. The router is assumed to
  // choose all experts equally often, so all devices have the same number of
  // tokens.
  int64_t ExpertTokens(const ParamClass& param) const {
    const int64_t chosen =
        work_.model ? work_.model->experts_per_token.value_or(1) : 1;
    AxisGroup axes;
    for (int d = 0; d < param.Rank() - 2; ++d) {
      const AxisGroup& split = param.AxesAt(d);
      axes.insert(axes.end(), split.begin(), split.end());
    }
    if (!param.placed_along.empty()) axes.push_back(param.placed_along);
    const AxisGroup tokens = work_.TokenAxes();
    std::erase_if(
        axes, [&](const std::string& axis) { return IsAmong(axis, tokens); });
    return ShareOf(Times(tokens_.All(), chosen), work_.Parts(axes));
  }

  void Feedforward() {
    const bool gates[] = {HasGate(false), HasGate(true)};
    for (const ParamClass& param : work_.params) {
      if (!param.IsApplied()) continue;
      const Role role = param.role.module_role;
      const int64_t layers = layer_counts_.Of(param);
      const int64_t tokens =
          param.role.expert ? ExpertTokens(param) : tokens_.All();
      const int64_t out = Times(tokens, Width(param, param.out_dim));
      const bool single =
          role == Role::kUp && !gates[param.role.expert ? 1 : 0];
      if (role == Role::kGate || role == Role::kUp) {
        const bool gate = role == Role::kGate;
        Add({gate ? "gate_proj" : "up_proj", gate ? "mlpwi_0" : "mlpwi_1",
             Made::kDot, true},
            layers, out);
      } else if (role == Role::kFusedGateUp) {
        Add({"gate_proj", "mlpwi_0", Made::kDot, true}, layers, out);
      } else if (role == Role::kDown) {
        Add({"down_proj", "mlpwo", Made::kDot, true, false, false}, layers,
            Times(tokens, hidden_));
        if (!param.role.expert) Dropped(layers);
        if (param.role.expert) {
          Add({"dispatched", "", Made::kOther}, layers, Times(tokens, hidden_));
        }
      } else if (role == Role::kRouter) {
        Add({"router", "", Made::kDot, true}, layers, out, 4);
      }
      if (role == Role::kGate || single || role == Role::kFusedGateUp) {
        const int64_t half = role == Role::kFusedGateUp ? out / 2 : out;
        // A kernel that fuses the gate recomputes the activation function in
        // the backward pass, so the output of the function need not be kept.
        const bool read = single || !memory_.fuses_gate;
        Add({"activation", "", Made::kOther, false, read}, layers, half);
        if (!single) Add({"product", "", Made::kOther}, layers, half);
      }
    }
  }

  bool HasGate(bool expert) const {
    return work_.Find(Role::kGate, expert) != nullptr;
  }

  const CostInputs& work_;
  LayerCounts layer_counts_;
  const Settings& settings_;
  const Tokens tokens_;
  const StackMemory& memory_;
  const std::optional<int64_t> heads_;
  int64_t bytes_;
  int64_t hidden_ = 0;
  int64_t layers_ = 0;
  bool crosses_ = false;  // true if layers have cross-attention
  std::vector<LayerTensor> out_;
};

// Returns the tensors of all layers of an encoder. An encoder of texts and
// images, such as CLIP's, has two towers, each with its own hidden size. An
// encoder with only one tower has the hidden size `hidden`.
std::vector<LayerTensor> EncoderTensors(const CostInputs& encoder,
                                        const Settings& settings,
                                        const Tokens& tokens, int64_t hidden) {
  const std::vector<int64_t> widths = HiddenWidths(encoder);
  if (widths.size() < 2) return Layers(encoder, settings, tokens).Take(hidden);
  std::vector<LayerTensor> out;
  for (const int64_t width : widths) {
    const CostInputs tower = WithWidth(encoder, width);
    for (const LayerTensor& tensor :
         Layers(tower, settings, tokens).Take(width)) {
      out.push_back(tensor);
    }
  }
  return out;
}

// Returns the tensors of all layers. Those of the encoder come first.
std::vector<LayerTensor> TensorsOf(const CostInputs& work,
                                   const Settings& settings,
                                   const Tokens& tokens, int64_t hidden) {
  if (!HasStream(work, Stream::kEncoder)) {
    return Layers(work, settings, tokens).Take(hidden);
  }
  std::vector<LayerTensor> out;
  if (tokens.encoder_length > 0) {
    CostInputs encoder = WithStreams(work, Stream::kEncoder, Stream::kEncoder);
    for (ParamClass& param : encoder.params) param.stream = Stream::kModel;
    const Tokens own = {.rows = tokens.rows,
                        .length = tokens.encoder_length,
                        .keys = tokens.encoder_keys};
    out = EncoderTensors(encoder, settings, own, hidden);
    for (LayerTensor& tensor : out) tensor.encoder = true;
  }
  if (IsEncoderAlone(work)) return out;
  const CostInputs decoder =
      WithStreams(work, Stream::kModel, Stream::kCrossed);
  for (const LayerTensor& tensor :
       Layers(decoder, settings, tokens).Take(hidden)) {
    out.push_back(tensor);
  }
  return out;
}

// Returns the bytes of the logits. Returns 0 if the model is only an encoder.
// Returns nullopt if the model has no head and no embedding, or if the bytes do
// not fit in 64 bits. Sets `sharded` to whether the vocabulary is sharded.
std::optional<int64_t> LogitsOf(const CostInputs& work,
                                const Settings& settings, const Tokens& tokens,
                                bool& sharded) {
  if (IsEncoderAlone(work)) return 0;
  const ParamClass* head = work.Find(Role::kHead);
  int dim = head != nullptr ? head->out_dim : 0;
  if (head == nullptr) head = work.Find(Role::kEmbedding);
  if (head == nullptr) return std::nullopt;
  const int64_t parts = work.Parts(work.Kept(head->AxesAt(dim)));
  sharded = parts > 1;
  const int64_t width = ShareOf(head->SizeAt(dim), parts);
  // Serving computes the logits of the last token only.
  const bool train = work.mode == Mode::kTrain;
  const auto elements = CheckedMul(train ? tokens.All() : tokens.rows, width);
  return elements ? BytesOf(*elements, settings.logits) : std::nullopt;
}

}  // namespace

int64_t Tokens::Of(Stream stream) const {
  switch (stream) {
    case Stream::kModel:
      return All();
    case Stream::kEncoder:
    case Stream::kCrossed:
      return Times(rows, encoder_length);
    case Stream::kNone:
      break;
  }
  return 0;
}

std::optional<Tokens> TokensOf(const CostInputs& work,
                               const Settings& settings) {
  const bool decode = IsGeneration(work.mode);
  if (!settings.batch) return std::nullopt;
  const auto length = decode ? std::optional<int64_t>(1) : settings.length;
  if (!length) return std::nullopt;
  Tokens out;
  const int64_t rows = ShareOf(*settings.batch, work.Parts(work.Batch()));
  out.rows = ShareOf(rows, settings.microbatches);
  out.length = decode ? 1 : ShareOf(*length, work.Parts(work.Length()));
  out.keys = decode ? settings.kv_length.value_or(1) : *length;
  if (work.model && work.model->has_encoder) {
    out.encoder_keys = EncoderLength(work).value_or(out.keys);
    if (!decode) {
      out.encoder_length = ShareOf(out.encoder_keys, work.Parts(work.Length()));
    }
  }
  if (!CheckedMul(out.rows, std::max(out.length, out.encoder_length))) {
    return std::nullopt;
  }
  return out;
}

bool HasTokens(const CostInputs& work, const Settings& settings) {
  return settings.batch && (IsGeneration(work.mode) || settings.length);
}

std::optional<Activations> ActivationsOf(const CostInputs& work,
                                         const Settings& settings,
                                         NotKnown& why) {
  const auto tokens = TokensOf(work, settings);
  const auto hidden = work.Hidden();
  if (!tokens) {
    why = {.what = "activations"};
    if (HasTokens(work, settings)) {
      why.what += " do not fit in 64 bits";
    } else {
      why.settled_by =
          IsGeneration(work.mode) ? "--batch" : "--batch and --seq";
    }
    return std::nullopt;
  }
  if (!hidden) {
    why = {.what = "the hidden size, and with it activations",
           .settled_by = "--model"};
    return std::nullopt;
  }
  const bool stores_logits =
      settings.operation != nullptr && settings.operation->global_view;
  const bool sums_known =
      !HasAttention(work) || HeadsByEvidence(work, settings).has_value();
  if (stores_logits && !sums_known) {
    why = {.what =
               "the heads, and with them the logits of attention that its "
               "operation keeps, and activations",
           .settled_by = "--model"};
    return std::nullopt;
  }
  Activations out;
  out.tensors = TensorsOf(work, settings, *tokens, *hidden);
  out.sums_known = sums_known;
  const bool train = work.mode == Mode::kTrain;
  const StackMemory& stack = StackOf(work, settings).memory;
  std::optional<int64_t> kept = 0, working = 0, encoder_working = 0;
  for (LayerTensor& tensor : out.tensors) {
    Candidate what = tensor.what;
    what.spares = what.spares || stack.keeps_unread;
    tensor.kept = train && Keeps(settings.remat, what);
    tensor.repeated =
        !tensor.kept && (what.read || !KeepsUnlisted(settings.remat));
    const auto bytes = CheckedMul(tensor.bytes, tensor.layers);
    if (tensor.kept) {
      kept = kept && bytes ? CheckedAdd(*kept, *bytes) : std::nullopt;
    } else if (tensor.what.read || !train) {
      auto& layer = tensor.encoder ? encoder_working : working;
      layer = layer ? CheckedAdd(*layer, tensor.bytes) : std::nullopt;
    }
  }
  if (!kept || !working || !encoder_working) {
    why = {.what = "activations do not fit in 64 bits"};
    return std::nullopt;
  }
  out.kept = *kept;
  // One layer is computed at a time, either of the encoder or of the decoder.
  // So the device needs the memory of only one of them, the larger one.
  out.encoder_works = *encoder_working > *working || IsEncoderAlone(work);
  out.working = settings.remat.Recomputes() || !train
                    ? std::max(*working, *encoder_working)
                    : 0;
  out.logits = LogitsOf(work, settings, *tokens, out.logits_sharded);
  return out;
}

NotKnown MissingSums() {
  return {.what =
              "the heads, and with them a sum for each token and head that "
              "attention keeps, and activations",
          .settled_by = "--model"};
}

double RecomputedShare(const Activations& activations) {
  double all = 0, again = 0;
  for (const LayerTensor& tensor : activations.tensors) {
    const bool dot = tensor.what.made == Made::kDot;
    if (!dot) continue;
    const double bytes =
        static_cast<double>(tensor.bytes) * static_cast<double>(tensor.layers);
    all += bytes;
    if (tensor.repeated && tensor.what.spares) again += bytes;
  }
  return all > 0 ? again / all : 0;
}

}  // namespace shardc::cost
