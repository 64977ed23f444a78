// Replaces the weights of linear modules by the tensors in which a quantised
// checkpoint stores them. The `quantization_config` of the model's config.json
// states the method. For example, {"quant_method": "gptq", "bits": 4,
// "group_size": 128} turns
//
//   mlp.up_proj.weight   BF16 [14336, 4096]
//
// into
//
//   mlp.up_proj.qweight  I32 [512, 14336]   8 weights in each number
//   mlp.up_proj.qzeros   I32 [32, 1792]
//   mlp.up_proj.scales   BF16 [32, 14336]   a scale for 128 inputs
//   mlp.up_proj.g_idx    I32 [4096]
//
// Two tables hold what is known: kLayouts has the tensors of one weight, as
// published checkpoints name them, and kMethods has the modules that a method
// leaves as they are. Embeddings, norms and biases keep the model's dtype in
// all methods. The sizes of 12 published checkpoints are compared in
// tests/cli/quantised_weights_test.py.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "families/families.h"
#include "match/match.h"
#include "model/not_known.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::families {
namespace {

// A size of a stored tensor, computed from the weight [out, in], the bits of an
// element, and the groups of elements that share a scale.
enum class Size : uint8_t {
  kNone,
  kOut,
  kIn,
  kOutWords,      // 32-bit numbers that hold one element of each output
  kInWords,       // 32-bit numbers that hold the inputs
  kInBytes,       // bytes that hold the inputs
  kGroups,        // groups of inputs
  kRowBlocks,     // groups of outputs
  kGroupBytes,    // bytes that hold a group of inputs
  kFlatBytes,     // bytes that hold the entire weight
  kFlatBlocks,    // blocks of 64 elements of the entire weight
  kNestedBlocks,  // blocks of 256 scales of those blocks
  kOne,
  kTwo,
  k16,
  k256,
};

// The condition under which a tensor is stored.
enum class When : uint8_t {
  kAlways,
  kStaticInputs,  // the scale of activations was computed in advance
  kAsymmetric,    // groups have zero points
  kOrdered,       // the inputs of a group are not consecutive
  kNested,        // scales are quantised too
  kNotNested,
};

struct Part {
  std::string_view leaf;
  // nullopt: the model's dtype.
  std::optional<Dtype> dtype;
  std::array<Size, 4> sizes = {};
  When when = When::kAlways;
};

using enum Size;

constexpr Part kFp8Blocks[] = {
    {"weight", Dtype::kF8E4M3, {kOut, kIn}},
    {"weight_scale_inv", Dtype::kF32, {kRowBlocks, kGroups}}};
constexpr Part kFp8Tensor[] = {
    {"weight", Dtype::kF8E4M3, {kOut, kIn}},
    {"weight_scale", Dtype::kF32, {}},
    {"input_scale", Dtype::kF32, {}, When::kStaticInputs}};
constexpr Part kFp8Rows[] = {{"weight", Dtype::kF8E4M3, {kOut, kIn}},
                             {"weight_scale", Dtype::kF32, {kOut, kOne}},
                             {"input_scale_ub", Dtype::kF32, {kOne}}};
constexpr Part kMxfp4[] = {{"blocks", Dtype::kU8, {kOut, kGroups, kGroupBytes}},
                           {"scales", Dtype::kU8, {kOut, kGroups}}};
constexpr Part kGptq[] = {{"qweight", Dtype::kI32, {kInWords, kOut}},
                          {"qzeros", Dtype::kI32, {kGroups, kOutWords}},
                          {"scales", {}, {kGroups, kOut}},
                          {"g_idx", Dtype::kI32, {kIn}}};
constexpr Part kAwq[] = {{"qweight", Dtype::kI32, {kIn, kOutWords}},
                         {"qzeros", Dtype::kI32, {kGroups, kOutWords}},
                         {"scales", {}, {kGroups, kOut}}};
// Formats of compressed-tensors. The scales of `kFloat` and `kInt` are those of
// rows, of blocks, or one of the entire weight.
constexpr Part kPacked[] = {
    {"weight_packed", Dtype::kI32, {kOut, kInWords}},
    {"weight_scale", {}, {kOut, kGroups}},
    {"weight_shape", Dtype::kI64, {kTwo}},
    {"weight_zero_point", Dtype::kI32, {kOutWords, kGroups}, When::kAsymmetric},
    {"weight_g_idx", Dtype::kI32, {kIn}, When::kOrdered}};
constexpr Part kFloat[] = {{"weight", Dtype::kF8E4M3, {kOut, kIn}},
                           {"weight_scale", {}, {kRowBlocks, kGroups}},
                           {"input_scale", {}, {kOne}, When::kStaticInputs}};
constexpr Part kInt[] = {
    {"weight", Dtype::kI8, {kOut, kIn}},
    {"weight_scale", {}, {kRowBlocks, kGroups}},
    {"weight_zero_point", Dtype::kI8, {kRowBlocks, kGroups}, When::kAsymmetric},
    {"input_scale", {}, {kOne}, When::kStaticInputs}};
constexpr Part kNvfp4Packed[] = {
    {"weight_packed", Dtype::kU8, {kOut, kInBytes}},
    {"weight_scale", Dtype::kF8E4M3, {kOut, kGroups}},
    {"weight_global_scale", Dtype::kF32, {kOne}},
    {"input_global_scale", Dtype::kF32, {kOne}, When::kStaticInputs}};
constexpr Part kMxfp4Packed[] = {
    {"weight_packed", Dtype::kU8, {kOut, kInBytes}},
    {"weight_scale", Dtype::kU8, {kOut, kGroups}}};
// NVIDIA's ModelOpt.
constexpr Part kNvfp4[] = {{"weight", Dtype::kU8, {kOut, kInBytes}},
                           {"weight_scale", Dtype::kF8E4M3, {kOut, kGroups}},
                           {"weight_scale_2", Dtype::kF32, {}},
                           {"input_scale", Dtype::kF32, {}}};
// bitsandbytes. The JSON text of a weight's `quant_state`, of about 80 bytes,
// is left out.
constexpr Part kBits4[] = {
    {"weight", Dtype::kU8, {kFlatBytes, kOne}},
    {"weight.absmax", Dtype::kU8, {kFlatBlocks}, When::kNested},
    {"weight.absmax", Dtype::kF32, {kFlatBlocks}, When::kNotNested},
    {"weight.quant_map", Dtype::kF32, {k16}},
    {"weight.nested_absmax", Dtype::kF32, {kNestedBlocks}, When::kNested},
    {"weight.nested_quant_map", Dtype::kF32, {k256}, When::kNested}};
constexpr Part kBits8[] = {{"weight", Dtype::kI8, {kOut, kIn}},
                           {"SCB", Dtype::kF32, {kOut}},
                           {"weight_format", Dtype::kU8, {}}};

struct Layout {
  std::string_view name;
  std::span<const Part> parts;
  // 0 if the config states the number.
  int64_t bits = 0, group = 0;
};

// The formats of compressed-tensors have their names in the config.
constexpr Layout kLayouts[] = {
    {"fp8-blocks", kFp8Blocks, 8},
    {"fp8-tensor", kFp8Tensor, 8},
    {"fp8-rows", kFp8Rows, 8},
    {"mxfp4", kMxfp4, 4, 32},
    {"gptq", kGptq},
    {"awq", kAwq},
    {"pack-quantized", kPacked},
    {"float-quantized", kFloat, 8},
    {"int-quantized", kInt, 8},
    {"nvfp4-pack-quantized", kNvfp4Packed, 4, 16},
    {"mxfp4-pack-quantized", kMxfp4Packed, 4, 32},
    {"nvfp4", kNvfp4, 4, 16},
    {"bits4", kBits4, 4},
    {"bits8", kBits8, 8},
};

const Layout* FindLayout(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kLayouts), std::end(kLayouts),
                   [&](const Layout& layout) { return layout.name == name; });
  return found == std::end(kLayouts) ? nullptr : found;
}

