// Chooses the inputs of a command: a mesh, rules, a manifest and a model. An
// input is named by the command line (the request), or by a target of the
// project file. The command line takes precedence. The target is the one that
// the command line names, or the only target of the project.
//
// The project file is read only in two cases: if the command line names a
// project or a target, or if it names neither mesh, rules nor manifest. For
// example, the project's only target has `rules: [a.yaml]`, and the command
// line has a mesh and a manifest. The project file is not read, so there are no
// rules. If the command line also names the target, the rules are a.yaml.
#include "target/choose.h"

#include <algorithm>
#include <array>
#include <compare>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "facts/parameters.h"
#include "match/match.h"
#include "model/axis_rules.h"
#include "model/name.h"
#include "parse/project.h"
#include "plan/compile.h"
#include "plan/mesh_purposes.h"
#include "roles/layer_stacks.h"
#include "source/file.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "target/open.h"

namespace shardc {
namespace {

void ApplyRequest(const TargetRequest& request, Target& target) {
  if (!request.mesh.empty()) target.mesh = MeshInput{request.mesh, {}, {}, {}};
  if (!request.rules.empty()) target.rules = request.rules;
  if (!request.manifest.empty()) target.manifest = request.manifest;
  if (!request.model.empty()) target.model = request.model;
  if (!request.families.empty()) target.families = request.families;
}

std::string TargetNames(const Project& project) {
  std::string names;
  for (const Target& target : project.targets) {
    names += (names.empty() ? "`" : ", `") + target.name + "`";
  }
  return names;
}

// Returns the target with this name, or the only target if the name is empty.
// If there is no such target, adds a finding and returns null.
const Target* FindTarget(const Project& project, const std::string& name,
                         Findings& findings) {
  for (const Target& known : project.targets) {
    if (known.name == name || (name.empty() && project.targets.size() == 1)) {
      return &known;
    }
  }
  findings.Add(code::kUsage, {},
               name.empty()
                   ? "the project has " +
                         Counted(static_cast<int64_t>(project.targets.size()),
                                 "target") +
                         " and none is chosen"
                   : "the project has no target `" + name + "`",
               project.targets.empty()
                   ? "write a target under `targets` of the project file"
                   : "choose with `--target`: " + TargetNames(project));
  return nullptr;
}

// Records the rules, meshes, manifests, models and verification settings of all
// targets as read files, so that no output overwrites them. Baselines are not
// recorded, because `check --write-baseline` has to replace them.
void NoteInputs(const Project& project, Findings& findings) {
  for (const Target& target : project.targets) {
    for (const std::string& rules : target.rules) {
      findings.NoteRead(FileIdOf(rules));
    }
    for (const std::string* input : {&target.mesh.file, &target.manifest,
                                     &target.model, &target.verify.settings}) {
      if (!input->empty()) findings.NoteRead(FileIdOf(*input));
    }
  }
}

// Returns false after a finding if two inputs of the request are `-`, because
// standard input can be read as only one of them.
bool ReadsStandardInputOnce(const TargetRequest& request, Findings& findings) {
  std::vector<std::string> flags;
  const auto count = [&](std::string_view flag, const std::string& value) {
    if (value == "-") flags.push_back(Quote(flag));
  };
  count("--mesh", request.mesh);
  for (const std::string& rules : request.rules) count("--rules", rules);
  count("--manifest", request.manifest);
  count("--model", request.model);
  if (flags.size() < 2) return true;
  findings.Add(code::kUsage, {},
               flags[0] + " and " + flags[1] +
                   " are both `-`, and standard input has the text of one file",
               "give the path of a file for one of them");
  return false;
}

std::optional<Project> ReadProjectFile(const std::string& path,
                                       bool allow_outside, Findings& findings) {
  auto project = ReadProject(path, findings, nullptr, allow_outside);
  if (project) NoteInputs(*project, findings);
  return project;
}

}  // namespace

std::optional<Project> OpenProject(const TargetRequest& request,
                                   Findings& findings) {
  if (request.no_project) return std::nullopt;
  if (!request.project.empty())
    return ReadProjectFile(request.project, request.allow_outside, findings);
  std::error_code error;
  const auto here = std::filesystem::current_path(error);
  const auto path = FindProject(error ? "." : here.string());
  if (!path) return std::nullopt;
  // The path is relative to the working directory, so that messages do not
  // depend on the folders of this machine. Links are not followed: a project
  // file that is a link keeps its place in the repository.
  const std::string shown =
      std::filesystem::path(*path).lexically_proximate(here).string();
  return ReadProjectFile(shown, request.allow_outside, findings);
}

std::optional<Target> ChooseTarget(const TargetRequest& request,
                                   Findings& findings) {
  if (!ReadsStandardInputOnce(request, findings)) return std::nullopt;
  Target target;
  const bool asked = !request.target.empty() || !request.project.empty();
  if (asked || !request.NamesAnInput()) {
    const size_t before = findings.errors();
    const auto project = OpenProject(request, findings);
    if (findings.errors() > before) return std::nullopt;
    if (!project && !request.target.empty()) {
      findings.Add(
          code::kUsage,
          {MakeSource("--target", request.target), 0, request.target.size()},
          "there is no project file to take the target from",
          "run where a `shardc.yaml` stands here or above, or name "
          "it with `--project`");
      return std::nullopt;
    }
    if (project) {
      const Target* const chosen =
          FindTarget(*project, request.target, findings);
      if (chosen == nullptr) return std::nullopt;
      target = *chosen;
    }
  }
  ApplyRequest(request, target);
  return target;
}

std::optional<std::string> ChooseFamilies(const TargetRequest& request,
                                          Findings& findings) {
  const bool asked = !request.target.empty() || !request.project.empty();
  if (!request.families.empty() || (request.NamesAnInput() && !asked)) {
    return request.families;
  }
  const size_t before = findings.errors();
  const auto project = OpenProject(request, findings);
  if (findings.errors() > before) return std::nullopt;
  return project ? project->families : "";
}

Boundary RulesBoundary(const Target& target, const TargetRequest& request) {
  const bool of_project = !target.project_dir.empty() && request.rules.empty();
  if (!of_project || request.allow_outside) return {};
  return Boundary::Of(
      (std::filesystem::path(target.project_dir) / "shardc.yaml").string());
}

std::optional<std::vector<Target>> ChooseTargets(
    const TargetRequest& request, std::span<const std::string> names,
    Findings& findings) {
  const size_t before = findings.errors();
  std::vector<Target> out;
  if (names.empty() && !request.NamesAnInput()) {
    const auto project = OpenProject(request, findings);
    if (findings.errors() > before) return std::nullopt;
    if (project && !project->targets.empty()) return project->targets;
  }
  TargetRequest one = request;
  for (size_t i = 0; i < std::max<size_t>(names.size(), 1); ++i) {
    if (!names.empty()) one.target = names[i];
    auto target = ChooseTarget(one, findings);
    if (!target) return std::nullopt;
    out.push_back(std::move(*target));
  }
  return out;
}

// Makes a resolver of specs for commands that need neither a mesh nor a
// manifest. A resolver replaces the logical axes of a spec, such as BATCH, by
// mesh axes. It keeps only axes that the mesh has. If there is no mesh, it
// therefore gets a mesh with all axes that axis rules and registrations name,
// each of size 1. For example, without axis rules of the user, BATCH stands for
// fsdp and dp:
//
//   no mesh, [BATCH, [FSDP, SP], _]  ->  [["fsdp", "dp"], ["fsdp", "sp"], null]

namespace {

void AddAxis(Mesh& mesh, const std::string& name) {
  if (!mesh.Find(name)) mesh.axes.push_back({name, 1, AxisType::kAuto});
}

Mesh MeshOf(const RuleSet& rules) {
  Mesh mesh;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const AxisValue value = rules.axes.Value(static_cast<AxisRule>(i));
    for (const std::string& axis : value.axes) AddAxis(mesh, axis);
  }
  for (const Registration& registration : rules.registrations) {
    for (const auto& name : registration.rule.names) {
      if (name.forced_axis || !rules.IsLogical(name.text)) {
        AddAxis(mesh, name.text);
      }
    }
  }
  return mesh;
}

}  // namespace

