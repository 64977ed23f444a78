// Reads the roles of a `model:` section. A role, such as `q`, states what a
// parameter does. It has a pattern for names of parameters, a list of
// dimensions and sometimes options. The option `bias` adds a second role, whose
// pattern is derived from the weight's pattern:
//
//   q: ['q_proj\.weight$', [n h, d], {bias: [n h]}]
//     ->  q       q_proj\.weight$  [n h, d]
//         q.bias  q_proj\.bias$    [n h]
#include "parse/model_roles.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parse/keys.h"
#include "parse/model_expression.h"
#include "parse/model_text.h"
#include "yaml/read.h"

namespace shardc {
namespace {

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

}  // namespace

SectionEntries<SectionRole> ReadModelRoles(const YamlContext& context,
                                           const YamlNode& node) {
  return RoleReader(context).Read(node);
}

}  // namespace shardc
