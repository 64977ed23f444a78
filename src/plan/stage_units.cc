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
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "facts/parameters.h"
#include "match/match.h"
#include "model/project.h"
#include "plan/compile.h"
#include "roles/layer_stacks.h"
#include "roles/role.h"
#include "schedule/schedules.h"
#include "schedule/table.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/other_words.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/role_uses.h"

namespace shardc {
namespace {

// Matches the patterns of a `stages:` section with names whose separator may
// differ from that of the patterns. A pattern with an escaped dot and no slash
// is written for names with dots. A pattern with a slash and no escaped dot is
// written for names with slashes:
//
//   `model\.layers\.(\d+)\.` and model/layers/5/up/kernel
//     ->  found in model.layers.5.up.kernel: layer 5

class StagePatterns {
 public:
  // Compiles the patterns of a declaration, which may be null. `separator` is
  // the separator of the names. Returns nullopt after a finding if a pattern
  // does not compile, or if `layers` has no group.
  static std::optional<StagePatterns> Compile(const StageDeclaration* declared,
                                              char separator,
                                              Findings& findings);

  bool has_layers() const { return !layers_.empty(); }
  bool stacked() const { return !stacks_.empty(); }
  // Returns the text that the first group of the pattern `layers` captures, or
  // nullopt if the pattern does not match the name.
  std::optional<std::string> LayerText(std::string_view name) const;
  // Returns the index of the first entry of `stacked` whose pattern is found in
  // the name, or nullopt if the name matches no entry.
  std::optional<size_t> StackOf(std::string_view name) const;
  // Return whether a pattern of the key `first` or of the key `last` is found
  // in the name. Return nullopt if the declaration lacks the key.
  std::optional<bool> IsFirst(std::string_view name) const;
  std::optional<bool> IsLast(std::string_view name) const;

 private:
  // A compiled pattern. If the pattern and the names have different separators,
  // the separators in names are converted before matching.
  struct Pattern {
    Regex regex;
    // The pattern's separator; 0 if it equals the names' separator.
    char separator = 0;
  };
  using Patterns = std::vector<Pattern>;

  void Add(const NamePattern& pattern, Patterns& to, Findings& findings) const;
  std::string Converted(const Pattern& pattern, std::string_view name) const;
  std::optional<size_t> FirstFound(const Patterns& patterns,
                                   std::string_view name) const;

  char separator_ = '.';
  // The patterns of the keys `layers`, `stacked`, `first` and `last` in the
  // `stages:` section. `layers_` has at most one pattern.
  Patterns layers_, stacks_, first_, last_;
  bool has_first_ = false, has_last_ = false;
};

std::optional<StagePatterns> StagePatterns::Compile(
    const StageDeclaration* declared, char separator, Findings& findings) {
  StagePatterns out;
  out.separator_ = separator;
  if (declared == nullptr) return out;
  const size_t before = findings.errors();
  if (declared->layers) {
    out.Add(*declared->layers, out.layers_, findings);
    if (!out.layers_.empty() && out.layers_[0].regex.groups() < 1) {
      findings.Add(code::kRegexSemantic, declared->layers->place,
                   "`layers` has no group that captures the number of the "
                   "layer",
                   "put parentheses around the digits: "
                   "`model\\.layers\\.(\\d+)\\.`");
    }
  }
  if (declared->stacked) {
    for (const StackedLayers& stack : *declared->stacked) {
      out.Add(stack.match, out.stacks_, findings);
    }
  }
  const auto add_all = [&](const auto& patterns, Patterns& to, bool& given) {
    given = patterns.has_value();
    if (!given) return;
    for (const NamePattern& one : *patterns) out.Add(one, to, findings);
  };
  add_all(declared->first, out.first_, out.has_first_);
  add_all(declared->last, out.last_, out.has_last_);
  if (findings.errors() > before) return std::nullopt;
  return out;
}

void StagePatterns::Add(const NamePattern& pattern, Patterns& to,
                        Findings& findings) const {
  const char own = PatternSeparator(pattern.match);
  auto regex = Regex::Compile({pattern.match, pattern.place, '/'}, findings);
  if (!regex) return;
  to.push_back({std::move(*regex), own == separator_ ? '\0' : own});
}

std::string StagePatterns::Converted(const Pattern& pattern,
                                     std::string_view name) const {
  std::string out(name);
  if (pattern.separator != 0) {
    std::replace(out.begin(), out.end(), separator_, pattern.separator);
  }
  return out;
}

std::optional<size_t> StagePatterns::FirstFound(const Patterns& patterns,
                                                std::string_view name) const {
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].regex.Found(Converted(patterns[i], name))) return i;
  }
  return std::nullopt;
}

std::optional<std::string> StagePatterns::LayerText(
    std::string_view name) const {
  if (layers_.empty()) return std::nullopt;
  const std::string own = Converted(layers_[0], name);
  const auto text = layers_[0].regex.Group1(own);
  if (!text) return std::nullopt;
  return std::string(*text);
}