std::optional<Target> ChooseForResolver(const TargetRequest& request,
                                        Findings& findings) {
  Target target;
  const bool named = !request.target.empty() || !request.project.empty();
  const bool given = !request.mesh.empty() || !request.rules.empty();
  if (given && !named) {
    target.rules = request.rules;
    target.model = request.model;
    if (!request.mesh.empty())
      target.mesh = MeshInput{request.mesh, {}, {}, {}};
    return target;
  }
  // If the request names neither a target nor a project, it is not an error
  // that no target can be chosen.
  Findings own;
  auto chosen = ChooseTarget(request, own);
  findings.NoteReadsOf(own);
  if (chosen) return chosen;
  if (!named) return target;
  findings.Append(std::move(own));
  return std::nullopt;
}

std::optional<OpenedResolver> OpenResolver(const Target& target,
                                           std::optional<int64_t> devices,
                                           Findings& findings,
                                           const FileTexts* texts,
                                           const Boundary& boundary) {
  const size_t before = findings.errors();
  RuleSet rules;
  if (!target.rules.empty()) {
    if (auto read = OpenRulesAlone(target, findings, texts, boundary)) {
      rules = std::move(*read);
    }
  }
  std::optional<Mesh> mesh;
  if (IsNamed(target.mesh))
    mesh = OpenMesh(target.mesh, devices, findings, texts);
  if (findings.errors() > before) return std::nullopt;
  if (mesh && !target.model.empty()) {
    const auto model = ReadModelConfig(target.model, findings);
    if (!model) return std::nullopt;
    ChoosePackAxes(rules, &*model, *mesh);
  }
  auto resolver = Resolver::Make(rules, mesh ? *mesh : MeshOf(rules), findings);
  if (!resolver) return std::nullopt;
  return OpenedResolver{std::move(*resolver), mesh.has_value(), rules.policy};
}

