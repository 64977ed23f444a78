// Builds the parameter tree of a model by walking its family's description from
// top to bottom. Each module adds its parameters under the path that leads to
// the module:
//
//   model:
//     layers[2]:
//       mlp: linear(8, 4)   ->  model.layers.0.mlp.weight [4, 8]
//                               model.layers.1.mlp.weight [4, 8]
//
// A module is a built-in such as `linear`, a block of the description, or a
// `part`. A part is a subtree of another family's tree. It is built from a
// config that is nested in the model's config.
#include "families/families.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "families/description.h"
#include "families/evaluate.h"
#include "model/not_known.h"
#include "parse/config_fields.h"
#include "parse/layer_kinds.h"
#include "parse/manifest.h"
#include "parse/project.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "source/work.h"

namespace shardc::families {
namespace {

// The largest depth to which blocks and parts may be nested.
constexpr int kDeepestBlock = 32;

// Returns the described type to which a description of `type` may be similar:
// the one that shares the longest beginning with it, of at least
// kSharedBeginning characters. Returns an empty text if there is none.
constexpr size_t kSharedBeginning = 3;
std::string_view Nearest(std::string_view type,
                         std::span<const std::string_view> types) {
  std::string_view nearest;
  size_t longest = kSharedBeginning - 1;
  for (const std::string_view known : types) {
    const auto end =
        std::mismatch(type.begin(), type.end(), known.begin(), known.end());
    const auto shared = static_cast<size_t>(end.first - type.begin());
    if (shared <= longest) continue;
    longest = shared;
    nearest = known;
  }
  return nearest;
}

// Returns the description of a model type that a config names at `place`.
// Returns null after a finding if there is none.
std::unique_ptr<const Description> FindFamily(std::string_view type,
                                              const Library& library,
                                              const Place& place,
                                              Findings& findings) {
  const auto types = library.Names();
  if (IsAmong(type, types)) {
    return LoadDescription(type, library, findings);
  }
  // Even a name that seems misspelled may be the name of another model. The
  // help therefore also states what to do for other models.
  const auto meant = FindMisspelled(type, types);
  std::string help =
      meant ? "did you mean `" + std::string(*meant) + "`? " : "";
  help += Counted(static_cast<int64_t>(types.size()), "type") +
          " are described, `llama` and `bert` among them; for another, give a "
          "manifest, or a folder with its description: `--families DIR` "
          "(`python -m shardc.family` writes one from the model's class)";
  const std::string_view nearest = Nearest(type, types);
  if (!meant && !nearest.empty()) {
    help += " (the nearest name is `" + std::string(nearest) +
            "`, which a description can be `like`)";
  }
  findings.Add(code::kReference, place,
               "there is no description of model type " + ShortQuote(type),
               std::move(help));
  return nullptr;
}

// How a naming scheme spells the names of parameters.
struct Spelling {
  bool flax = false;
  std::string norm = "weight";  // name of the weight in a module `norm`
  bool buffers = false;  // whether buffers, which are not trained, are included
};

class TreeBuilder {
 public:
  TreeBuilder(const Library& library, std::string_view naming,
              Spelling spelling, Dtype dtype, Findings& findings)
      : library_(library),
        naming_(naming),
        spelling_(std::move(spelling)),
        dtype_(dtype),
        findings_(findings) {
    separator_ = spelling_.flax ? '/' : '.';
  }

  bool Walk(const std::vector<Node>& nodes, Evaluator& values) {
    return std::all_of(nodes.begin(), nodes.end(), [&](const Node& node) {
      return WalkNode(node, values);
    });
  }

  Manifest Take() {
    builder_.manifest().separator = separator_;
    builder_.manifest().naming = naming_;
    builder_.manifest().described =
        std::make_shared<program::Facts>(facts_.Take());
    return builder_.Take();
  }

  // Returns the weights of linear modules, in the order of the tree. Trees of
  // Flax have none: their quantised forms are not known.
  const std::vector<LinearWeight>& linear() const { return linear_; }

