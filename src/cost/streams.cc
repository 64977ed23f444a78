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
#include "cost/streams.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "roles/role.h"
#include "roles/words.h"

namespace shardc::cost {
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
// is that of a part of a layer.
bool IsOfTower(const ParamClass& param, char separator) {
  const std::string_view name = param.name;
  return !param.described &&
         HasPart(name.substr(0, name.find('*')), separator, kTowerWords);
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
    if (std::find(out.begin(), out.end(), width) == out.end()) {
      out.push_back(width);
    }
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

}  // namespace shardc::cost