// What one group of modules is quantised to.
struct Scheme {
  const Layout* layout = nullptr;
  int64_t bits = 0;
  // Inputs and outputs that share a scale; 0 is all of them.
  int64_t group = 0, rows = 1;
  bool static_inputs = false, asymmetric = false, ordered = false,
       nested = false;
  // The modules of the scheme; nullopt is all modules.
  std::optional<Regex> targets;

  bool Holds(When when) const {
    switch (when) {
      case When::kAlways:
        return true;
      case When::kStaticInputs:
        return static_inputs;
      case When::kAsymmetric:
        return asymmetric;
      case When::kOrdered:
        return ordered;
      case When::kNested:
        return nested;
      case When::kNotNested:
        return !nested;
    }
    return false;
  }

  // Returns the size, or nullopt if it is out of range.
  std::optional<int64_t> Of(Size size, int64_t out, int64_t in) const {
    const auto units = [](std::optional<int64_t> all, int64_t unit) {
      return all ? std::optional((*all - 1) / unit + 1) : std::nullopt;
    };
    const int64_t inputs = group > 0 ? std::min(group, in) : in;
    const auto flat = CheckedMul(out, in);
    switch (size) {
      case kOut:
        return out;
      case kIn:
        return in;
      case kOutWords:
        return units(CheckedMul(out, bits), 32);
      case kInWords:
        return units(CheckedMul(in, bits), 32);
      case kInBytes:
        return units(CheckedMul(in, bits), 8);
      case kGroups:
        return units(in, inputs);
      case kRowBlocks:
        return rows > 0 ? units(out, rows) : 1;
      case kGroupBytes:
        return units(CheckedMul(inputs, bits), 8);
      case kFlatBytes:
        return flat ? units(CheckedMul(*flat, bits), 8) : std::nullopt;
      case kFlatBlocks:
        return units(flat, 64);
      case kNestedBlocks:
        return units(units(flat, 64), 256);
      case kTwo:
        return 2;
      case k16:
        return 16;
      case k256:
        return 256;
      case kOne:
      case kNone:
        return 1;
    }
    return std::nullopt;
  }
};

