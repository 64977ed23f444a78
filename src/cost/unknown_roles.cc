// Collects the matrices that neither a section, nor a word of their names, nor
// their place in a block shows to be a product of the step. A tree may have
// known names but for one:
//
//   model.layers.*.mlp.up_proj.weight  ->  known by its word
//   unlex.weight                       ->  the head, or a table, or unused
//
// The logits of such a model are not known, and so is the peak of its memory.
#include "cost/unknown_roles.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "source/checked.h"
#include "source/wording.h"

namespace shardc::cost {
namespace {

// Words of published models for matrices, kernels and tables to which no role
// belongs: embeddings of token types and codebooks, projections of CLIP and
// OPT, the transforms before the heads of BERT and its kin, and the layer that
// joins two tokens for multi-token prediction. Of these, the matrices in layers
// are products of a step. The others are less than 1 % of it and are left out.
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

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
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
  return param.described || param.mixes || named ||
         param.stream == Stream::kNone || IsPublished(work, param);
}

// Returns the number of dimensions of more than one element, without those that
// count layers.
int DimsOf(const ParamClass& param, int layer_dims) {
  const Shape& shape = *param.type.shape;
  const auto first =
      shape.begin() + std::min<ptrdiff_t>(layer_dims, std::ssize(shape));
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
    if (std::find(names_.begin(), names_.end(), param.name) == names_.end()) {
      names_.push_back(param.name);
    }
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
};

}  // namespace

std::vector<NotKnown> UnknownRoles(const CostInputs& work,
                                   std::span<const int> layer_dims) {
  const auto hidden = work.Hidden();
  Collected matrices, vectors;
  bool has_norm = false;
  for (size_t i = 0; i < work.params.size(); ++i) {
    const ParamClass& param = work.params[i];
    has_norm = has_norm || param.role.module_role == Role::kNorm;
    if (!param.type.shape || IsKnown(work, param)) continue;
    const int dims = DimsOf(param, layer_dims[i]);
    if (dims > 1) {
      matrices.Add(param);
    } else if (dims == 1 && hidden && param.type.shape->back() == *hidden &&
               param.role.leaf != Leaf::kBias) {
      vectors.Add(param);
    }
  }
  std::vector<NotKnown> out;
  matrices.Finish("matrix", "matrices", out);
  // The input of each norm is kept for the backward pass. Without any norm,
  // vectors of the model's width may be the norms.
  if (!has_norm) vectors.Finish("vector", "vectors", out);
  return out;
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

}  // namespace shardc::cost
