// Reads a `model:` section as it is written in one file. Inherited entries are
// added, and names of dimensions and blocks checked, below.
#include "parse/model_section.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/model_description.h"
#include "parse/keys.h"
#include "source/list.h"
#include "source/wording.h"
#include "yaml/read.h"

namespace shardc {
namespace {

// Reads the expressions of a `model:` section. An expression is a number, a key
// of the config.json, or a formula of such keys.

// Reads the text of an expression into `out`. The expression may be a number or
// a truth value. After a finding, `out` is unchanged. `what` describes the node
// in the finding.
void ReadExpression(const YamlContext& context, const YamlNode& node,
                    std::string_view what, DescribedText& out) {
  if (!node.IsScalar() || node.text.empty()) {
    context.Add(
        code::kSchema, node,
        std::string(what) + " is " + Describe(node) + ", not an expression",
        "write a key of the config.json or a formula of them");
    return;
  }
  if (RefuseTag(context, node)) return;
  out = {node.text, context.document.PlaceOf(node)};
}

// Reads the roles of a `model:` section. A role, such as `q`, states what a
// parameter does. It has a pattern for names of parameters, a list of
// dimensions and sometimes options. The option `bias` adds a second role, whose
// pattern is derived from the weight's pattern:
//
//   q: ['q_proj\.weight$', [n h, d], {bias: [n h]}]
//     ->  q       q_proj\.weight$  [n h, d]
//         q.bias  q_proj\.bias$    [n h]

class RoleReader {
 public:
  explicit RoleReader(const YamlContext& context) : context_(context) {}

  SectionEntries<SectionRole> Read(const YamlNode& node) {
    SectionEntries<SectionRole> out;
    for (const YamlMember& member : node.members) {
      if (context_.findings.Full()) return out;
      auto name =
          ReadKey(context_, member.key, code::kSchema, "the name of a role");
      if (!name) continue;
      const bool optional = name->ends_with('?');
      if (optional) name->pop_back();
      SectionEntry<SectionRole> entry{*name, {}, PlaceOf(member.key)};
      if (!member.value.IsNull()) {
        DescribedRole role;
        role.name = std::move(*name);
        role.optional = optional;
        role.place = entry.place;
        entry.value = ReadRole(member.value, std::move(role));
        if (!entry.value) continue;
      }
      out.push_back(std::move(entry));
    }
    return out;
  }

 private:
  Place PlaceOf(const YamlNode& node) const {
    return context_.document.PlaceOf(node);
  }

  // Reads a role of the form [pattern, [dims], {options}].
  std::optional<SectionRole> ReadRole(const YamlNode& node,
                                      DescribedRole role) {
    const auto& items = node.items;
    if (!node.IsSequence() || items.size() < 2 || items.size() > 3) {
      context_.Add(code::kSchema, node,
                   "the role `" + role.name +
                       "` is not a pattern with a list of dimensions",
                   R"(write `['q_proj\.weight$', [n h, d]]`)");
      return std::nullopt;
    }
    auto pattern = ReadText(context_, items[0], "a role's pattern", true);
    if (!pattern) return std::nullopt;
    role.pattern = {std::move(*pattern), PlaceOf(items[0])};
    auto dims = ReadDimList(items[1], role.name);
    if (!dims) return std::nullopt;
    role.dims = std::move(*dims);
    SectionRole out{std::move(role), {}};
    if (items.size() == 3 && !ReadOptions(items[2], out)) return std::nullopt;
    return out;
  }

  std::optional<std::vector<DescribedDim>> ReadDimList(
      const YamlNode& node, const std::string& role) {
    if (!node.IsSequence()) {
      context_.Add(
          code::kSchema, node,
          "the role `" + role + "` is not a pattern with a list of dimensions",
          R"(write `['q_proj\.weight$', [n h, d]]`)");
      return std::nullopt;
    }
    std::vector<DescribedDim> out;
    for (const YamlNode& item : node.items) {
      auto dim = item.IsScalar() ? ParseDescribedDim(item.text) : std::nullopt;
      if (!dim) {
        context_.Add(code::kSchema, item,
                     Describe(item) + " is not a dimension",
                     "write `d`, `n h` or `(c+r)`");
        return std::nullopt;
      }
      dim->place = PlaceOf(item);
      out.push_back(std::move(*dim));
    }
    return out;
  }