 private:
  using Sizes = std::vector<Dimension>;

  bool WalkNode(const Node& node, Evaluator& values) {
    if (!values.Spend(1)) return false;
    if (node.condition) {
      const auto holds = values.Condition(*node.condition);
      if (!holds || !*holds) return holds.has_value();
    }
    const size_t before = path_.size();
    if (node.name != "_") Append(node.name);
    const bool good = node.count ? Repeat(node, values) : Content(node, values);
    path_.resize(before);
    return good;
  }

  // Appends a name to the path. Dots in the name become separators.
  void Append(std::string_view name) {
    if (!path_.empty()) path_ += separator_;
    for (const char c : name) path_ += c == '.' ? separator_ : c;
  }

  bool Repeat(const Node& node, Evaluator& values) {
    const auto count = values.Integer(*node.count);
    if (!count) return false;
    const Place blame = values.Blame();
    if (*count < 0) {
      findings_.Add(code::kNumber, blame,
                    "`" + path_ + "` would be there " + std::to_string(*count) +
                        " times");
      return false;
    }
    if (!IsAllowed(node, *count, blame, values)) return false;
    const size_t before = path_.size();
    for (int64_t i = 0; i < *count; ++i) {
      Append(std::to_string(i));
      if (!node.counter.empty()) {
        values.Bind(node.counter, {Value::Kind::kInteger, i, {}, {}, {}});
      }
      const bool good = Content(node, values);
      if (!node.counter.empty()) values.Unbind();
      path_.resize(before);
      if (!good) return false;
    }
    return true;
  }

  // Returns whether a node that is there `count` times is within the limits, as
  // far as that is known before the first is made. A module may have no
  // tensors, so modules are counted too.
  bool IsAllowed(const Node& node, int64_t count, const Place& blame,
                 Evaluator& values) {
    const std::string times =
        "`" + path_ + "` is there " + CountText(count) + " times: it makes";
    if (!Allows(kTreeModules, count, times, blame, findings_)) return false;
    // What is repeated less often is counted as it is made.
    constexpr int64_t kFew = 256;
    if (count < kFew) return true;
    Findings ignored;
    Evaluator counted = values.Copy(ignored);
    BindUnknown(node.counter, counted);
    int64_t nodes = 0;
    const Size least = LeastTensors(node, counted, 0, nodes);
    return values.Spend(AsIndex(nodes)) &&
           Allows(kTreeTensors, Size(tensors_) + least * count,
                  times + " at least", blame, findings_);
  }

  static void BindUnknown(const std::string& name, Evaluator& values) {
    if (name.empty()) return;
    values.Bind(name, {Value::Kind::kUnknown, 0, {}, {}, {}});
  }

  // Returns a number of tensors that the content of a node has at least: those
  // that are there whatever the number of a repetition and the arguments of a
  // block.
  // The parts of other families count as none. `nodes` is the number of nodes
  // that were looked at.
  Size LeastTensors(const Node& node, Evaluator& values, int depth,
                    int64_t& nodes) {
    const std::vector<Node>* children = &node.children;
    const Block* block = nullptr;
    if (depth > kDeepestBlock) return 0;
    if (node.module) {
      const Expression* call = &*node.module;
      if (call->text == "float32" && call->parts.size() == 1) {
        call = &call->parts[0];
      }
      block = values.family().FindBlock(call->text);
      if (block == nullptr) {
        const bool none = call->text == "part" || call->text == "buffer";
        return none ? 0 : 1;
      }
      children = &block->body;
      for (const std::string& name : block->parameters) {
        BindUnknown(name, values);
      }
    }
    Size out = 0;
    for (const Node& child : *children) {
      constexpr int64_t kMostNodes = 4096;
      if (++nodes > kMostNodes) break;
      if (child.condition &&
          !values.Condition(*child.condition).value_or(false)) {
        continue;
      }
      const auto times = child.count ? values.Integer(*child.count)
                                     : std::optional<int64_t>(1);
      if (times.value_or(0) <= 0) continue;
      BindUnknown(child.counter, values);
      out += LeastTensors(child, values, depth + 1, nodes) * *times;
      if (!child.counter.empty()) values.Unbind();
    }
    if (block != nullptr) {
      for (size_t i = 0; i < block->parameters.size(); ++i) values.Unbind();
    }
    return out;
  }

