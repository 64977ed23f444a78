// Exports the tensor parallel plan of transformers: a style for each module
// name, with `*` for the numbers in it. A style determines how a module's
// weight and bias are sharded, and what is communicated before and after the
// module. For example:
//
//   h.0.up.weight ["tp"], .bias ["tp"]          ->  "h.*.up": "colwise"
//   h.0.down.weight [null, "tp"], .bias [null]  ->  "h.*.down": "rowwise"
//   h.0.norm.weight [null]                      ->  "h.*.norm": "replicate"
//
// In a local block (hf_modules.h), activations stay sharded between modules.
// Outside of local blocks, outputs are gathered and inputs are split, with the
// styles `colwise_gather_output` and `rowwise_split_input`. The export uses
// only the axis of tensor parallelism. If no style expresses the sharding of a
// module, the module is replicated, and a finding is added.
//
// From version 5.16 on, transformers merges the exported plan into the model's
// own plan. A module without an exported style then keeps the style of the
// model's own plan. For these versions replicated modules therefore get the
// style `replicate`. For earlier versions they get no style.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emit/exports/exporter.h"
#include "emit/exports/hf_modules.h"
#include "facts/parameters.h"
#include "model/name.h"
#include "roles/classify.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

// The styles that a version of transformers has.
enum class Vocabulary : uint8_t {
  kFirst,    // transformers until 5.0
  kRenamed,  // transformers from 5.1 on
  kMerged,   // from 5.16 on, where the plan is added to the model's own
};

// The reason why a module that contains other modules is replicated. For
// example, the experts of MuseSpark normalise their results. If a style sharded
// the experts, each device would normalise its own summand instead of the sum.
constexpr std::string_view kModulesInside =
    "it has modules inside, whose code a style does not cover";
// Why a module of which the plan divides each of several parts is replicated.
// Outside of such a block, the parts of an output are not gathered in their
// order.
constexpr std::string_view kPackedElsewhere =
    "the plan divides each of its parts, which `packed_colwise` does only for "
    "a "
    "gate and up projection without bias, next to a sharded down projection";
// In LongCat-Flash, some experts return their input. The name of their module
// is the name of the module of all experts with this suffix.
constexpr std::string_view kIdentity = ".identity_expert";
// The last part of the name of DeepSeek V4's output projection. It has no
// style, because it is not a linear layer: its tensor stacks one weight for
// each group of heads.
constexpr std::string_view kGroupedLinear = "o_a_proj";

// Returns whether a module is the embedding of tokens, whose weight a head may
// share.
bool NamesInputEmbedding(std::string_view part) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "embed_tokens", "embed_in", "wte", "word_embeddings", "embeddings"};
  return IsAmong(part, kNames);
}

// Returns whether a module is the model in one with a head. The names of a
// model without a head do not have its name.
bool IsRoot(std::string_view name) {
  return name == "model" || name == "transformer" || name == "gpt_neox";
}

// Returns whether a module is the head of a task, in a model that has no head
// which predicts tokens.
bool IsTask(std::string_view part) {
  static constexpr std::array<std::string_view, 4> kNames = {
      "score", "classifier", "qa_outputs", "classification_head"};
  return IsAmong(part, kNames);
}

// A style, or the reason why no style expresses the sharding.
struct StyleOrReason {
  std::string style;
  std::string reason;
};

class TpPlanWriter {
 public:
  TpPlanWriter(const Request& request, std::string axis, Vocabulary vocabulary)
      : axis_(std::move(axis)),
        vocabulary_(vocabulary),
        program_(request.program),
        modules_(ModulesOf(request, axis_, vocabulary != Vocabulary::kFirst)),
        blocks_(LocalBlocksOf(modules_, request.plan.mesh.SizeOf(axis_),
                              request.model_type)) {}

  void Write(Sink& out, Findings& findings) {
    JsonWriter json(out);
    json.BeginObject(JsonLayout::kLines);
    for (const std::string& name : modules_.order) {
      const HfModule& module = modules_.of.at(name);
      if (!module.unsharded.empty() && !module.AnySplit()) {
        ReportReplicated(name, module.unsharded, module.place, findings,
                         Level::kNote);
      }
      if (HoldsExperts(name)) {
        Experts(name, module, json, findings);
      } else {
        OneModule(name, module, json, findings);
      }
    }
    ListOfHeads(json);
    TiedHead(json);
    json.EndObject();
    out.Put('\n');
  }