  bool ReadOptions(const YamlNode& node, SectionRole& out) {
    const auto fields = Fields::Read(context_, node, keys::kModelOptions);
    if (!fields) return false;
    DescribedRole& role = out.role;
    if (const YamlNode* when = fields->Find("when")) {
      ReadExpression(context_, *when, "`when`", role.when);
    }
    if (const YamlNode* shared = fields->Find("shared")) {
      role.shared = ReadBool(context_, *shared, "`shared`").value_or(false);
    }
    if (const YamlNode* tied = fields->Find("tied")) {
      auto name = ReadText(context_, *tied, "`tied`", true);
      if (!name) return false;
      role.tied = std::move(*name);
    }
    for (const std::string_view key : {"bias", "optional_bias"}) {
      const YamlNode* const bias = fields->Find(key);
      if (bias != nullptr && !ReadBias(*bias, key != "bias", out)) return false;
    }
    return true;
  }

  // Reads the option `bias` of a role. For a role `q` with the pattern
  // `q\.weight$`, adds the role `q.bias` with the pattern `q\.bias$`. The new
  // role has the same condition (`when`) as `q`.
  bool ReadBias(const YamlNode& node, bool optional, SectionRole& out) {
    const DescribedRole& of = out.role;
    if (out.bias) {
      context_.Add(code::kSchema, node,
                   "`" + of.name + "` has both `bias` and `optional_bias`",
                   "remove one of them");
      return false;
    }
    auto pattern = BiasPattern(of.pattern.text);
    if (!pattern) {
      context_.Add(code::kSchema, node,
                   "the pattern of `" + of.name +
                       "` does not end in a word and `$`, from which the name"
                       " of its bias would follow",
                   "write a role of its own, `" + of.name +
                       ".bias: [pattern, [dimensions]]`");
      return false;
    }
    auto dims = ReadDimList(node, of.name + ".bias");
    if (!dims) return false;
    DescribedRole bias;
    bias.name = of.name + ".bias";
    bias.optional = optional;
    bias.pattern = {std::move(*pattern), of.pattern.place};
    bias.dims = std::move(*dims);
    bias.when = of.when;
    bias.place = of.place;
    out.bias = std::move(bias);
    return true;
  }

  // Returns the pattern of a bias. For example, the weight's patterns
  // `q\.weight$` and `q\.(kernel|scale)$` both become `q\.bias$`. Returns
  // nullopt if there is no word or group before the final `$`, or if `_`
  // precedes the word or group.
  static std::optional<std::string> BiasPattern(std::string_view pattern) {
    if (!pattern.ends_with('$')) return std::nullopt;
    pattern.remove_suffix(1);
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    size_t begin = pattern.size();
    if (pattern.ends_with(')')) {
      begin = pattern.rfind('(');
      if (begin == pattern.npos) return std::nullopt;
      const std::string_view group =
          pattern.substr(begin + 1, pattern.size() - begin - 2);
      if (!std::all_of(group.begin(), group.end(),
                       [&](char c) { return is_letter(c) || c == '|'; })) {
        return std::nullopt;
      }
    } else {
      while (begin > 0 && is_letter(pattern[begin - 1])) --begin;
    }
    const bool inside = begin > 0 && pattern[begin - 1] == '_';
    if (begin == pattern.size() || inside) return std::nullopt;
    return std::string(pattern.substr(0, begin)) + "bias$";
  }