  bool Content(const Node& node, Evaluator& values) {
    if (!node.module) return Walk(node.children, values);
    return Made(*node.module, node, values);
  }

  bool Made(const Expression& call, const Node& node, Evaluator& values) {
    if (const Block* block = values.family().FindBlock(call.text)) {
      return WalkBlock(*block, call, node, values);
    }
    if (call.text == "part") return WalkPart(call, node, values);
    return Module(call, node, values);
  }

  bool WalkBlock(const Block& block, const Expression& call, const Node& node,
                 Evaluator& values) {
    if (call.parts.size() != block.parameters.size() ||
        depth_ > kDeepestBlock) {
      return Wrong(node, "`" + call.text + "` is called wrongly");
    }
    std::vector<Value> given;
    for (const Expression& part : call.parts) {
      auto value = values.Evaluate(part);
      if (!value) return false;
      given.push_back(std::move(*value));
    }
    for (size_t i = 0; i < given.size(); ++i) {
      values.Bind(block.parameters[i], std::move(given[i]));
    }
    ++depth_;
    const bool good = Walk(block.body, values);
    --depth_;
    for (size_t i = 0; i < block.parameters.size(); ++i) values.Unbind();
    return good;
  }

  // Adds the tree of a module `part(FAMILY, CONFIG, KEY)`. This is the subtree
  // at the top-level key KEY of FAMILY's tree, with the sizes of CONFIG. For
  // example, `part('gemma3_text', text, model)` adds the subtree `model` of the
  // family gemma3_text, with the sizes of the nested config `text`. Adds
  // nothing if KEY has a condition that does not hold. FAMILY may also be a
  // value of the config, such as `text.model_type`, and then can name any
  // family.
  bool WalkPart(const Expression& call, const Node& node, Evaluator& values) {
    if (call.parts.size() != 3 || depth_ > kDeepestBlock) {
      return Wrong(node, "`part` is called wrongly");
    }
    const auto name = values.Evaluate(call.parts[0]);
    const auto config = name ? values.Evaluate(call.parts[1]) : std::nullopt;
    if (!config) return false;
    const Place read = name->json.place();
    const Place place = read.source != nullptr ? read : node.place;
    if (name->kind != Value::Kind::kText) {
      findings_.Add(
          code::kSchema, place,
          "`model_type` is " + DescribeJson(name->json) + ", not a string");
      return false;
    }
    const auto family = FindFamily(name->text, library_, place, findings_);
    if (family == nullptr) return false;
    if (config->kind != Value::Kind::kJson || !config->json.IsObject()) {
      return Wrong(node, "there is no part of `" + name->text + "` here");
    }
    const std::string& key = call.parts[2].text;
    const auto found =
        std::find_if(family->tree.begin(), family->tree.end(),
                     [&](const Node& top) { return top.name == key; });
    if (found == family->tree.end()) {
      findings_.Add(code::kReference, place,
                    "a model of type `" + family->name +
                        "` inside one of type `" + values.family().name +
                        "` is not described",
                    "the parameters of `" + family->name +
                        "` have other names; write a manifest for this model");
      return false;
    }
    Evaluator inner(*family, config->json, naming_, findings_);
    SetDefaults(inner);
    if (found->condition) {
      const auto holds = inner.Condition(*found->condition);
      if (!holds || !*holds) return holds.has_value();
    }
    ++depth_;
    const size_t outer = std::exchange(model_, config->json.place().begin);
    const bool good = Content(*found, inner);
    model_ = outer;
    --depth_;
    return good;
  }