// A method, by its `quant_method`.
struct Method {
  std::string_view name;
  // The keys of the config that list modules which are not quantised.
  std::array<std::string_view, 2> lists = {};
  // Modules that are not quantised even where no list names them.
  std::span<const std::string_view> kept = {};
  // Only modules of numbered layers are quantised.
  bool layers_only = false;
  // Only experts that are stacked in one tensor are quantised.
  bool stacked_only = false;
  // The dtype of a model whose config names none.
  Dtype dtype = Dtype::kBF16;
};

constexpr std::string_view kHead[] = {"lm_head"};
constexpr std::string_view kOutsideLayers[] = {"lm_head",
                                               "gate",
                                               "router",
                                               "shared_expert_gate",
                                               "visual",
                                               "vision_tower",
                                               "vision_model",
                                               "audio_tower",
                                               "multi_modal_projector"};

constexpr Method kMethods[] = {
    {.name = "fp8",
     .lists = {"modules_to_not_convert", "ignored_layers"},
     .kept = kHead},
    {.name = "fbgemm_fp8", .lists = {"modules_to_not_convert"}, .kept = kHead},
    {.name = "mxfp4",
     .lists = {"modules_to_not_convert"},
     .stacked_only = true},
    {.name = "gptq",
     .lists = {"modules_to_not_convert"},
     .kept = kOutsideLayers,
     .layers_only = true,
     .dtype = Dtype::kF16},
    {.name = "awq",
     .lists = {"modules_to_not_convert"},
     .kept = kOutsideLayers,
     .layers_only = true,
     .dtype = Dtype::kF16},
    {.name = "compressed-tensors", .lists = {"ignore"}},
    {.name = "modelopt", .lists = {"ignore", "exclude_modules"}, .kept = kHead},
    {.name = "bitsandbytes",
     .lists = {"llm_int8_skip_modules"},
     .kept = kHead,
     .dtype = Dtype::kF16},
};