  const YamlContext& context_;
};

// Reads the mapping `params`. An invalid role is omitted after a finding.
SectionEntries<SectionRole> ReadModelRoles(const YamlContext& context,
                                           const YamlNode& node) {
  return RoleReader(context).Read(node);
}

// Reads the entry of a `model:` section that states how the loss is computed:
//
//   loss: {kind: compiled, chunk: 2048}
//
// Most other settings of a `model:` section are expressions. These values are
// not: `kind` is one of a few names, and `chunk` is a number.

// The YAML nodes of the values. A node is null if its value is absent or
// invalid. The value of a node may be the YAML value null, which removes the
// value that is inherited from the `model:` section named in `extends`.
struct ModelLoss {
  const YamlNode* kind = nullptr;
  const YamlNode* chunk = nullptr;  // number of tokens of a device in one chunk
};

constexpr int64_t kMostChunk = int64_t{1} << 40;  // in tokens

// Reads the mapping `node`. Adds a finding for each invalid value.
ModelLoss ReadModelLoss(const YamlContext& context, const YamlNode& node) {
  ModelLoss out;
  const auto members = Fields::Read(context, node, keys::kModelLoss);
  if (!members) return out;
  if (const YamlNode* at = members->Find("kind")) {
    if (at->IsNull() || (at->IsScalar() && LossNamed(at->text))) {
      out.kind = at;
    } else {
      context.Add(code::kUnknownName, *at,
                  "`kind` of `loss` is " + Describe(*at) +
                      ", not `eager`, `compiled` or `fused`",
                  "write how the loss is computed from the logits");
    }
  }
  if (const YamlNode* at = members->Find("chunk")) {
    if (at->IsNull() || ReadInteger(context, *at, "`chunk`", {1, kMostChunk})) {
      out.chunk = at;
    }
  }
  return out;
}

// The largest number of ops in a list, and of operands of an op. Real models
// have far fewer.
constexpr size_t kMostLines = 1000, kMostOperands = 64;

// The keys whose value is an expression.
constexpr std::array<std::string_view, 11> kExpressions = {
    "per_row",    "top_k", "window",   "chunks",       "causal", "distance",
    "activation", "scale", "soft_cap", "extra_layers", "z_loss"};

class SectionReader {
 public:
  explicit SectionReader(const YamlContext& context) : context_(context) {}

  std::shared_ptr<ModelSection> Read(const YamlNode& node) {
    const size_t before = context_.findings.errors();
    const auto fields = Fields::Read(context_, node, keys::kModel);
    if (!fields) return nullptr;
    out_->source = context_.document.source();
    if (const YamlNode* at = fields->Find("extends")) ReadExtends(*at);
    const bool alone = fields->Find("extends") == nullptr;
    if (const YamlNode* at = Member(*fields, node, "dims", alone)) {
      ReadDims(*at);
    }
    if (const YamlNode* at = fields->Find("axes")) ReadAxes(*at);
    ReadStack(*fields, node, alone, out_->decoder);
    if (const YamlNode* at = fields->Find("encoder")) ReadEncoder(*at, alone);
    if (const YamlNode* at = fields->Find("blocks")) ReadBlocks(*at);
    if (const YamlNode* at = fields->Find("skip")) ReadSkip(*at);
    for (const std::string_view key : kExpressions) {
      if (const YamlNode* at = fields->Find(key)) {
        Setting(std::string(key), *at);
      }
    }
    ReadGroup(*fields, "router", keys::kModelRouter);
    ReadGroup(*fields, "rope", keys::kModelRope);
    ReadGroup(*fields, "norm", keys::kModelNorm);
    ReadGroup(*fields, "slopes", keys::kModelSlopes);
    ReadLoss(*fields);
    ReadFused(*fields);
    if (const YamlNode* at = fields->Find("constants")) ReadConstants(*at);
    return context_.findings.errors() > before ? nullptr : out_;
  }

 private:
  const YamlNode* Member(const Fields& fields, const YamlNode& node,
                         std::string_view key, bool required) {
    return required ? fields.Require(context_, node, key) : fields.Find(key);
  }

  void ReadExtends(const YamlNode& node) {
    auto name = ReadText(context_, node, "`extends`", true);
    if (!name) return;
    if (name->empty()) {
      context_.Add(code::kSchema, node, "`extends` is empty",
                   "write the file whose `model:` section this one extends,"
                   " such as `builtin:llama/hf`");
      return;
    }
    out_->extends = std::move(*name);
    out_->extends_place = PlaceOf(node);
  }

  Place PlaceOf(const YamlNode& node) const {
    return context_.document.PlaceOf(node);
  }

  bool IsMap(const YamlNode& node, std::string_view what) {
    if (node.IsMapping()) return true;
    context_.Add(
        code::kSchema, node,
        "`" + std::string(what) + "` is " + Describe(node) + ", not a mapping");
    return false;
  }

  void Setting(std::string key, const YamlNode& node) {
    SectionEntry<DescribedText> entry{std::move(key), {}, PlaceOf(node)};
    if (!node.IsNull()) {
      DescribedText text;
      ReadExpression(context_, node, "`" + entry.name + "`", text);
      if (text.text.empty()) return;
      entry.value = std::move(text);
    }
    out_->settings.push_back(std::move(entry));
  }