  // Sets the default sizes of the family's config class in transformers. In a
  // nested config, transformers omits sizes that equal these defaults.
  static void SetDefaults(Evaluator& inner) {
    const auto* const sizes = config_families::DefaultsOf(inner.family().name);
    if (sizes == nullptr) return;
    const auto set = [&](std::string_view key, int64_t size) {
      if (size > 0) inner.SetDefault(key, size);
    };
    set("num_attention_heads", sizes->heads);
    set("hidden_size", sizes->hidden);
    set("intermediate_size", sizes->intermediate);
    set("num_hidden_layers", sizes->layers);
    set("vocab_size", sizes->vocab);
  }

  bool Wrong(const Node& node, std::string message) {
    findings_.Add(code::kSchema, node.place, std::move(message));
    return false;
  }

  bool Module(const Expression& call, const Node& node, Evaluator& values) {
    const std::string& kind = call.text;
    std::span<const Expression> rest = call.parts;
    // After the sizes, the call of a linear or norm module may have a condition
    // that states whether the module has a bias.
    const auto flag = [&](size_t sizes, bool otherwise) -> std::optional<bool> {
      if (rest.size() <= sizes) return otherwise;
      return values.Condition(rest[sizes]);
    };
    const auto sizes = [&](size_t count) { return Dims(rest, count, values); };
    if (kind == "linear" || kind == "transposed") {
      const auto dims = sizes(2);
      const auto bias = dims ? flag(2, kind == "transposed") : std::nullopt;
      if (!bias) return false;
      return Linear(*dims, *bias, kind == "transposed", values);
    }
    if (kind == "norm" || kind == "layernorm") {
      const auto dims = sizes(1);
      const auto bias = dims ? flag(1, kind == "layernorm") : std::nullopt;
      if (!bias) return false;
      return Norm(*dims, *bias, kind == "layernorm", values);
    }
    if (kind == "embedding") {
      const auto dims = sizes(2);
      return dims && Leaf(spelling_.flax ? "embedding" : "weight", *dims,
                          values, {.looked_up = true});
    }
    if (kind == "conv" || kind == "plainconv") {
      const auto dims = sizes(rest.size());
      return dims && Convolution(*dims, kind == "conv", values);
    }
    if (kind == "tensor" || kind == "buffer") {
      const auto dims = sizes(rest.size());
      if (!dims) return false;
      if (kind == "tensor") NoteExperts(*dims, values);
      return (kind == "buffer" && !spelling_.buffers) || Add(*dims, values);
    }
    if (kind == "float32" && rest.size() == 1) {
      const Dtype before = std::exchange(dtype_, Dtype::kF32);
      const bool good = Made(rest[0], node, values);
      dtype_ = before;
      return good;
    }
    return Wrong(node, "there is no module `" + kind + "`");
  }

  std::optional<Sizes> Dims(std::span<const Expression> parts, size_t count,
                            Evaluator& values) {
    Sizes dims;
    for (size_t i = 0; i < std::min(count, parts.size()); ++i) {
      auto value = values.Evaluate(parts[i]);
      const auto size =
          value ? values.AsInteger(*value, parts[i]) : std::nullopt;
      if (!size) return std::nullopt;
      if (*size < 1) {
        findings_.Add(code::kNumber, values.BlameFor(parts[i]),
                      "`" + path_ + "` would have a dimension of " +
                          std::to_string(*size));
        return std::nullopt;
      }
      dims.push_back({*size, std::move(value->layout)});
    }
    return dims;
  }

  // Adds a linear module with `dims` [in, out]. The weight is [out, in] in
  // PyTorch, and the kernel is [in, out] in Flax. The layers of GPT-2
  // (`transposed`) have the opposite order in both frameworks.
  bool Linear(const Sizes& dims, bool bias, bool transposed,
              Evaluator& values) {
    Sizes weight = dims;
    if (transposed == spelling_.flax) std::swap(weight[0], weight[1]);
    if (!spelling_.flax) {
      linear_.push_back({static_cast<size_t>(tensors_), transposed});
    }
    const int contracted = transposed == spelling_.flax ? 1 : 0;
    return Leaf(spelling_.flax ? "kernel" : "weight", weight, values,
                {.contracted = contracted}) &&
           (!bias || Leaf("bias", {dims[1]}, values));
  }