namespace {

// Finds rule packs, which are rules files embedded in the library. A pack has a
// family, such as llama, and a naming: the style of its parameter names. For
// `auto`, the table kKin selects a family by the parts of the parameters' names
// and by the model's own name. The naming is determined by the first of these
// lines that applies:
// - flax, if some name ends with the part `kernel`
// - hf, if some name ends with the part `weight`
// - hf, if `.` separates the parts of names, and flax otherwise
// For example:
//
//   model.layers.0.self_attn..., mlp.gate_proj  ->  builtin:llama/hf

// How to recognise a family by the names of its parameters. All elements of
// `has` must occur in the names, and no element of `lacks` may. A comma is
// between two elements. An element is a part of a name, or the last two parts
// of a name (`norm bias`). The model's own name must contain the word `model`
// and must not contain the word `other`; an empty word is not checked.
struct Kin {
  std::string_view family;
  std::string_view has;
  std::string_view lacks = {};
  std::string_view model = {};
  std::string_view other = {};
};

// The first row that fits is selected. A row for special models comes before a
// more general row that fits these models too.
constexpr std::array kKin = {
    Kin{"gpt_bigcode", "c_attn, wpe", {}, "bigcode"},
    Kin{"gpt2", "c_attn, wpe", {}, {}, "bigcode"},
    Kin{"qwen", "c_attn, w1, w2, ln_1"},
    Kin{"deepseek", "self_attn, kv_a_proj_with_mqa"},
    Kin{"deepseek", "self_attn, experts, shared_experts"},
    Kin{"gpt_oss", "self_attn, sinks, router, experts"},
    Kin{"granitemoe", "self_attn, block_sparse_moe, router"},
    Kin{"llama4", "self_attn, feed_forward, router, shared_expert"},
    Kin{"phimoe", "self_attn, block_sparse_moe, norm bias"},
    Kin{"phimoe", "self_attn, router, experts, norm bias"},
    Kin{"mixtral", "self_attn, block_sparse_moe"},
    Kin{"qwen_moe", "self_attn, experts, gate, shared_expert", "linear_attn"},
    Kin{"olmoe", "self_attn, experts, gate, q_norm", {}, "olmoe"},
    Kin{"qwen_moe", "self_attn, experts, gate, q_norm", "linear_attn"},
    Kin{"mixtral", "self_attn, experts, gate, gate_up_proj", "linear_attn"},
    Kin{"phi3", "self_attn, gate_up_proj", "experts"},
    Kin{"gemma", "self_attn, gate_proj, pre_feedforward_layernorm", "experts"},
    // Gemma 1 has the same parameter names as Llama, so the model's own name
    // must decide.
    Kin{"gemma", "self_attn, gate_proj", "experts", "gemma"},
    Kin{"qwen2_vl", "self_attn, gate_proj, visual, merger"},
    Kin{"stablelm", "self_attn, gate_proj, norm bias", "experts"},
    Kin{"cohere", "self_attn, gate_proj, input_layernorm",
        "experts, post_attention_layernorm"},
    Kin{"olmo",
        "self_attn, gate_proj, embed_tokens",
        "experts, input_layernorm",
        {},
        "exaone"},
    Kin{"llava", "self_attn, gate_proj, vision_tower, multi_modal_projector",
        "experts"},
    Kin{"llava", "self_attn, gate_proj, cross_attn_attn_gate"},
    Kin{"llama", "self_attn, gate_proj", "experts"},
    Kin{"nemotron", "self_attn, up_proj, norm bias",
        "gate_proj, experts, mixer"},
    Kin{"starcoder2", "self_attn, c_fc, c_proj"},
    Kin{"phi", "self_attn, fc1, dense"},
    Kin{"whisper", "self_attn, encoder_attn, conv1, fc1"},
    Kin{"opt", "self_attn, fc1, embed_positions, self_attn_layer_norm",
        "encoder_attn, layernorm_embedding"},
    Kin{"clip", "text_model, vision_model, visual_projection, text_projection"},
    Kin{"t5", "SelfAttention, DenseReluDense, layer_norm"},
    Kin{"vit", "cls_token, patch_embeddings, layernorm_before"},
    Kin{"bert", "word_embeddings, token_type_embeddings, self, intermediate"},
    // If the embeddings are tied, they are stored under the name of the output
    // head.
    Kin{"bert", "token_type_embeddings, self, intermediate, lm_head"},
    Kin{"distilbert", "q_lin, lin1, sa_layer_norm"},
    Kin{"dbrx", "norm_attn_norm, Wqkv, experts"},
    Kin{"mpt", "Wqkv, ffn, norm_1", "experts, norm_attn_norm"},
    Kin{"gpt_neo", "attn, attention, c_fc"},
    Kin{"gpt_neox", "query_key_value, embed_in"},
    Kin{"bloom", "query_key_value, word_embeddings_layernorm"},
    Kin{"falcon", "query_key_value, self_attention, word_embeddings",
        "post_attention_norm"},
    Kin{"gptj", "attn, fc_in, fc_out"},
    Kin{"maxtext", "token_embedder, self_attention, wo", "wkv_b, encoder"},
};

// All parts of the parameters' names, and the last two parts of each name that
// has at least two.
class Parts {
 public:
  explicit Parts(const Manifest& manifest) : separator_(manifest.separator) {
    std::string_view last;
    for (const Tensor& tensor : manifest.tensors) {
      Add(tensor.name, last);
      last = tensor.name;
    }
  }

