// Finds the unit (a layer or an end of the model) of each parameter. The
// layer's number is read from the first part of the name that is a number, or
// that ends in a number after a word for layers. If a name begins with a part
// that is a number, this part is not a layer's number:
//
//   model.layers.5.mlp.up_proj.weight  ->  layer 5 of `model.layers`
//   decoder/layers_5/mlp/wi/kernel     ->  layer 5 of `decoder/layers`
//   model.embed_tokens.weight          ->  the first unit, by its role
//   lm_head.weight, model.norm.weight  ->  the last unit
//   vision_model.layers.3.fc1.weight   ->  the first unit, as all of a tower
//
// If the rules have a `model:` section, its lines before and after the layers
// show the end of a parameter, whatever its name. A declaration may replace
// each of these rules by patterns. It may also list the tensors that hold
// several layers.
#include "plan/stage_units.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "match/match.h"
#include "plan/stage_patterns.h"
#include "roles/layer_units.h"
#include "roles/words.h"
#include "source/index.h"
#include "source/size.h"
#include "source/stage_code.h"
#include "source/wording.h"
#include "step/role_uses.h"

namespace shardc {
namespace {

class UnitReader {
 public:
  UnitReader(const Compiled& compiled, const StageRequest& request,
             Findings& findings)
      : compiled_(compiled),
        request_(request),
        declared_(request.declared ? &*request.declared : nullptr),
        place_(declared_ == nullptr ? Place{} : declared_->place),
        separator_(compiled.manifest.separator == 0
                       ? '.'
                       : compiled.manifest.separator),
        findings_(findings) {
    if (compiled.rules.model != nullptr && compiled.uses != nullptr) {
      uses_ = &compiled.uses->Of(*compiled.rules.model, compiled.plan.names,
                                 compiled.manifest.separator);
    }
  }

  std::optional<StageUnits> Read() {
    const size_t before = findings_.errors();
    auto patterns = StagePatterns::Compile(declared_, separator_, findings_);
    if (!patterns) return std::nullopt;
    patterns_ = std::move(*patterns);
    const size_t params = compiled_.plan.names.size();
    layers_.resize(params);
    stack_of_.assign(params, kNoStack);
    const bool read = patterns_.stacked() ? ReadStacks() : ReadLayers();
    if (!read) return std::nullopt;
    for (size_t i = 0; i < params; ++i) PlaceParam(i);
    CheckOutside();
    CheckGaps();
    if (findings_.errors() > before) return std::nullopt;
    if (has_head_) std::fill(out_.tied.begin(), out_.tied.end(), false);
    if (!out_.stacks.empty()) out_.stack_of = std::move(stack_of_);
    return std::move(out_);
  }

 private:
  static constexpr uint32_t kNoStack = UINT32_MAX;
  static constexpr std::string_view kTextTower[] = {"text_model"};

  std::string_view Name(size_t param) const {
    return compiled_.plan.names[param];
  }

  bool ReadLayers() {
    // The number of parameters whose names have the same text before the
    // layer's number, keyed by this text, such as `model.layers`.
    std::map<std::string_view, int64_t> chains;
    if (!patterns_.has_layers()) FindTowers();
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (patterns_.has_layers()) {
        if (!ReadNumber(i)) return false;
      } else if (InTower(i)) {
        continue;
      } else if (const auto layer = LayerOf(Name(i), separator_)) {
        layers_[i] = layer->layer;
        ++chains[layer->chain];
      }
      if (layers_[i]) out_.layers = std::max(out_.layers, *layers_[i] + 1);
    }
    return CheckChains(chains) && CheckCount();
  }

  // Finds the parameters of vision and audio towers of a language model. A
  // tower computes embeddings, so that it belongs to the first stage, and its
  // layers are not divided.
  void FindTowers() {
    std::vector<bool> towers(layers_.size());
    bool language = false;
    for (size_t i = 0; i < layers_.size(); ++i) {
      towers[i] = HasPart(Name(i), separator_, kTowerWords);
      // CLIP's towers of texts and of images are two models of equal rank.
      if (HasPart(Name(i), separator_, kTextTower)) return;
      language = language || (!towers[i] && LayerOf(Name(i), separator_));
    }
    if (language) towers_ = std::move(towers);
  }

  bool InTower(size_t param) const {
    return !towers_.empty() && towers_[param];
  }

  // Reads the layer's number with the declared pattern `layers`. Returns false
  // after a finding.
  bool ReadNumber(size_t param) {
    const auto text = patterns_.LayerText(Name(param));
    if (!text) return true;
    int64_t layer = 0;
    const char* const end = text->data() + text->size();
    const auto [read, error] = std::from_chars(text->data(), end, layer);
    if (error != std::errc() || read != end || layer < 0 ||
        layer >= INT64_MAX - 2) {
      findings_.Add(code::kRegexSemantic, declared_->layers->place,
                    "the first group of `layers` is " + ShortQuote(*text) +
                        " in " + ShortQuote(Name(param)) +
                        ", not the number of a layer",
                    "put parentheses around the digits: "
                    "`model\\.layers\\.(\\d+)\\.`");
      return false;
    }
    layers_[param] = layer;
    return true;
  }