  // Notes a tensor of the matrices of all experts. The hidden size shows which
  // of the two sizes of a matrix is that of its inputs.
  void NoteExperts(const Sizes& dims, const Evaluator& values) {
    if (spelling_.flax || dims.size() != 3) return;
    if (path_.find("experts") == std::string::npos) return;
    const auto hidden = values.config().Find("hidden_size");
    if (!hidden || hidden->kind() != JsonKind::kInteger) return;
    const bool down = path_.find("down") != std::string::npos;
    const int64_t first = dims[down ? 2 : 1].size;
    const int64_t other = dims[down ? 1 : 2].size;
    const int64_t size = hidden->integer();
    linear_.push_back(
        {static_cast<size_t>(tensors_), first == size && other != size});
  }

  bool Norm(const Sizes& dims, bool bias, bool layer, Evaluator& values) {
    const std::string_view weight =
        spelling_.flax && layer ? "scale" : std::string_view(spelling_.norm);
    return Leaf(weight, dims, values) && (!bias || Leaf("bias", dims, values));
  }

  // Adds a convolution with `dims` [out, in, kernel...]. The kernel is
  // [kernel..., in, out] in Flax, and has the order of `dims` in PyTorch.
  bool Convolution(const Sizes& dims, bool bias, Evaluator& values) {
    Sizes weight = dims;
    if (spelling_.flax && dims.size() > 2) {
      weight.assign(dims.begin() + 2, dims.end());
      weight.insert(weight.end(), {dims[1], dims[0]});
    }
    return Leaf(spelling_.flax ? "kernel" : "weight", weight, values) &&
           (!bias || Leaf("bias", {dims[0]}, values));
  }

  bool Leaf(std::string_view leaf, const Sizes& dims, Evaluator& values,
            TensorUse use = {}) {
    const size_t before = path_.size();
    Append(leaf);
    const bool good = Add(dims, values, use);
    path_.resize(before);
    return good;
  }

  bool Add(const Sizes& dims, Evaluator& values, TensorUse use = {}) {
    if (!Allows(kTreeTensors, ++tensors_, "the tree has", values.Blame(),
                findings_)) {
      return false;
    }
    Shape shape;
    for (const Dimension& dim : dims) shape.push_back(dim.size);
    const auto elements = CheckedProduct(shape);
    if (!elements || !BytesOf(*elements, dtype_)) {
      findings_.Add(code::kOverflow, values.Blame(),
                    "the size of `" + path_ + "`, " + ShapeText(shape) +
                        ", does not fit in 64 bits");
      return false;
    }
    facts_.Add(path_, separator_, dims, model_, use);
    builder_.Add(path_, {std::move(shape), dtype_});
    return true;
  }