const Method* MethodOf(JsonValue stated) {
  const auto name = stated.Find("quant_method");
  if (!name || !name->IsString()) return nullptr;
  const auto* const found =
      std::find_if(std::begin(kMethods), std::end(kMethods),
                   [&](const Method& m) { return m.name == name->string(); });
  return found == std::end(kMethods) ? nullptr : found;
}

std::string_view TextAt(JsonValue of, std::string_view key) {
  const auto found = of.Find(key);
  return found && found->IsString() ? found->string() : "";
}

bool IsTrue(JsonValue of, std::string_view key, bool otherwise = false) {
  const auto found = of.Find(key);
  return found && found->kind() == JsonKind::kBool ? found->boolean()
                                                   : otherwise;
}

std::optional<int64_t> IntegerAt(JsonValue of, std::string_view key) {
  const auto found = of.Find(key);
  return found && found->kind() == JsonKind::kInteger
             ? std::optional(found->integer())
             : std::nullopt;
}

std::optional<JsonValue> ObjectAt(JsonValue of, std::string_view key) {
  const auto found = of.Find(key);
  return found && found->IsObject() ? found : std::nullopt;
}

// Returns a pattern that finds the module names which an entry of a config
// names: `re:` begins a regular expression that matches from the start of a
// name; other entries are names, or whole parts of a name, in which `*` stands
// for any characters.
std::string PatternOf(std::string_view entry) {
  if (entry.starts_with("re:")) {
    return "^(?:" + std::string(entry.substr(3)) + ")";
  }
  std::string out = "(?:^|\\.)";
  for (const char c : entry) {
    if (c == '*') {
      out += ".*";
    } else {
      if (std::string_view("\\.+?()[]{}|^$").find(c) !=
          std::string_view::npos) {
        out += '\\';
      }
      out += c;
    }
  }
  return out + "(?:\\.|$)";
}

// Compiles a pattern that finds what any of `patterns` finds. Returns nullopt
// if one of them is not supported, such as one with look-ahead.
std::optional<Regex> AnyOf(const std::vector<std::string>& patterns) {
  std::string all;
  for (const std::string& one : patterns) {
    all += (all.empty() ? "(?:" : "|(?:") + one + ")";
  }
  Findings ignored;
  const SourceRef source = MakeSource("quantization_config", all);
  return Regex::Compile({all, {source, 0, all.size()}, '.'}, ignored);
}

// Reads the schemes of a config. It fails if a part is not supported; the
// bytes of the weights are then not known.
class Reader {
 public:
  Reader(const Method& method, JsonValue stated)
      : method_(method), stated_(stated) {}

  // The modules of schemes that are listed first win.
  std::optional<std::vector<Scheme>> Run() {
    bool good = true;
    if (method_.name == "compressed-tensors" ||
        (method_.name == "modelopt" && ObjectAt(stated_, "config_groups"))) {
      good = Groups();
    } else {
      good = Dynamic() && AddScheme(stated_, LayoutName());
    }
    if (!good || schemes_.empty()) return std::nullopt;
    return std::move(schemes_);
  }

 private:
  std::string_view LayoutName() const {
    const std::string_view name = method_.name;
    if (name == "fp8") {
      const auto block = stated_.Find("weight_block_size");
      return block && block->IsArray() ? "fp8-blocks" : "fp8-tensor";
    }
    if (name == "fbgemm_fp8") return "fp8-rows";
    if (name == "bitsandbytes") {
      return IsTrue(stated_, "load_in_4bit") ? "bits4" : "bits8";
    }
    if (name == "modelopt") return Modelopt();
    return name;
  }

  std::string_view Modelopt() const {
    const std::string_view algorithm = TextAt(stated_, "quant_algo");
    return algorithm == "NVFP4" ? "nvfp4"
           : algorithm == "FP8" ? "fp8-tensor"
                                : "";
  }