  bool CheckCount() {
    if (out_.layers <= kMostStageLayers) return true;
    findings_.Add(code::kLimit, place_,
                  "a name has layer " + CountText(out_.layers - 1) +
                      ", beyond " + CountText(kMostStageLayers) + " layers");
    return false;
  }

  bool CheckChains(const std::map<std::string_view, int64_t>& chains) {
    if (patterns_.has_layers()) {
      if (out_.layers > 0) return true;
      findings_.Add(code::kLayerWithoutStage, declared_->layers->place,
                    "`layers` is found in no parameter's name, such as " +
                        ShortQuote(layers_.empty() ? "" : Name(0)),
                    "its first group is the number of the layer: "
                    "`model\\.layers\\.(\\d+)\\.`");
      return false;
    }
    if (chains.empty()) {
      findings_.Add(code::kUsage, place_,
                    "no parameter's name has the number of its layer, so that "
                    "layers cannot be divided into stages",
                    "for tensors that hold all layers, state in the rules "
                    "which dimension counts them: `stages: {axis: pp, stacked: "
                    "[{match: '^layers/', dim: 0}]}`");
      return false;
    }
    if (chains.size() > 1) {
      const auto first = chains.begin(), second = std::next(first);
      findings_.Add(code::kUsage, place_,
                    "layers are counted below " + ShortQuote(first->first) +
                        " and below " + ShortQuote(second->first) +
                        ": stages divide one chain of layers",
                    "an encoder and a decoder cannot be divided into the "
                    "stages of one pipeline");
      return false;
    }
    return true;
  }

  // Finds the layers of tensors that hold several layers (layer stacks). The
  // layers of each stack follow those of the previous stack in the declaration.
  // Returns false after a finding.
  bool ReadStacks() {
    const auto& declared = *declared_->stacked;
    std::vector<std::optional<size_t>> examples(declared.size());
    for (const StackedLayers& one : declared) {
      out_.stacks.push_back({one.dim, 0, 0});
    }
    for (size_t i = 0; i < stack_of_.size(); ++i) {
      const auto stack = patterns_.StackOf(Name(i));
      if (!stack) continue;
      int dims = 1;
      const auto layers = StackedIn(i, declared[*stack], dims);
      if (!layers) return false;
      stack_of_[i] = static_cast<uint32_t>(*stack);
      LayerStackRange& range = out_.stacks[*stack];
      if (!examples[*stack]) {
        examples[*stack] = i;
        range.layers = *layers;
        range.dims = dims;
      } else if (range.layers != *layers) {
        return Refuse(declared[*stack].match.place,
                      ShortQuote(Name(*examples[*stack])) + " holds " +
                          Counted(range.layers, "layer") + ", and " +
                          ShortQuote(Name(i)) + " of the same stack " +
                          CountText(*layers),
                      "give each stack of layers an entry of its own");
      }
    }
    for (size_t s = 0; s < declared.size(); ++s) {
      if (!examples[s]) {
        return Refuse(declared[s].match.place,
                      "`match` of `stacked` is found in no parameter's name",
                      "write a pattern of the tensors that hold the layers");
      }
      out_.stacks[s].first = out_.layers;
      out_.layers += out_.stacks[s].layers;
      if (!CheckCount()) return false;
    }
    return true;
  }

  bool Refuse(const Place& place, std::string message, std::string help) {
    findings_.Add(code::kLayerWithoutStage, place, std::move(message),
                  std::move(help));
    return false;
  }

  std::optional<int64_t> StackedIn(size_t param, const StackedLayers& stack,
                                   int& dims) {
    const ParamLayout& layout =
        compiled_.plan.layouts[compiled_.plan.params[param].layout];
    const auto& shape = compiled_.plan.types[layout.type].shape;
    if (!shape) {
      Refuse(stack.match.place,
             "the shape of " + ShortQuote(Name(param)) +
                 " is unknown, and with it the number of its layers",
             "give a manifest with shapes");
      return std::nullopt;
    }
    if (stack.dim >= std::ssize(*shape)) {
      Refuse(stack.match.place,
             ShortQuote(Name(param)) + " has " +
                 Counted(std::ssize(*shape), "dimension") +
                 ", so that dimension " + std::to_string(stack.dim) +
                 " cannot count its layers",
             "let `match` take only tensors that hold all layers");
      return std::nullopt;
    }
    dims = DimsOfLayers(*shape, stack.dim);
    Size layers = 1;
    for (int dim = stack.dim; dim < stack.dim + dims; ++dim) {
      layers *= (*shape)[AsIndex(dim)];
    }
    return layers.value();
  }

  // Returns over how many dimensions the layers of a tensor extend. This is 1,
  // or 3 if a rank has several stages and the dimensions from `dim` on are
  // [virtual stages, ranks, layers of a stage].
  int DimsOfLayers(const Shape& shape, int dim) const {
    const int64_t ranks = request_.table.ranks();
    const int64_t stages = request_.table.stages / ranks;
    const size_t at = AsIndex(dim);
    return stages > 1 && dim + 2 < std::ssize(shape) && shape[at] == stages &&
                   shape[at + 1] == ranks
               ? 3
               : 1;
  }