  const Library& library_;
  std::string_view naming_;
  Spelling spelling_;
  Dtype dtype_;
  FactsOfTree facts_;
  size_t model_ = 0;  // where the config of the part begins in the file
  Findings& findings_;
  char separator_ = '.';
  std::string path_;
  int depth_ = 0;
  int64_t tensors_ = 0;
  std::vector<LinearWeight> linear_;
  ManifestBuilder builder_;
};

// Returns the advice for a configuration without `model_type`, which may be a
// file of another kind.
std::string HelpForOtherFile(const JsonValue& config) {
  const auto schema = config.Find("schema");
  if (schema && schema->IsString() &&
      schema->string().starts_with("shardc.plan/")) {
    return "this is a plan, which is given with `--plan`";
  }
  if (schema && schema->IsString() &&
      schema->string().starts_with("shardc.program/")) {
    return "this is a traced program, whose parameters are given with "
           "`--manifest`, and all of it with `--program`";
  }
  for (const std::string_view key :
       {"weight_map", "parameters", "params", "tensors"}) {
    if (!config.Find(key)) continue;
    return "it has " + Quote(key) +
           ", as a manifest or the index of a checkpoint has, which is given "
           "with `--manifest`";
  }
  return "a config.json of transformers has one, such as `llama`";
}

// Returns the description for the `model_type` of the config. Returns null
// after a finding.
std::unique_ptr<const Description> FindFamily(const JsonValue& config,
                                              const Library& library,
                                              Findings& findings) {
  const auto type = config.Find("model_type");
  if (!type || !type->IsString()) {
    Place place = (type ? *type : config).place();
    if (!type) place.end = place.begin + 1;
    findings.Add(code::kSchema, place, "the configuration has no `model_type`",
                 HelpForOtherFile(config));
    return nullptr;
  }
  return FindFamily(type->string(), library, type->place(), findings);
}

// Returns whether the config's `architectures` names a class of the
// description. Also returns true if this key is absent, empty or not a list, or
// if the description lists no classes.
// Otherwise the model has another tree: a finding is added, and false is
// returned.
bool IsClassOf(const Description& family, const JsonValue& config,
               Findings& findings) {
  const auto classes = config.Find("architectures");
  if (!classes || !classes->IsArray() || classes->size() == 0 ||
      family.models.empty()) {
    return true;
  }
  std::string named;
  for (const JsonValue name : classes->items()) {
    if (!name.IsString()) continue;
    const auto& known = family.models;
    if (IsAmong(name.string(), known)) {
      return true;
    }
    named = name.string();
  }
  std::string known;
  for (const std::string& name : family.models) {
    known += (known.empty() ? "`" : ", `") + name + "`";
  }
  findings.Add(code::kReference, classes->place(),
               "the tree of `" + named + "` is not described",
               "of `" + family.name + "` the tree is that of " + known);
  return false;
}

// Reads every description of the user's folder, so that an error in one is
// reported by the first command that is run with the folder.
bool AllAreGood(const Library& library, Findings& findings) {
  const size_t before = findings.errors();
  for (const std::string_view name : library.OwnNames()) {
    LoadDescription(name, library, findings);
    if (findings.Full()) break;
  }
  return findings.errors() == before;
}

// Returns the dtype that `--weights-dtype` names, or nullopt after a finding.
std::optional<Dtype> ReadWeightsDtype(const std::string& text,
                                      Findings& findings) {
  constexpr Dtype kWide[] = {Dtype::kF16, Dtype::kBF16, Dtype::kF32};
  const auto dtype = ParseDtype(text);
  if (dtype && std::find(std::begin(kWide), std::end(kWide), *dtype) !=
                   std::end(kWide)) {
    return dtype;
  }
  findings.Add(code::kUsage,
               {MakeSource("--weights-dtype", text), 0, text.size()},
               ShortQuote(text) + " is no dtype of unquantised weights",
               "write `bfloat16`, `float16`, `float32`, or `config` for the "
               "weights that the configuration states; quantised weights of "
               "another kind are read from a checkpoint, with `--manifest`");
  return std::nullopt;
}

std::optional<Spelling> SpellingOf(const Description& family,
                                   std::string_view naming,
                                   const JsonValue& config,
                                   Findings& findings) {
  Spelling spelling;
  spelling.buffers = naming == "hf-files";
  if (naming.starts_with("hf")) return spelling;
  spelling.flax = true;
  for (const auto& [known, norm] : family.namings) {
    if (known != naming) continue;
    spelling.norm = norm;
    return spelling;
  }
  std::string known = "`hf`, `hf-files`";
  for (const auto& other : family.namings) known += ", `" + other.first + "`";
  const auto type = config.Find("model_type");
  findings.Add(code::kReference, type->place(),
               "model type `" + family.name + "` has no naming `" +
                   std::string(naming) + "`",
               "it has " + known);
  return std::nullopt;
}

}  // namespace

std::vector<std::string_view> ModelTypes() { return Library().Names(); }

std::optional<Manifest> BuildTree(const std::string& config_path,
                                  std::string_view naming, Findings& findings,
                                  const std::string& folder,
                                  const TreeWeights& weights) {
  const auto document = ReadModelDocument(config_path, findings);
  if (document == nullptr) return std::nullopt;
  return BuildTree(*document, naming, findings, folder, weights);
}

std::optional<Manifest> BuildTree(const JsonDocument& document,
                                  std::string_view naming, Findings& findings,
                                  const std::string& folder,
                                  const TreeWeights& weights) {
  if (!ReadModelConfig(document, findings)) return std::nullopt;
  const auto library = Library::Open(folder, findings);
  if (!library || !AllAreGood(*library, findings)) return std::nullopt;
  const JsonValue config = document.root();
  const auto family = FindFamily(config, *library, findings);
  if (family == nullptr || !IsClassOf(*family, config, findings)) {
    return std::nullopt;
  }
  const auto quantised = config.Find("quantization_config");
  const bool stated = quantised && quantised->IsObject();
  const bool as_config = weights.dtype == "config";
  std::optional<Dtype> wanted;
  if (!weights.dtype.empty() && !as_config) {
    wanted = ReadWeightsDtype(weights.dtype, findings);
    if (!wanted) return std::nullopt;
  }
  const auto model_dtype = QuantisedModelDtype(config);
  const bool published =
      model_dtype && !wanted && (!weights.trained || as_config);
  if (naming.empty()) naming = published ? "hf-files" : "hf";
  auto spelling = SpellingOf(*family, naming, config, findings);
  if (!spelling) return std::nullopt;
  auto dtype = ReadConfigDtype(config, findings);
  if (!dtype) return std::nullopt;
  if (wanted) {
    dtype = {*wanted, false};
  } else if (published && dtype->assumed) {
    dtype = {*model_dtype, false};
  }
  Evaluator values(*family, config, naming, findings);
  TreeBuilder builder(*library, naming, std::move(*spelling), dtype->dtype,
                      findings);
  if (!builder.Walk(family->tree, values)) return std::nullopt;
  Manifest tree = builder.Take();
  tree.model = family->name;
  tree.source = document.source();
  if (dtype->assumed) {
    tree.dtype_assumed = true;
    tree.notes.emplace_back(kDtypeAssumed);
  }
  if (library->IsOwn(family->name) &&
      library->Find(family->name, true) != nullptr) {
    tree.notes.push_back("the tree is that of " +
                         Quote(library->Find(family->name)->name()) +
                         ", in place of the bundled description");
  }
  if (wanted) {
    tree.notes.push_back("the weights are " + std::string(DtypeName(*wanted)) +
                         ", as `--weights-dtype` states");
  } else if (stated &&
             !(published && Quantise(config, builder.linear(), tree))) {
    tree.notes.emplace_back(kBeforeQuantisation);
  }
  // A weight is stored as up to four tensors.
  if (!Allows(kTreeTensors, std::ssize(tree.tensors), "the quantised tree has",
              values.Blame(), findings)) {
    return std::nullopt;
  }
  return tree;
}

std::optional<Manifest> BuildTree(const Description& family,
                                  const JsonValue& config, Dtype dtype,
                                  Findings& findings) {
  const Library library;
  Evaluator values(family, config, "hf", findings);
  TreeBuilder builder(library, "hf", {}, dtype, findings);
  if (!builder.Walk(family.tree, values)) return std::nullopt;
  Manifest tree = builder.Take();
  tree.model = family.name;
  return tree;
}

// Reads the dtype of a model's parameters from its config.json:
//
//   {"torch_dtype": "bfloat16", ..}          ->  bfloat16
//   {"text_config": {"dtype": "float16"}}    ->  float16
//   {"dtype": "auto", ..}                    ->  float32, assumed

namespace {

// A key of the config that names a dtype, and the name.
struct NamedDtype {
  std::string_view key;
  JsonValue name;
};

// Returns the dtype that the config names, or else the one that its nested
// `text_config` names; nullopt if neither names one.
std::optional<NamedDtype> FindDtype(const JsonValue& config) {
  for (const auto& part : {std::optional(config), config.Find("text_config")}) {
    if (!part || !part->IsObject()) continue;
    for (const std::string_view key : {"dtype", "torch_dtype"}) {
      const auto value = part->Find(key);
      if (value && value->IsString() && value->string() != "auto") {
        return NamedDtype{key, *value};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ConfigDtype> ReadConfigDtype(const JsonValue& config,
                                           Findings& findings) {
  const auto named = FindDtype(config);
  if (!named) return ConfigDtype{Dtype::kF32, true};
  constexpr std::string_view kModule = "torch.";
  std::string_view name = named->name.string();
  if (name.starts_with(kModule)) name.remove_prefix(kModule.size());
  if (const auto dtype = ParseDtype(name)) return ConfigDtype{*dtype, false};
  findings.Add(code::kDtype, named->name.place(),
               "`" + std::string(named->key) + "` is " +
                   ShortQuote(named->name.string()) +
                   ", which is no known dtype",
               "write it as PyTorch does, such as `bfloat16`");
  return std::nullopt;
}

// Finds the model type that a misspelled one stands for. Names of different
// models are often a letter or a digit apart, as `bart` and `bert`, so names
// are compared word by word. A word is a sequence of letters or of digits:
//
//   Qwen-2, qwen2    ->  qwen 2 in both: the same type
//   mistrl, mistral  ->  one edit in a word of seven letters: a misspelling
//   bart, bert       ->  one edit in a word of four letters: another model
//   qwen3_5, qwen3   ->  qwen 3 5 and qwen 3: another model

namespace {

// A longer name is not compared, because the edit distance takes time quadratic
// in the length of the words.
constexpr size_t kLongestType = 256;
// The least number of letters of a word in which any single edit is taken for a
// typing error.
constexpr size_t kLongWord = 6;

bool IsLowerCase(char c) { return c >= 'a' && c <= 'z'; }

std::vector<std::string> WordsOf(std::string_view type) {
  std::vector<std::string> words;
  char before = 0;
  for (const char c : FoldCase(type)) {
    const bool digit = IsDigit(c);
    if (digit || IsLowerCase(c)) {
      const bool goes_on = digit ? IsDigit(before) : IsLowerCase(before);
      if (!goes_on) words.emplace_back();
      words.back() += c;
    }
    before = c;
  }
  return words;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += word;
  return out;
}

std::string WithoutDoubles(std::string word) {
  word.erase(std::unique(word.begin(), word.end()), word.end());
  return word;
}

bool IsTypingError(std::string a, std::string b) {
  if (IsDigit(a[0]) || IsDigit(b[0])) return false;
  if (WithoutDoubles(a) == WithoutDoubles(b)) return true;
  if (EditDistance(a, b) != 1) return false;
  if (std::max(a.size(), b.size()) >= kLongWord) return true;
  // If two words have the same letters, the single edit is a swap of two
  // neighbouring letters.
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

bool IsMisspelled(const std::vector<std::string>& a,
                  const std::vector<std::string>& b) {
  if (a.size() != b.size()) return false;
  int errors = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (!IsTypingError(a[i], b[i])) return false;
    ++errors;
  }
  return errors == 1;
}

}  // namespace

std::optional<std::string_view> FindMisspelled(
    std::string_view word, std::span<const std::string_view> types) {
  if (word.size() > kLongestType) return std::nullopt;
  const std::vector<std::string> words = WordsOf(word);
  if (words.empty()) return std::nullopt;
  const std::string joined = Joined(words);
  for (const std::string_view type : types) {
    if (Joined(WordsOf(type)) == joined) return type;
  }
  for (const std::string_view type : types) {
    if (IsMisspelled(words, WordsOf(type))) return type;
  }
  return std::nullopt;
}

}  // namespace shardc::families
