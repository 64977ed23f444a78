// Reads a `model:` section as it is written in one file. model_merge.cc adds
// the inherited entries, and checks the names of dimensions and blocks.
#include "parse/model_section.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "parse/keys.h"
#include "parse/model_expression.h"
#include "parse/model_loss.h"
#include "parse/model_roles.h"
#include "parse/model_text.h"
#include "source/wording.h"
#include "yaml/read.h"

namespace shardc {
namespace {

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
      const bool reserved = std::find(kReserved.begin(), kReserved.end(),
                                      *name) != kReserved.end();
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