 private:
  bool renamed() const { return vocabulary_ != Vocabulary::kFirst; }

  void Replicate(const std::string& name, JsonWriter& json) const {
    if (vocabulary_ == Vocabulary::kMerged) json.Member(name, "replicate");
  }

  static void ReportReplicated(const std::string& name,
                               const std::string& reason, const Place& place,
                               Findings& findings,
                               Level level = Level::kWarning) {
    Finding finding;
    finding.code = &code::kInexpressible;
    finding.level = level;
    finding.place = place;
    finding.message =
        "`hf-tp-plan` leaves " + ShortQuote(name) + " replicated: " + reason;
    findings.Add(std::move(finding));
  }

  void OneModule(const std::string& name, const HfModule& module,
                 JsonWriter& json, Findings& findings) const {
    bool is_module = false;
    // true if the module has a weight or a bias
    bool replicated = false;
    for (const auto& [leaf, tensor] : module.tensors) {
      const std::string of_leaf = name.empty() ? leaf : name + "." + leaf;
      const auto hook = blocks_.hooks.find(of_leaf);
      if (tensor.buffer) {
        if (tensor.AnySplit()) {
          ReportReplicated(of_leaf, "it is a buffer, which no style covers",
                           module.place, findings);
        }
        continue;
      }
      if (leaf == "weight" || leaf == "bias") {
        is_module = true;
      } else if (hook != blocks_.hooks.end() && renamed()) {
        json.Member(of_leaf, hook->second);
      } else {
        if (tensor.AnySplit()) {
          ReportReplicated(of_leaf, "no style covers this parameter",
                           module.place, findings);
        }
        Replicate(of_leaf, json);
        replicated = true;
      }
    }
    const auto hook = blocks_.hooks.find(name);
    if (hook != blocks_.hooks.end()) {
      if (vocabulary_ == Vocabulary::kMerged) json.Member(name, hook->second);
      return;
    }
    if (!is_module) {
      // The plan that transformers has for the model may shard these parameters
      // and add collectives for them. The style `replicate` overrides that
      // plan.
      if (replicated && !name.empty()) Replicate(name, json);
      return;
    }
    const StyleOrReason answer = StyleOf(name, module);
    if (!answer.reason.empty()) {
      ReportReplicated(name, answer.reason, module.place, findings);
    }
    if (answer.style.empty()) {
      Replicate(name, json);
    } else {
      json.Member(name, answer.style);
    }
  }

  void Experts(const std::string& name, const HfModule& module,
               JsonWriter& json, Findings& findings) const {
    ExpertStyles styles;
    if (module.AnySplit()) {
      styles = StylesOfExperts(module, renamed(), program_ != nullptr);
      if (styles.by_expert && SplitsOtherModules()) {
        styles.reason =
            "the axis shards whole experts, which is an expert parallel plan, "
            "and other modules; export a plan with `" +
            axis_ + "` on the experts only for `ep_plan`";
      }
      if (!styles.by_expert && HasChildren(modules_, name)) {
        styles.reason = std::string(kModulesInside);
      }
      if (!styles.reason.empty()) {
        ReportReplicated(name, styles.reason, module.place, findings);
      }
    }
    const bool styled = module.AnySplit() && styles.reason.empty();
    for (const auto& [leaf, tensor] : module.tensors) {
      if (styled) {
        json.Member(name + "." + leaf, styles.leaves.at(leaf));
      } else {
        Replicate(name + "." + leaf, json);
      }
    }
    // Replicated experts get no hook, because a hook would sum the equal
    // results of all devices.
    const bool identity =
        HasIdentityExperts(module) && !(styled && styles.by_expert);
    if (!styled) {
      Replicate(name, json);
      if (identity) Replicate(name + std::string(kIdentity), json);
    } else if (renamed()) {
      json.Member(name, styles.module);
      if (identity)
        json.Member(name + std::string(kIdentity), "moe_identity_expert");
    }
  }

  bool SplitsOtherModules() const {
    return std::any_of(
        modules_.of.begin(), modules_.of.end(), [](const auto& module) {
          return !HoldsExperts(module.first) && module.second.AnySplit();
        });
  }