  void ReadGroup(const Fields& fields, const std::string& name,
                 const KeyTable& table) {
    const YamlNode* const node = fields.Find(name);
    if (node == nullptr) return;
    if (node->IsNull()) return Setting(name, *node);
    const auto members = Fields::Read(context_, *node, table);
    if (!members) return;
    for (const std::string_view key : table.keys) {
      if (const YamlNode* at = members->Find(key)) {
        Setting(name + "." + std::string(key), *at);
      }
    }
  }

  void ReadLoss(const Fields& fields) {
    const YamlNode* const node = fields.Find("loss");
    if (node == nullptr) return;
    if (node->IsNull()) return Setting("loss", *node);
    const ModelLoss loss = ReadModelLoss(context_, *node);
    if (loss.kind != nullptr) Setting("loss.kind", *loss.kind);
    if (loss.chunk != nullptr) Setting("loss.chunk", *loss.chunk);
  }

  void ReadFused(const Fields& fields) {
    const YamlNode* const node = fields.Find("fused");
    if (node == nullptr) return;
    const bool known = node->IsScalar() && (node->text == kFusedByPart ||
                                            node->text == kFusedInOne);
    if (known || node->IsNull()) return Setting("fused", *node);
    context_.Add(
        code::kUnknownName, *node,
        "`fused` is " + Describe(*node) + ", not `by_part` or `contiguous`",
        "write how weights that hold several parts, such as query, "
        "key and value, are sharded");
  }

  void ReadStack(const Fields& fields, const YamlNode& node, bool alone,
                 SectionStack& to) {
    to.place = PlaceOf(node);
    if (const YamlNode* at = Member(fields, node, "repeat", alone)) {
      ReadExpression(context_, *at, "`repeat`", to.repeat.emplace());
    }
    if (const YamlNode* at = Member(fields, node, "params", alone)) {
      if (IsMap(*at, "params")) to.roles = ReadModelRoles(context_, *at);
    }
    to.begin = ReadOps(fields, "begin");
    to.layer = ReadOps(fields, "layer");
    to.end = ReadOps(fields, "end");
  }

  void ReadEncoder(const YamlNode& node, bool alone) {
    if (node.IsNull()) {
      out_->removes_encoder = true;
      return;
    }
    const auto fields = Fields::Read(context_, node, keys::kModelEncoder);
    if (!fields) return;
    ReadStack(*fields, node, alone, out_->encoder.emplace());
    if (const YamlNode* at = fields->Find("length")) {
      Setting("encoder.length", *at);
    }
  }

  // Reads `constants`, which are numbers that ops refer to by name.
  void ReadConstants(const YamlNode& node) {
    if (node.IsNull()) return Setting("constants", node);
    if (!IsMap(node, "constants")) return;
    for (const YamlMember& member : node.members) {
      const auto name = ReadKey(context_, member.key, code::kSchema,
                                "the name of a constant");
      if (name) Setting("constants." + *name, member.value);
    }
  }

  void ReadBlocks(const YamlNode& node) {
    if (!IsMap(node, "blocks")) return;
    for (const YamlMember& member : node.members) {
      auto name =
          ReadKey(context_, member.key, code::kSchema, "the name of a block");
      if (!name) continue;
      if (!IsModelWord(*name)) {
        context_.Add(code::kSchema, member.key,
                     "`" + *name + "` cannot be the name of a block",
                     "write one word, such as `mlp`");
        continue;
      }
      const std::string what = "the block `" + *name + "`";
      SectionEntry<SectionOps> entry{std::move(*name), {}, PlaceOf(member.key)};
      if (!member.value.IsNull()) {
        entry.value = ReadOpList(member.value, what);
      }
      out_->blocks.push_back(std::move(entry));
    }
  }

  void ReadDims(const YamlNode& node) {
    if (!IsMap(node, "dims")) return;
    static constexpr std::array<std::string_view, 6> kReserved = {
        "b", "t", "s", "u", "te", "se"};
    for (const YamlMember& member : node.members) {
      auto name = ReadKey(context_, member.key, code::kSchema,
                          "the name of a dimension");
      if (!name) continue;
      const auto dim = ParseDescribedDim(*name);
      const bool one = dim && dim->factors.size() == 1 &&
                       dim->factors[0].size() == 1 &&
                       dim->factors[0][0] == *name;
      const bool reserved = IsAmong(*name, kReserved);
      if (!one || reserved) {
        context_.Add(code::kSchema, member.key,
                     "`" + *name + "` cannot be the name of a dimension",
                     reserved ? "`b`, `t`, `s`, `u`, `te` and `se` are every"
                                " model's own"
                              : "write one word, such as `d`");
        continue;
      }
      SectionEntry<DescribedText> entry{*name, {}, PlaceOf(member.key)};
      if (!member.value.IsNull()) {
        ReadExpression(context_, member.value, "the size of `" + *name + "`",
                       entry.value.emplace());
      }
      out_->dims.push_back(std::move(entry));
    }
  }