std::optional<size_t> StagePatterns::StackOf(std::string_view name) const {
  return FirstFound(stacks_, name);
}

std::optional<bool> StagePatterns::IsFirst(std::string_view name) const {
  if (!has_first_) return std::nullopt;
  return FirstFound(first_, name).has_value();
}

std::optional<bool> StagePatterns::IsLast(std::string_view name) const {
  if (!has_last_) return std::nullopt;
  return FirstFound(last_, name).has_value();
}

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
    ParameterRole role = compiled_.Parameters().Of(param).role();
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
                         : "nothing shows an embedding, which the first stage "
                           "has, or a norm or a head, which the last one has"),
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

// Makes the request for a pipeline that a `stages:` section declares. The
// default schedule is 1f1b, with two micro-batches for each rank. Without
// `assign`, the stages get about equal sizes of weights. If the section lists
// tensors that hold several layers (`stacked`), the stages get about equal
// numbers of layers instead. For example, this section states only the axis:
//
//   stages: {axis: pp}  on pp:4  ->  1f1b on 4 ranks with 8 micro-batches

namespace {

constexpr std::string_view kUsualSchedule = "1f1b";

StageBalance BalanceOf(const StageDeclaration& declared) {
  const StageAssignment usual =
      declared.stacked ? StageAssignment::kEven : StageAssignment::kCost;
  switch (declared.assign.value_or(usual)) {
    case StageAssignment::kCost:
      return StageBalance::kWeights;
    case StageAssignment::kSearched:
      return StageBalance::kSearched;
    case StageAssignment::kEven:
    case StageAssignment::kListed:
      break;
  }
  return StageBalance::kEven;
}

}  // namespace

std::optional<int32_t> StageRanks(const Mesh& mesh, const std::string& axis,
                                  const Place& place, Findings& findings) {
  if (!mesh.Find(axis)) {
    std::vector<std::string> names;
    for (const MeshAxis& one : mesh.axes) names.push_back(one.name);
    findings.Add(
        code::kUsage, place, "the mesh has no axis " + ShortQuote(axis),
        axis.find_first_not_of("0123456789") == std::string::npos
            ? "name the axis whose devices hold one stage each, such "
              "as `pp`; its axes are " +
                  MeshText(mesh)
            : DidYouMean(axis, names, "its axes are " + MeshText(mesh)));
    return std::nullopt;
  }
  const int64_t ranks = mesh.SizeOf(axis);
  if (ranks > kMostStageRanks) {
    findings.Add(code::kLimit, place,
                 "a pipeline of " + CountText(ranks) + " ranks is more than " +
                     CountText(kMostStageRanks),
                 "take a smaller axis for the stages");
    return std::nullopt;
  }
  return static_cast<int32_t>(ranks);
}

std::optional<StageRequest> DeclaredRequest(const StageDeclaration& declared,
                                            const Mesh& mesh,
                                            std::optional<int32_t> microbatches,
                                            Findings& findings) {
  const auto ranks =
      StageRanks(mesh, declared.axis, declared.axis_place, findings);
  if (!ranks) return std::nullopt;
  ScheduleRequest schedule;
  schedule.name = declared.schedule.empty() ? std::string(kUsualSchedule)
                                            : declared.schedule;
  schedule.is_file = declared.schedule_is_file;
  schedule.ranks = ranks;
  schedule.virtual_stages = declared.virtual_stages;
  schedule.microbatches = microbatches ? microbatches : declared.microbatches;
  schedule.place =
      declared.schedule.empty() ? declared.place : declared.schedule_place;
  schedule.virtual_place = declared.virtual_place;
  schedule.declared = declared.IsInFile();
  auto table = MakeScheduleTable(schedule, findings);
  if (!table) return std::nullopt;
  StageRequest out;
  out.axis = declared.axis;
  out.table = std::move(*table);
  out.layers = declared.listed;
  out.balance = BalanceOf(declared);
  out.copies = declared.copies.value_or(true);
  if (declared.IsInFile()) out.declared = declared;
  out.axis_place = declared.axis_place;
  out.layers_place = declared.assign_place;
  out.tied_place = declared.tied_place;
  if (out.layers_place.source != nullptr) out.layers_name = "`assign`";
  return out;
}

// Makes the table of a pipeline schedule. If the schedule does not allow the
// given numbers, the error suggests an allowed number of virtual stages or of
// micro-batches, if one exists. The suggestion is written as a flag, or as a
// key of the `stages:` section. For example, `interleaved` runs the
// micro-batches in rounds of equal size, which is impossible for 13 on 4 ranks:
//
//   interleaved on 4 ranks, 13 micro-batches  ->  write `microbatches: 12`