  // Replicates lists of heads (`lm_head.0`, `lm_head.1`, ...). The model's own
  // plan may have a style for the list, but a style is not valid for a list.
  void ListOfHeads(JsonWriter& json) const {
    for (const std::string& name : modules_.order) {
      const std::string list(ParentOf(name));
      if (name != list + ".*" || modules_.of.contains(list)) continue;
      if (RoleOfModule(list) == Role::kHead) Replicate(list, json);
    }
  }

  // Returns whether a head may share an embedding of this module: that of the
  // model, or of its decoder in models without an encoder, as in OPT.
  bool IsBodyOfModel(std::string_view module) const {
    if (IsRoot(module)) return true;
    return AfterLast(module, '.') == "decoder" && IsRoot(ParentOf(module)) &&
           std::none_of(
               modules_.of.begin(), modules_.of.end(), [](const auto& one) {
                 return one.first.find("encoder.") != std::string::npos;
               });
  }

  // Writes the style of a head that shares the embedding's weight. The plan of
  // shardc has no parameter for this head, and the embedding's sharding is that
  // of the head's weight. From version 5.16 on, the model's own plan may have
  // another style for the head, which must be replaced.
  void TiedHead(JsonWriter& json) const {
    if (program_ != nullptr) {
      for (const auto& [weight, head] : program_->reads.heads) {
        const std::string embedding = ModuleOf(weight);
        if (modules_.of.contains(embedding)) HeadOf(embedding, head, json);
      }
      for (const auto& [weight, readers] : program_->reads.lookups) {
        const auto embedding = modules_.of.find(ModuleOf(weight));
        if (embedding == modules_.of.end()) continue;
        const auto answer = StyleOf(embedding->first, embedding->second);
        for (const std::string& reader : readers) {
          if (answer.style.empty()) {
            Replicate(reader, json);
          } else {
            json.Member(reader, answer.style);
          }
        }
      }
      return;
    }
    std::string embedding;
    for (const auto& [name, module] : modules_.of) {
      const std::string_view part = AfterLast(name, '.');
      if (RoleOfModule(name) == Role::kHead || name.ends_with("head") ||
          name.ends_with("head.*") || IsTask(part)) {
        return;
      }
      if (IsBodyOfModel(ParentOf(name)) && NamesInputEmbedding(part)) {
        embedding = name;
      }
    }
    if (!embedding.empty()) HeadOf(embedding, "lm_head", json);
  }

  static std::string ModuleOf(std::string_view param) {
    const std::string generic =
        NameTemplate(param, '.', TemplateNumbers::kParts);
    return std::string(ParentOf(generic));
  }

  // Writes the style of a head that has the weight of an embedding.
  void HeadOf(const std::string& embedding, const std::string& head,
              JsonWriter& json) const {
    const HfModule& module = modules_.of.at(embedding);
    if (StyleOf(embedding, module).style.empty()) {
      Replicate(head, json);
    } else {
      const bool rows = module.Find("weight")->Same()->dim == 0;
      json.Member(head, rows ? GatherOutput() : SplitInput());
    }
  }

  // The styles of modules outside of local blocks.
  std::string_view GatherOutput() const {
    return renamed() ? "colwise_gather_output" : "colwise_rep";
  }
  std::string_view SplitInput() const {
    return renamed() ? "rowwise_split_input" : "rowwise_rep";
  }

  StyleOrReason StyleOf(const std::string& name, const HfModule& module) const {
    if (!module.AnySplit()) return {};
    for (const auto& [leaf, tensor] : module.tensors) {
      const AxisSharding* const sharding = tensor.Same();
      if (sharding == nullptr) {
        return {"", "modules of this name have different shardings"};
      }
      if (sharding->placed) {
        return {"", "its tensors are placed at one coordinate of an axis"};
      }
      if (sharding->split() && sharding->stride > 1) {
        return {"", "other axes shard the dimension before `" + axis_ + "`"};
      }
      if (leaf != "weight" && sharding->parts > 1) {
        return {"", "the plan divides each of several parts of its " +
                        ShortQuote(leaf)};
      }
      if (leaf != "weight" && leaf != "bias") {
        return {"", "no style covers its " + ShortQuote(leaf)};
      }
    }
    const HfTensor* const weight = module.Find("weight");
    const HfTensor* const bias = module.Find("bias");
    if (weight == nullptr || !weight->Same()->split()) {
      return {"", "only its bias is sharded"};
    }
    if (HasChildren(modules_, name)) {
      return {"", std::string(kModulesInside)};
    }
    if (AfterLast(name, '.') == kGroupedLinear) {
      return {"", "styles shard linear layers, and it multiplies groups"};
    }
    if (IsConv1d(name, *weight, bias)) {
      return {"", "styles shard linear layers, and it is a `Conv1D`"};
    }
    return OfWeight(name, *weight->Same(),
                    bias == nullptr ? nullptr : bias->Same());
  }