  void PlaceParam(size_t param) {
    out_.tied.push_back(false);
    if (stack_of_[param] != kNoStack) {
      out_.of.push_back(StageUnits::kStacked);
      return;
    }
    if (layers_[param]) {
      out_.of.push_back(1 + *layers_[param]);
      return;
    }
    if (InTower(param)) {
      out_.of.push_back(0);
      return;
    }
    const std::string_view name = Name(param);
    ParameterRole role = RoleOfEnd(name, separator_);
    bool before = IsBeforeLayers(role, name);
    bool after = IsAfterLayers(role, name);
    if (const step::RoleUse* use = UseOf(param)) {
      role.module_role = use->module_role;
      before = use->begins;
      after = !before;
    }
    has_head_ = has_head_ || role.module_role == Role::kHead;
    const auto first = patterns_.IsFirst(name), last = patterns_.IsLast(name);
    if (first.value_or(!last.value_or(false) && before)) {
      out_.of.push_back(0);
      out_.tied.back() = role.module_role == Role::kEmbedding;
    } else if (last.value_or(after)) {
      out_.of.push_back(out_.layers + 1);
    } else {
      out_.of.push_back(0);
      outside_.emplace_back(name);
    }
  }

  // Returns the use of a parameter by the lines of a `model:` section before or
  // after the layers; null if there is none.
  const step::RoleUse* UseOf(size_t param) const {
    if (uses_ == nullptr || uses_->empty()) return nullptr;
    const step::RoleUse& use = (*uses_)[param];
    return use.begins || use.ends ? &use : nullptr;
  }

  // Reports all parameters that belong to no unit (to no layer and to neither
  // end of the model) as one finding.
  void CheckOutside() {
    if (outside_.empty()) return;
    std::string subject = ShortQuote(outside_[0]);
    if (outside_.size() > 1) {
      subject += " and " + Counted(std::ssize(outside_) - 1, "other parameter");
    }
    subject += outside_.size() > 1 ? " are of no layer, and "
                                   : " is of no layer, and ";
    const bool lists =
        declared_ != nullptr && declared_->first && declared_->last;
    Finding& finding = findings_.Add(
        code::kParameterOutsideStages, place_,
        subject + (lists ? "no pattern of `first` or `last` is found in it"
                         : "it is neither an embedding, which the first stage "
                           "has, nor a norm or a head, which the last one has"),
        declared_ == nullptr
            ? "stages need names that say where a parameter belongs; "
              "`stages:` in the rules may give patterns of the `first` stage "
              "and of the `last` one"
            : "add a pattern of it to `first` or to `last`, the ends of the "
              "model");
    finding.params = std::move(outside_);
  }

  // Reports a gap in the layers' numbers, which start at 0.
  void CheckGaps() {
    if (!out_.stacks.empty()) return;
    std::vector<bool> present(AsIndex(out_.layers));
    for (const auto& layer : layers_) {
      if (layer) present[AsIndex(*layer)] = true;
    }
    const auto missing = std::find(present.begin(), present.end(), false);
    if (missing == present.end()) return;
    findings_.Add(code::kLayerWithoutStage, place_,
                  "no parameter is of layer " +
                      std::to_string(missing - present.begin()) + " of " +
                      CountText(out_.layers),
                  "the names of layers count from 0 without gaps");
  }

  const Compiled& compiled_;
  const StageRequest& request_;
  // The `stages:` section; null if the request has none.
  const StageDeclaration* const declared_;
  const Place place_;
  const char separator_;
  Findings& findings_;
  // What each parameter does by the `model:` section; null without one.
  const std::vector<step::RoleUse>* uses_ = nullptr;
  StagePatterns patterns_;
  StageUnits out_;
  // Indexed by parameter: its layer; nullopt if it belongs to none.
  std::vector<std::optional<int64_t>> layers_;
  // Indexed by parameter: whether it is of a tower; empty if none is.
  std::vector<bool> towers_;
  // Indexed by parameter: the index of its layer stack.
  std::vector<uint32_t> stack_of_;
  // The names of parameters without a unit.
  std::vector<std::string> outside_;
  bool has_head_ = false;
};

}  // namespace

std::optional<StageUnits> StageUnitsOf(const Compiled& compiled,
                                       const StageRequest& request,
                                       Findings& findings) {
  return UnitReader(compiled, request, findings).Read();
}

Mesh StageMesh(const Mesh& mesh, const std::string& axis) {
  Mesh out = mesh;
  const auto at = mesh.Find(axis);
  if (!at) return out;
  const int64_t size = mesh.axes[*at].size;
  out.axes[*at].size = 1;
  out.devices = mesh.devices / size;
  // Each stage gets an equal share of the hosts. If one host has devices of
  // several stages, the gcd keeps the number of hosts of a stage an integer.
  out.processes = mesh.processes / std::gcd(mesh.processes, size);
  if (!out.dcn.empty()) {
    out.slices /= out.dcn[*at];
    out.dcn[*at] = 1;
    if (out.slices == 1) out.dcn.clear();
  }
  return out;
}

}  // namespace shardc