  // Adds the scheme that the keys of `of` state, for all modules.
  bool AddScheme(JsonValue of, std::string_view layout) {
    Scheme scheme;
    scheme.layout = FindLayout(layout);
    if (scheme.layout == nullptr) return false;
    const auto either = [&](std::string_view key, std::string_view other) {
      const auto found = IntegerAt(of, key);
      return found ? found : IntegerAt(of, other);
    };
    const int64_t fixed = scheme.layout->bits;
    const auto bits =
        fixed > 0 ? std::optional(fixed) : either("bits", "w_bit");
    constexpr int64_t kBits[] = {2, 3, 4, 8};
    if (!bits || std::find(std::begin(kBits), std::end(kBits), *bits) ==
                     std::end(kBits)) {
      return false;
    }
    scheme.bits = *bits;
    scheme.group = scheme.layout->group > 0
                       ? scheme.layout->group
                       : either("group_size", "q_group_size").value_or(0);
    scheme.asymmetric = !IsTrue(of, "sym", true);
    scheme.static_inputs = TextAt(of, "activation_scheme") == "static" ||
                           method_.name == "modelopt";
    scheme.nested = IsTrue(of, "bnb_4bit_use_double_quant");
    if (!ReadBlock(of, "weight_block_size", scheme)) return false;
    schemes_.push_back(std::move(scheme));
    return true;
  }

  // Reads a block [outputs, inputs]. Returns false if it is not one.
  static bool ReadBlock(JsonValue of, std::string_view key, Scheme& scheme) {
    const auto block = of.Find(key);
    if (!block || block->IsNull()) return true;
    if (!block->IsArray() || block->size() != 2) return false;
    std::vector<int64_t> sides;
    for (const JsonValue side : block->items()) {
      if (side.kind() != JsonKind::kInteger || side.integer() < 1) return false;
      sides.push_back(side.integer());
    }
    scheme.rows = sides[0];
    scheme.group = sides[1];
    return true;
  }

  // Reads the overrides of GPTQModel: `+:` and a pattern, with the bits of the
  // modules that match. ("-:" is read with the lists of modules.)
  bool Dynamic() {
    const auto dynamic = ObjectAt(stated_, "dynamic");
    if (!dynamic || method_.name != "gptq") return true;
    for (const JsonMember one : dynamic->members()) {
      if (one.name().starts_with("-:")) continue;
      std::string_view pattern = one.name();
      if (pattern.starts_with("+:")) pattern.remove_prefix(2);
      if (!one.value.IsObject() || !AddScheme(stated_, "gptq")) return false;
      Scheme& scheme = schemes_.back();
      scheme.bits = IntegerAt(one.value, "bits").value_or(scheme.bits);
      scheme.group = IntegerAt(one.value, "group_size").value_or(scheme.group);
      scheme.targets = AnyOf({PatternOf("re:" + std::string(pattern))});
      if (!scheme.targets) return false;
    }
    return true;
  }

  // Reads the groups of compressed-tensors and ModelOpt. A group that names
  // its modules precedes those for all linear modules.
  bool Groups() {
    const auto groups = ObjectAt(stated_, "config_groups");
    if (!groups) return false;
    std::vector<Scheme> of_all;
    for (const JsonMember group : groups->members()) {
      if (!group.value.IsObject() || !Group(group.value)) return false;
      if (schemes_.back().targets) continue;
      of_all.push_back(std::move(schemes_.back()));
      schemes_.pop_back();
    }
    for (Scheme& scheme : of_all) schemes_.push_back(std::move(scheme));
    return true;
  }