  void ReadAxes(const YamlNode& node) {
    if (!IsMap(node, "axes")) return;
    for (const YamlMember& member : node.members) {
      const auto name = ReadKey(context_, member.key, code::kSchema,
                                "the name of a dimension");
      if (!name) continue;
      SectionEntry<std::string> entry{*name, {}, PlaceOf(member.key)};
      if (!member.value.IsNull()) {
        entry.value = ReadText(context_, member.value, "a logical axis", true);
        if (!entry.value) continue;
      }
      out_->axes.push_back(std::move(entry));
    }
  }

  void ReadSkip(const YamlNode& node) {
    auto& skip = out_->skip.emplace();
    const auto add = [&](const YamlNode& item) {
      if (context_.findings.Full()) return;
      auto text = ReadText(context_, item, "an entry of `skip`", true);
      if (text) skip.push_back({std::move(*text), PlaceOf(item)});
    };
    if (node.IsSequence()) {
      for (const YamlNode& item : node.items) add(item);
    } else if (!node.IsNull()) {
      add(node);
    }
  }

  std::optional<SectionOps> ReadOps(const Fields& fields,
                                    std::string_view key) {
    const YamlNode* const node = fields.Find(key);
    if (node == nullptr) return std::nullopt;
    if (node->IsNull()) return SectionOps{};
    return ReadOpList(*node, "`" + std::string(key) + "`");
  }

  // Reads a list of ops. A single op is read as a list of one op.
  SectionOps ReadOpList(const YamlNode& node, const std::string& what) {
    SectionOps out;
    if (node.IsScalar()) {
      if (auto op = ReadOp(node)) out.push_back(std::move(*op));
      return out;
    }
    if (!node.IsSequence()) {
      context_.Add(code::kSchema, node,
                   what + " is " + Describe(node) + ", not a list of ops");
      return out;
    }
    if (node.items.size() > kMostLines) {
      context_.Add(code::kLimit, node,
                   what + " has more than " + CountText(kMostLines) + " ops");
      return out;
    }
    for (const YamlNode& item : node.items) {
      if (context_.findings.Full()) break;
      if (auto op = ReadOp(item)) out.push_back(std::move(*op));
    }
    return out;
  }

  std::optional<SectionOp> ReadOp(const YamlNode& node) {
    SectionOp out;
    if (node.IsScalar() && IsModelWord(node.text)) {
      out.block = node.text;
      out.line.place = PlaceOf(node);
      return out;
    }
    auto line = node.IsScalar() ? ParseDescribedLine(node.text) : std::nullopt;
    if (!line) {
      context_.Add(code::kSchema, node, Describe(node) + " is not an op",
                   "write `y = rmsnorm(x, norm1) @normed`, or the name of one"
                   " of `blocks`");
      return std::nullopt;
    }
    if (IsLong(*line)) {
      context_.Add(code::kLimit, node,
                   "`" + line->op + "` has more than " +
                       CountText(kMostOperands) + " operands or results");
      return std::nullopt;
    }
    line->place = PlaceOf(node);
    line->when.place = line->place;
    out.line = std::move(*line);
    return out;
  }

  static bool IsLong(const DescribedLine& line) {
    return line.results.size() > kMostOperands ||
           line.arguments.size() > kMostOperands ||
           std::any_of(line.arguments.begin(), line.arguments.end(),
                       [](const DescribedArgument& argument) {
                         return argument.names.size() > kMostOperands;
                       });
  }

  const YamlContext& context_;
  std::shared_ptr<ModelSection> out_ = std::make_shared<ModelSection>();
};

}  // namespace

std::shared_ptr<ModelSection> ReadModelSection(const YamlContext& context,
                                               const YamlNode& node) {
  return SectionReader(context).Read(node);
}

}  // namespace shardc