  bool Has(std::string_view part) const {
    const size_t space = part.find(' ');
    if (space == part.npos) return parts_.contains(part);
    std::string end(part);
    end[space] = separator_;
    return ends_.contains(end);
  }

 private:
  // Adds the parts of a name. `last` is the name that was added before it. The
  // leading parts that are equal in both names are not added again.
  void Add(std::string_view name, std::string_view last) {
    size_t at = 0;
    const size_t most = std::min(name.size(), last.size());
    for (size_t i = 0; i < most && name[i] == last[i]; ++i) {
      if (name[i] == separator_) at = i + 1;
    }
    for (;;) {
      const size_t end = std::min(name.find(separator_, at), name.size());
      parts_.insert(name.substr(at, end - at));
      if (end == name.size()) break;
      at = end + 1;
    }
    const size_t leaf = name.rfind(separator_);
    if (leaf == name.npos || leaf == 0) return;
    const size_t before = name.rfind(separator_, leaf - 1);
    ends_.insert(name.substr(before == name.npos ? 0 : before + 1));
  }

  char separator_;
  std::unordered_set<std::string_view> parts_, ends_;
};

constexpr std::string_view kFlax = "flax", kHf = "hf";

std::string_view NamingOf(char separator) {
  return separator == '.' ? kHf : kFlax;
}

// Returns whether the names have each element of a list, or none if `has` is
// false.
bool HaveEach(const Parts& parts, std::string_view list, bool has) {
  constexpr std::string_view kComma = ", ";
  while (!list.empty()) {
    const size_t end = std::min(list.find(kComma), list.size());
    if (parts.Has(list.substr(0, end)) != has) return false;
    list.remove_prefix(std::min(end + kComma.size(), list.size()));
  }
  return true;
}

bool Fits(const Kin& kin, const Parts& parts, std::string_view model) {
  const auto said = [&](std::string_view word) {
    return model.find(word) != model.npos;
  };
  return HaveEach(parts, kin.has, true) && HaveEach(parts, kin.lacks, false) &&
         said(kin.model) && (kin.other.empty() || !said(kin.other));
}

std::string_view PickFamily(const Manifest& manifest, std::string_view model) {
  const Parts parts(manifest);
  for (const Kin& kin : kKin) {
    if (Fits(kin, parts, model)) return kin.family;
  }
  return {};
}

}  // namespace