  // Returns whether the module is a Conv1D of GPT-2, whose weight is [in, out].
  // A Conv1D has a name such as `c_fc`, but other models have linear layers of
  // these names, whose weight is [out, in]. A bias has the length of `out`. The
  // module is therefore a linear layer if the bias has the length of the
  // weight's first dimension and not of the second.
  static bool IsConv1d(const std::string& name, const HfTensor& weight,
                       const HfTensor* bias) {
    if (!facts::RoleOfModule(name, '.').conv1d) return false;
    if (bias == nullptr || bias->shapes.size() != 1 ||
        weight.shapes.size() != 1) {
      return true;
    }
    const Shape& shape = *weight.shapes.begin();
    const int64_t size = bias->shapes.begin()->front();
    return shape.size() != 2 || size != shape[0] || size == shape[1];
  }

  StyleOrReason OfWeight(const std::string& name, const AxisSharding& weight,
                         const AxisSharding* bias) const {
    if (weight.rank != 2) {
      return {"", "styles shard matrices, and it has " +
                      Counted(weight.rank, "dimension")};
    }
    if (weight.parts > 1) {
      if (blocks_.packed.count(name) == 0) {
        return {"", std::string(kPackedElsewhere)};
      }
      if (!renamed()) {
        return {"", "this version of transformers has no `packed_colwise`"};
      }
      return {"packed_colwise", ""};
    }
    const ParameterRole role = facts::RoleOfModule(name, '.');
    if (role.module_role == Role::kRouter) {
      return {"", "each device needs the router's scores of all experts"};
    }
    const std::string_view part = AfterLast(name, '.');
    // A table of vectors has no bias, but a projection of embeddings may.
    const bool table = program_ != nullptr ? modules_.of.at(name).table
                                           : role.module_role != Role::kHead &&
                                                 NamesEmbedding(part);
    if (table && bias == nullptr) {
      return {(renamed() ? "embedding_" : "") +
                  std::string(weight.dim == 0 ? "rowwise" : "colwise"),
              ""};
    }
    const bool bias_split = bias != nullptr && bias->split();
    const bool local = blocks_.projections.count(name) != 0;
    if (weight.dim == 1) {
      if (bias_split) return {"", "`rowwise` replicates the bias"};
      if (local) return {"rowwise", ""};
      return {std::string(SplitInput()), ""};
    }
    if (bias != nullptr && !bias_split) {
      return {"", "`colwise` shards the bias with its weight"};
    }
    if (local) return {"colwise", ""};
    return {std::string(GatherOutput()), ""};
  }

  std::string axis_;
  Vocabulary vocabulary_;
  const ProgramNotes* program_;  // may be null
  HfModules modules_;
  LocalBlocks blocks_;
};

// Returns the set of style names that a version of transformers has, such as
// `4.57`, `5` or `5.16.1`; without a version, the newest set. Returns nullopt
// and adds a finding if the text is not a version or the version is too old.
std::optional<Vocabulary> VocabularyOf(const std::string& version,
                                       Findings& findings) {
  if (version.empty()) return Vocabulary::kMerged;
  const size_t dot = version.find('.');
  const auto number = [](std::string_view text) -> std::optional<int> {
    if (text.empty() || text.size() > 3) return std::nullopt;
    int out = 0;
    for (const char c : text) {
      if (c < '0' || c > '9') return std::nullopt;
      out = 10 * out + (c - '0');
    }
    return out;
  };
  const std::string_view all = version;
  const auto major = number(all.substr(0, dot));
  const std::string_view rest =
      dot == std::string::npos ? "99" : all.substr(dot + 1);
  const auto minor = number(rest.substr(0, rest.find('.')));
  if (!major || !minor || *major < 4 || (*major == 4 && *minor < 50)) {
    findings.Add(
        code::kUsage,
        {MakeSource("--transformers", version), 0, version.size()},
        ShortQuote(version) +
            " is not a version of transformers with tensor parallel plans",
        "give 4.50 or a later version");
    return std::nullopt;
  }
  if (*major < 5 || (*major == 5 && *minor < 1)) return Vocabulary::kFirst;
  return *major == 5 && *minor < 16 ? Vocabulary::kRenamed
                                    : Vocabulary::kMerged;
}