namespace {

using schedule::Extent;
using schedule::Schedule;
using schedule::Table;

class TableMaker {
 public:
  TableMaker(const ScheduleRequest& request, Findings& findings)
      : request_(request), findings_(findings) {}

  std::optional<Table> Make() {
    return request_.is_file ? ReadFile() : MakeByName();
  }

 private:
  // Returns a setting as the user writes it: "--virtual 2" as a flag, or
  // "virtual: 2" in a file.
  std::string Written(std::string_view name, int64_t value) const {
    return request_.declared
               ? "`" + std::string(name) + ": " + std::to_string(value) + "`"
               : "`--" + std::string(name) + " " + std::to_string(value) + "`";
  }

  std::string Name(std::string_view name) const {
    return std::string(request_.declared ? "`" : "`--") + std::string(name) +
           "`";
  }

  std::optional<Table> ReadFile() {
    if (request_.virtual_stages) {
      findings_.Add(code::kUsage, request_.virtual_place,
                    Name("virtual") +
                        " is for schedules by name: the rows of a file say "
                        "which stages a rank has",
                    "leave out " + Name("virtual"));
      return std::nullopt;
    }
    Findings own;
    const SourceRef source = ReadSource(request_.name, own);
    findings_.NoteReadsOf(own);
    for (Finding finding : own.all()) {
      // A schedule's file that cannot be read is reported at the line of the
      // `stages:` section that names the file.
      if (source == nullptr && request_.declared) {
        finding.place = request_.place;
        finding.help = "paths are relative to the file that holds them";
      }
      findings_.Add(std::move(finding));
    }
    if (source == nullptr) return std::nullopt;
    return schedule::ReadCsv(
        source, {request_.ranks.value_or(0), request_.microbatches.value_or(0)},
        findings_);
  }

  void AddRefusal(const Schedule& schedule, const Extent& extent,
                  const std::string& why) {
    std::string help;
    if (schedule.fixed_virtual &&
        extent.virtual_stages != schedule.virtual_stages) {
      help = "write " + Written("virtual", schedule.virtual_stages);
    } else if (const auto nearest = NearestMicrobatches(schedule, extent)) {
      help = "write " + Written("microbatches", *nearest);
    } else {
      help =
          "take another number of ranks, or another schedule: `shardc "
          "schedule` lists them";
    }
    findings_.Add(code::kScheduleRefuses, request_.place, why, help);
  }

  const Schedule* Find() {
    const Schedule* schedule = schedule::FindSchedule(request_.name);
    if (schedule != nullptr) return schedule;
    std::vector<std::string_view> names;
    for (const Schedule& one : schedule::Schedules()) names.push_back(one.name);
    std::string help = HelpForOtherWord("schedule", request_.name);
    if (help.empty()) {
      help = DidYouMean(request_.name, names,
                        request_.declared
                            ? "`shardc schedule` lists the schedules; a file "
                              "is written `{file: schedule.csv}`"
                            : "`shardc schedule` lists the schedules; the name "
                              "of a file has a `.` or a `/`");
    }
    findings_.Add(
        request_.declared ? code::kUnknownName : code::kUsage, request_.place,
        "there is no schedule " + ShortQuote(request_.name), std::move(help));
    return nullptr;
  }

  std::optional<Table> MakeByName() {
    const Schedule* schedule = Find();
    if (schedule == nullptr) return std::nullopt;
    const int32_t ranks = request_.ranks.value_or(1);
    Extent extent{ranks,
                  request_.virtual_stages.value_or(schedule->virtual_stages),
                  request_.microbatches.value_or(1)};
    if (!request_.microbatches) {
      // Two micro-batches for each rank. The number of ranks is limited, so the
      // product does not overflow.
      extent.microbatches = 2 * ranks;
      if (!TooLarge(extent) && Refusal(*schedule, extent)) {
        extent.microbatches = NearestMicrobatches(*schedule, extent)
                                  .value_or(extent.microbatches);
      }
    }
    if (TooLarge(extent)) {
      findings_.Add(code::kLimit, request_.place,
                    "the schedule has " + CountText(TaskCount(extent)) +
                        " tasks, more than " + CountText(schedule::kMostTasks),
                    "give fewer micro-batches, ranks or virtual stages");
      return std::nullopt;
    }
    if (const auto why = Refusal(*schedule, extent)) {
      AddRefusal(*schedule, extent, *why);
      return std::nullopt;
    }
    return schedule::MakeTable(*schedule, extent);
  }

  static bool TooLarge(const Extent& extent) {
    return schedule::TaskCount(extent) > schedule::kMostTasks;
  }

  const ScheduleRequest& request_;
  Findings& findings_;
};

}  // namespace

std::optional<Table> MakeScheduleTable(const ScheduleRequest& request,
                                       Findings& findings) {
  return TableMaker(request, findings).Make();
}

}  // namespace shardc