std::vector<BuiltinPack> BuiltinPacks() {
  std::vector<BuiltinPack> packs;
  for (const EmbeddedFile& file : EmbeddedPacks()) {
    const size_t dot = file.name.find('.');
    const size_t end = file.name.find('.', dot + 1);
    packs.push_back({std::string(file.name.substr(0, dot)),
                     std::string(file.name.substr(dot + 1, end - dot - 1)),
                     file.text});
  }
  return packs;
}

std::vector<std::string> PackNames() {
  std::vector<std::string> names = {"auto"};
  for (const BuiltinPack& pack : BuiltinPacks()) {
    names.push_back("builtin:" + pack.name);
    names.push_back(pack.FullName());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string_view NamingOf(const Manifest& manifest) {
  bool weight = false;
  for (const Tensor& tensor : manifest.tensors) {
    const std::string_view last = AfterLast(tensor.name, manifest.separator);
    if (last == "kernel") return kFlax;
    weight = weight || last == "weight";
  }
  return weight ? kHf : NamingOf(manifest.separator);
}

SourceRef FindPack(std::string_view name, char separator) {
  return FindPack(name, NamingOf(separator));
}

SourceRef FindPack(std::string_view name, std::string_view naming) {
  constexpr std::string_view kPrefix = "builtin:";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  const bool named = name.find('/') != name.npos;
  for (const BuiltinPack& pack : BuiltinPacks()) {
    const bool found =
        named ? pack.FullName().substr(kPrefix.size()) == name
              : pack.name == name && (naming.empty() || pack.naming == naming);
    if (found) return MakeSource(pack.FullName(), std::string(pack.text));
  }
  return nullptr;
}

std::optional<std::string> PickPack(const Manifest& manifest,
                                    std::string_view model_type) {
  const std::string model =
      FoldCase(manifest.model) + " " + FoldCase(model_type);
  const std::string_view family = PickFamily(manifest, model);
  if (family.empty()) return std::nullopt;
  const std::string naming(NamingOf(manifest));
  std::string pack = "builtin:" + std::string(family) + "/" + naming;
  if (!FindPack(pack, naming)) return std::nullopt;
  return pack;
}

// Changes the rules of packs so that they fit scanned layers. A pack describes
// the parameters of one layer. A scan stacks the layers in one tensor, so each
// parameter has one more dimension. The position of this dimension depends on
// the model. A null is inserted into the spec at this position:
//
//   spec: [HEAD, [FSDP, SP]] for o_proj/kernel [4096, 4096]
//     ->  [null, HEAD, [FSDP, SP]] for layers/o_proj/kernel [32, 4096, 4096]
//     ->  [HEAD, null, [FSDP, SP]] for layers/o_proj/kernel [4096, 32, 4096]
//
// One rule may match parameters of several layer stacks. If the dimension of
// layers has the same position in all of them, the rule itself is changed.
// Otherwise each stack gets a changed copy of the rule, which is inserted
// before the rule. The pattern of a copy begins with the path of the stack, so
// it matches only parameters of that stack. A rule whose pattern contains `^`
// gets no copies, because the path could not precede such a match.

namespace {

bool IsOfPack(const Rule& rule) {
  return rule.place.source != nullptr && IsPackName(rule.place.source->name());
}

// Lists that are indexed by template, which is a parameter name with `*` in
// place of its numbers. `names` and `shapes` are of the first parameter with
// this template. A shape is null if it is unknown.
struct Groups {
  std::vector<std::string> templates;
  std::vector<std::string_view> names;
  std::vector<const Shape*> shapes;
};

Groups GroupsOf(const Manifest& manifest) {
  Groups out;
  std::unordered_set<std::string> seen;
  std::string folded;
  for (const Tensor& tensor : manifest.tensors) {
    const auto& shape = manifest.TypeOf(tensor).shape;
    folded.clear();
    AppendTemplate(tensor.name, manifest.separator, folded);
    if (!seen.insert(folded).second) continue;
    out.templates.push_back(folded);
    out.names.push_back(tensor.name);
    out.shapes.push_back(shape ? &*shape : nullptr);
  }
  return out;
}

LayerStacks StacksOf(const Groups& groups, char separator) {
  std::vector<facts::NamedGroup> named;
  for (size_t i = 0; i < groups.names.size(); ++i) {
    named.push_back({.name = groups.templates[i], .shape = groups.shapes[i]});
  }
  return facts::FindStacks(named, separator);
}

// The dimensions of a parameter that count layers, in ascending order, and the
// path of the stack that the first of them belongs to.
struct Scanned {
  std::vector<int> dims;
  std::string path;

  auto operator<=>(const Scanned&) const = default;
};
// Describes the parameters that a rule is the first to match. The key is the
// scanned dimensions of a parameter. The value is the lowest rank of the
// parameters with this key.
using Matched = std::map<Scanned, size_t>;

// Returns the list of dimensions of a spec that is a list or a bundle. Returns
// null if the spec has another form, if its bundle does not exist, or if it
// shards no dimension.
const SpecList* ListOf(const SpecSource& spec, const RuleSet& rules) {
  const auto* list = std::get_if<SpecList>(&spec);
  if (const auto* bundle = std::get_if<SpecBundle>(&spec)) {
    const auto own = std::find_if(
        rules.bundles.begin(), rules.bundles.end(),
        [&](const Bundle& one) { return one.name == bundle->name; });
    const Bundle* const found =
        own != rules.bundles.end() ? &*own : FindBuiltinBundle(bundle->name);
    list = found == nullptr ? nullptr : &found->axes;
  }
  const bool shards =
      list != nullptr &&
      std::any_of(list->entries.begin(), list->entries.end(),
                  [](const SpecEntry& entry) { return !entry.names.empty(); });
  return shards ? list : nullptr;
}

void Insert(SpecSource& spec, const std::vector<int>& dims,
            const RuleSet& rules) {
  const SpecList* const list = ListOf(spec, rules);
  if (list == nullptr) return;
  SpecList out = *list;
  for (const int dim : dims) {
    // A dimension after the last entry of the spec is unsharded, so it needs no
    // entry.
    if (AsIndex(dim) > out.entries.size()) break;
    out.entries.insert(out.entries.begin() + dim, SpecEntry{});
  }
  spec = std::move(out);
}

Rule WithDims(Rule rule, const std::vector<int>& dims, const RuleSet& rules) {
  Insert(rule.spec, dims, rules);
  for (auto& [mode, spec] : rule.modes) Insert(spec, dims, rules);
  return rule;
}

// Returns whether the rule's specs have at most `rank` entries after the
// scanned dimensions are inserted. Specs that Insert() does not change are not
// checked.
bool Fits(const Rule& rule, const Scanned& scanned, size_t rank,
          const RuleSet& rules) {
  const auto fits = [&](const SpecSource& spec) {
    const SpecList* const list = ListOf(spec, rules);
    return list == nullptr ||
           list->entries.size() + scanned.dims.size() <= rank;
  };
  return fits(rule.spec) &&
         std::all_of(rule.modes.begin(), rule.modes.end(),
                     [&](const auto& mode) { return fits(mode.second); });
}

// Returns a pattern for names below the path of a stack. `separator` separates
// the parts of `path`, and `own` is the separator of the rule's pattern.
std::string PathPattern(std::string_view path, char separator, char own) {
  std::string out = "^";
  for (const char c : path) {
    if (c == separator) {
      out += own == '.' ? "\\." : "/";
    } else if (c == '*') {  // `*` stands for a number
      out += "\\d+";
    } else {
      const bool plain =
          IsWordByte(c) || c == '/' || static_cast<unsigned char>(c) >= 0x80;
      if (!plain) out += '\\';
      out += c;
    }
  }
  return out + ".*";
}

std::vector<Matched> MatchedBy(const RuleSet& rules, const Groups& groups,
                               const LayerStacks& stacks, char separator) {
  std::vector<Matched> out(rules.rules.size());
  Findings unreported;  // the compiler reports the same findings
  const auto matcher = Matcher::Compile(PatternsOf(rules.rules), unreported);
  if (!matcher) return out;
  const Matches matches = matcher->Match(groups.names, separator);
  for (size_t i = 0; i < groups.names.size(); ++i) {
    if (matches.first[i] < 0 || groups.shapes[i] == nullptr) continue;
    Scanned scanned;
    for (const ScannedDim& found : stacks.dims[i]) {
      const LayerStack& stack = stacks.stacks[found.stack];
      if (stack.confidence == StackConfidence::kUndecided) continue;
      if (scanned.dims.empty()) scanned.path = stack.path;
      scanned.dims.push_back(found.dim);
    }
    const size_t rank = groups.shapes[i]->size();
    const auto [at, added] =
        out[AsIndex(matches.first[i])].try_emplace(std::move(scanned), rank);
    at->second = std::min(at->second, rank);
  }
  return out;
}

// Appends the rule, changed to fit the scanned dimensions of its parameters. If
// these dimensions are the same for all parameters, appends one changed rule.
// Otherwise appends a changed copy for each stack that fits, and then the
// original rule. A rule that cannot be changed to fit is appended unchanged.
void AppendFitted(const Rule& rule, const Matched& matched, char separator,
                  const RuleSet& rules, std::vector<Rule>& out) {
  const bool one = std::all_of(
      matched.begin(), matched.end(), [&](const Matched::value_type& other) {
        return other.first.dims == matched.begin()->first.dims;
      });
  for (const auto& [scanned, rank] : matched) {
    if (scanned.dims.empty() || !Fits(rule, scanned, rank, rules)) continue;
    Rule fitted = WithDims(rule, scanned.dims, rules);
    if (one) {
      out.push_back(std::move(fitted));
      return;
    }
    // A pattern with `^` gets no copy. It may require the start of a name, and
    // the path of the stack could then not precede the match.
    if (rule.match.find('^') != std::string::npos) continue;
    fitted.match = PathPattern(scanned.path, separator, rule.separator) +
                   "(?:" + rule.match + ")";
    out.push_back(std::move(fitted));
  }
  out.push_back(rule);
}

}  // namespace

void FitPacksToStacks(RuleSet& rules, const Manifest& manifest) {
  const auto is_stacked = [](const TensorType& type) {
    return type.shape && type.shape->size() > 2;
  };
  if (std::none_of(manifest.types.begin(), manifest.types.end(), is_stacked) ||
      std::none_of(rules.rules.begin(), rules.rules.end(), IsOfPack)) {
    return;
  }
  const Groups groups = GroupsOf(manifest);
  const LayerStacks stacks = StacksOf(groups, manifest.separator);
  if (stacks.stacks.empty()) return;
  const auto matched = MatchedBy(rules, groups, stacks, manifest.separator);
  std::vector<Rule> fitted;
  for (size_t i = 0; i < rules.rules.size(); ++i) {
    const Rule& rule = rules.rules[i];
    const bool same = !IsOfPack(rule) || (ListOf(rule.spec, rules) == nullptr &&
                                          rule.modes.empty());
    if (same) {
      fitted.push_back(rule);
    } else {
      AppendFitted(rule, matched[i], manifest.separator, rules, fitted);
    }
  }
  rules.rules = std::move(fitted);
}

}  // namespace shardc