// Returns whether the module of a matrix in layers, or which tensor of its
// module the matrix is, has a name of no published model. transformers has no
// module of such a name, or one whose code is not known:
//
//   self_attn.drosk.weight, q_proj.drosk
bool IsOfUnknownModule(const ReadParam& param, const std::string& generic) {
  const auto& shape = param.type.shape;
  if (!shape || shape->size() < 2 || generic.find('*') == generic.npos) {
    return false;
  }
  const auto parts = SplitName(generic, '.');
  const auto own = parts.end() - std::min<ptrdiff_t>(2, std::ssize(parts));
  return !std::all_of(own, parts.end(), IsPublishedWord);
}

// Returns whether it is known what most of the matrices do that the axis
// splits. The style of a module follows from that: without it, the written plan
// replicates the matrix, with a warning. A tree of which most modules are
// unknown is not one of transformers, and the written plan would replicate
// nearly all of it. Then adds an error that lists these matrices.
bool KnowsModules(const Request& request, const std::string& axis,
                  Findings& findings) {
  Finding finding;
  std::vector<std::string> names;
  std::set<std::string, std::less<>> listed;
  int64_t split = 0;
  for (const ReadParam& param : request.plan.params) {
    const Spec& spec = param.SpecOf(request.options.mode);
    if (!SplitBy(request.plan.mesh, axis, spec)) continue;
    ++split;
    std::string generic =
        NameTemplate(param.name, '.', TemplateNumbers::kParts);
    if (!IsOfUnknownModule(param, generic)) continue;
    if (finding.params.empty()) finding.place = param.place;
    finding.params.push_back(param.name);
    if (listed.insert(generic).second) names.push_back(std::move(generic));
  }
  if (2 * std::ssize(finding.params) <= split) return true;
  constexpr size_t kListed = 3;
  finding.code = &code::kInexpressible;
  finding.message = "`hf-tp-plan` has no style for " +
                    Counted(std::ssize(names), "matrix", "matrices") +
                    " that the plan splits over `" + axis +
                    "`: nothing shows what the modules do: " +
                    Join(First(names, kListed), ", ", ShortQuote);
  if (names.size() > kListed) {
    finding.message +=
        " and " + CountText(std::ssize(names) - int64_t{kListed}) + " more";
  }
  finding.help =
      "compile the plan from a manifest with the names of transformers' "
      "modules, or leave these matrices unsharded over `" +
      axis + "`";
  findings.Add(std::move(finding));
  return false;
}

void WriteHfTpPlan(const Request& request, Sink& out, Findings& findings) {
  const auto axis = TensorAxis(request, findings);
  const auto vocabulary = VocabularyOf(request.options.version, findings);
  if (!axis || !vocabulary) return;
  if (SeparatorOf(request.plan) != '.') {
    findings.Add(code::kInexpressible, {},
                 "`hf-tp-plan` needs the module names of PyTorch, which are "
                 "separated by `.`",
                 "compile the plan from the manifest of the PyTorch model");
    return;
  }
  if (!EvenShards(
          request.plan,
          {"hf-tp-plan", "the collectives of its styles need equal parts",
           request.options.mode, *axis},
          findings) ||
      !KnowsModules(request, *axis, findings)) {
    return;
  }
  TpPlanWriter(request, *axis, *vocabulary).Write(out, findings);
}

}  // namespace

constexpr Exporter kHfTpPlan{
    .name = "hf-tp-plan",
    .what = "transformers' tensor parallel plan: styles of modules",
    .formats = "json",
    .flags = "--mode --axis --transformers --program",
    .write = WriteHfTpPlan,
    .of_stage = true,
    .parts_form = PartsForm::kWritesEqual};

}  // namespace shardc::exports