  bool Group(JsonValue group) {
    const auto weights = ObjectAt(group, "weights");
    if (!weights) return false;
    const std::string_view type = TextAt(*weights, "type");
    const int64_t bits = IntegerAt(*weights, "num_bits").value_or(8);
    const auto inputs = ObjectAt(group, "input_activations");
    std::string_view format = TextAt(group, "format");
    if (format.empty()) format = TextAt(stated_, "format");
    if (method_.name == "modelopt") {
      format = type == "float" && bits == 4 ? "nvfp4" : Modelopt();
    } else if (format == "naive-quantized" || format == "mixed-precision") {
      format = type == "float" ? "float-quantized" : "int-quantized";
    }
    Scheme scheme;
    scheme.layout = FindLayout(format);
    if (scheme.layout == nullptr) return false;
    scheme.bits = scheme.layout->bits > 0 ? scheme.layout->bits : bits;
    scheme.asymmetric = !IsTrue(*weights, "symmetric", true);
    scheme.ordered = TextAt(*weights, "actorder") == "group";
    scheme.static_inputs =
        inputs && (!IsTrue(*inputs, "dynamic") ||
                   scheme.layout->parts.data() == std::data(kNvfp4Packed));
    scheme.group = IntegerAt(*weights, "group_size").value_or(0);
    const std::string_view strategy = TextAt(*weights, "strategy");
    if (strategy == "tensor") scheme.rows = 0;
    if (strategy == "channel") scheme.group = 0;
    if (scheme.layout->group > 0) scheme.group = scheme.layout->group;
    if (strategy == "block" &&
        !ReadBlock(*weights, "block_structure", scheme)) {
      return false;
    }
    if (const auto targets = group.Find("targets");
        targets && targets->IsArray()) {
      std::vector<std::string> named;
      bool all = false;
      for (const JsonValue target : targets->items()) {
        if (!target.IsString()) return false;
        all = all || target.string() == "Linear";
        named.push_back(PatternOf(target.string()));
      }
      if (!all && !named.empty()) {
        scheme.targets = AnyOf(named);
        if (!scheme.targets) return false;
      }
    }
    schemes_.push_back(std::move(scheme));
    return true;
  }

  const Method& method_;
  JsonValue stated_;
  std::vector<Scheme> schemes_;
};

// Returns the patterns of the modules that are not quantised.
std::vector<std::string> KeptModules(const Method& method, JsonValue stated) {
  std::vector<std::string> out;
  for (const std::string_view key : method.lists) {
    const auto list = key.empty() ? std::nullopt : stated.Find(key);
    if (!list || !list->IsArray()) continue;
    for (const JsonValue entry : list->items()) {
      if (entry.IsString()) out.push_back(PatternOf(entry.string()));
    }
  }
  const bool head = IsTrue(stated, "lm_head");
  for (const std::string_view word : method.kept) {
    if (!head || word != "lm_head") out.push_back(PatternOf(word));
  }
  if (const auto dynamic = ObjectAt(stated, "dynamic")) {
    for (const JsonMember one : dynamic->members()) {
      if (!one.name().starts_with("-:")) continue;
      out.push_back(PatternOf("re:" + std::string(one.name().substr(2))));
    }
  }
  return out;
}

bool HasNumber(std::string_view name) {
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('.'));
    if (!part.empty() &&
        part.find_first_not_of("0123456789") == std::string_view::npos) {
      return true;
    }
    name.remove_prefix(std::min(name.size(), part.size() + 1));
  }
  return false;
}

// Adds the tensors that store the weight `name`. The last two sizes of the
// weight's shape are [out, in]; those before them count experts.
bool AddParts(const Scheme& scheme, std::string_view name, const Shape& shape,
              Dtype dtype, ManifestBuilder& builder) {
  const std::string_view kWeight = ".weight";
  const bool module = name.ends_with(kWeight);
  const std::string path(module ? name.substr(0, name.size() - kWeight.size())
                                : name);
  const int64_t out = shape[shape.size() - 2], in = shape.back();
  for (const Part& part : scheme.layout->parts) {
    if (!scheme.Holds(part.when)) continue;
    Shape sizes(shape.begin(), shape.end() - 2);
    for (const Size size : part.sizes) {
      if (size == kNone) break;
      const auto value = scheme.Of(size, out, in);
      if (!value) return false;
      sizes.push_back(*value);
    }
    // One scale of an entire weight is [1] in compressed-tensors.
    if (part.sizes[0] == kRowBlocks && scheme.rows == 0) sizes.pop_back();
    // A stacked tensor keeps its name, and its scales add an ending to it, as
    // in `gate_up_proj_scale_inv`.
    std::string_view leaf = part.leaf;
    if (!module && leaf.starts_with("weight")) {
      leaf.remove_prefix(std::min(leaf.size(), kWeight.size()));
    }
    builder.Add(
        leaf.empty() ? path : path + (module ? "." : "_") + std::string(leaf),
        {sizes, part.dtype.value_or(dtype)});
  }
  return true;
}

}  // namespace

std::optional<Dtype> QuantisedModelDtype(JsonValue config) {
  const auto stated = ObjectAt(config, "quantization_config");
  const Method* method = stated ? MethodOf(*stated) : nullptr;
  return method == nullptr ? std::nullopt : std::optional(method->dtype);
}

std::function<StoredScheme(std::string_view module)> SchemesOf(
    JsonValue config) {
  struct Modules {
    std::vector<Scheme> schemes;
    std::optional<Regex> kept;
  };
  const auto stated = ObjectAt(config, "quantization_config");
  const Method* method = stated ? MethodOf(*stated) : nullptr;
  if (method == nullptr) return {};
  auto schemes = Reader(*method, *stated).Run();
  if (!schemes) return {};
  const auto modules = std::make_shared<Modules>();
  modules->schemes = std::move(*schemes);
  const auto kept = KeptModules(*method, *stated);
  if (!kept.empty()) {
    modules->kept = AnyOf(kept);
    if (!modules->kept) return {};
  }
  return [modules, method](std::string_view module) -> StoredScheme {
    const bool left = (method->layers_only && !HasNumber(module)) ||
                      (modules->kept && modules->kept->Found(module));
    for (const Scheme& scheme : modules->schemes) {
      if (left || (scheme.targets && !scheme.targets->Found(module))) continue;
      return {scheme.layout->name, scheme.bits, scheme.group, scheme.rows};
    }
    return {};
  };
}

bool Quantise(JsonValue config, const std::vector<LinearWeight>& linear,
              Manifest& tree) {
  const auto stated = ObjectAt(config, "quantization_config");
  const Method* method = stated ? MethodOf(*stated) : nullptr;
  if (method == nullptr) return false;
  const auto schemes = Reader(*method, *stated).Run();
  if (!schemes) return false;
  const auto kept = KeptModules(*method, *stated);
  std::optional<Regex> is_kept;
  if (!kept.empty()) {
    is_kept = AnyOf(kept);
    if (!is_kept) return false;
  }
  ManifestBuilder builder;
  auto weight = linear.begin();
  int64_t quantised = 0;
  for (size_t i = 0; i < tree.tensors.size(); ++i) {
    const Tensor& tensor = tree.tensors[i];
    const TensorType& type = tree.TypeOf(tensor);
    const bool is_linear = weight != linear.end() && weight->tensor == i;
    const bool inputs_first = is_linear && weight->inputs_first;
    if (is_linear) ++weight;
    std::string_view module = tensor.name;
    if (module.ends_with(".weight")) module.remove_suffix(7);
    const bool stacked = is_linear && type.shape->size() > 2;
    const Scheme* chosen = nullptr;
    if (is_linear && (stacked || !method->stacked_only) &&
        (!method->layers_only || HasNumber(module)) &&
        (!is_kept || !is_kept->Found(module))) {
      for (const Scheme& scheme : *schemes) {
        if (scheme.targets && !scheme.targets->Found(module)) continue;
        chosen = &scheme;
        break;
      }
    }
    if (chosen == nullptr) {
      builder.Add(tensor.name, type);
      continue;
    }
    Shape shape = *type.shape;
    if (inputs_first) std::swap(shape[shape.size() - 2], shape.back());
    if (!AddParts(*chosen, tensor.name, shape, *type.dtype, builder)) {
      return false;
    }
    ++quantised;
  }
  if (quantised == 0) return false;
  Manifest out = builder.Take();
  out.separator = tree.separator;
  out.naming = tree.naming;
  out.notes = std::move(tree.notes);
  out.notes.push_back(std::string(kQuantisedAs) + std::string(method->name) +
                      ": " + Counted(quantised, "weight") +
                      " by the modules that the configuration names, the "
                      "others as without quantisation");
  tree = std::move(out);
  return true;
}

}  // namespace shardc::families
