// Reads the file that describes a model family. The file has the family's model
// classes, its named expressions (`let`), its reusable subtrees (`blocks`) and
// its parameter tree. If the key `like` names another family, that family is
// read first. Whatever this file does not define is then taken from that
// family. The key `uses` also names families, but only their blocks are taken.
//
// For example, `layers[i < num_layers] if deep:` is a node `layers` with
// counter `i`, the count `num_layers` and the condition `deep`.
#include "families/description.h"

#include <algorithm>
#include <array>

#include "families/embedded.h"
#include "yaml/read.h"
#include "yaml/yaml.h"

namespace shardc::families {
namespace {

constexpr std::array<std::string_view, 8> kKeys = {
    "version", "models", "like", "uses", "let", "namings", "blocks", "tree"};
constexpr KeyTable kTable = {"family", "a family", kKeys};
// The largest number of `like` and `uses` keys that are followed in a chain.
constexpr int kLongestLine = 8;
constexpr std::string_view kEnding = ".yaml";

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!Trim(text).empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    words.push_back(Trim(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return words;
}

// Adds an item to a list, or replaces the item that has the same name.
template <typename List, typename Item>
void Put(List& list, Item item, std::string_view name,
         std::string_view (*name_of)(const typename List::value_type&)) {
  const auto old =
      std::find_if(list.begin(), list.end(),
                   [&](const auto& known) { return name_of(known) == name; });
  if (old == list.end()) {
    list.push_back(std::move(item));
  } else {
    *old = std::move(item);
  }
}

using Let = std::pair<std::string, Expression>;
std::string_view LetName(const Let& let) { return let.first; }
std::string_view BlockName(const Block& block) { return block.name; }

class FamilyReader {
 public:
  FamilyReader(const YamlDocument& document, Findings& findings)
      : context_{document, findings} {}

  // Reads the file into `out`. If the file has a key `like`, `out` already
  // holds the content of the family that the key names. A definition in this
  // file replaces the definition of the same name. The key `namings` is not
  // inherited.
  void Read(const Fields& fields, Description& out) {
    if (const YamlNode* models = fields.Find("models")) {
      out.models = ReadTexts(context_, *models, "`models`")
                       .value_or(std::vector<std::string>{});
    }
    if (const YamlNode* let = fields.Find("let")) ReadLet(*let, out);
    out.namings.clear();
    if (const YamlNode* namings = fields.Find("namings")) {
      ReadNamings(*namings, out);
    }
    if (const YamlNode* blocks = fields.Find("blocks")) {
      ReadBlocks(*blocks, out);
    }
    if (const YamlNode* tree = fields.Find("tree")) out.tree = ReadNodes(*tree);
  }

 private:
  Place At(const YamlNode& node) const {
    return context_.document.PlaceOf(node);
  }

  std::optional<Expression> Parse(std::string_view text, const YamlNode& node) {
    return ParseExpression(text, At(node), context_.findings);
  }

  bool IsMapping(const YamlNode& node, std::string_view what) {
    if (node.IsMapping()) return true;
    context_.Add(
        code::kSchema, node,
        std::string(what) + " is " + Describe(node) + ", not a mapping");
    return false;
  }

  void ReadLet(const YamlNode& node, Description& out) {
    if (!IsMapping(node, "`let`")) return;
    for (const YamlMember& member : node.members) {
      const std::string_view text =
          member.value.IsNull() ? "null" : std::string_view(member.value.text);
      auto value = Parse(text, member.value);
      if (!value) continue;
      Put(out.let, Let(member.key.text, std::move(*value)), member.key.text,
          LetName);
    }
  }

  void ReadNamings(const YamlNode& node, Description& out) {
    if (!IsMapping(node, "`namings`")) return;
    for (const YamlMember& member : node.members) {
      out.namings.emplace_back(member.key.text, member.value.text);
    }
  }

  void ReadBlocks(const YamlNode& node, Description& out) {
    if (!IsMapping(node, "`blocks`")) return;
    for (const YamlMember& member : node.members) {
      const std::string_view key = member.key.text;
      const size_t open = std::min(key.find('('), key.size());
      Block block;
      block.name = Trim(key.substr(0, open));
      if (open < key.size() && key.back() == ')') {
        for (const std::string_view word :
             Words(key.substr(open + 1, key.size() - open - 2))) {
          block.parameters.emplace_back(word);
        }
      }
      block.body = ReadNodes(member.value);
      const std::string name = block.name;
      Put(out.blocks, std::move(block), name, BlockName);
    }
  }

  std::vector<Node> ReadNodes(const YamlNode& node) {
    std::vector<Node> nodes;
    if (!IsMapping(node, "a tree")) return nodes;
    for (const YamlMember& member : node.members) {
      nodes.push_back(ReadNode(member));
    }
    return nodes;
  }

  Node ReadNode(const YamlMember& member) {
    Node node;
    node.place = At(member.key);
    std::string_view key = member.key.text;
    if (const size_t at = key.find(" if "); at != key.npos) {
      node.condition = Parse(key.substr(at + 4), member.key);
      key = Trim(key.substr(0, at));
    }
    if (const size_t open = key.find('['); open != key.npos) {
      std::string_view count = key.substr(open + 1);
      if (!count.empty()) count.remove_suffix(1);
      if (const size_t less = count.find('<'); less != count.npos) {
        node.counter = Trim(count.substr(0, less));
        count.remove_prefix(less + 1);
      }
      node.count = Parse(count, member.key);
      key = key.substr(0, open);
    }
    node.name = key;
    if (member.value.IsMapping()) {
      node.children = ReadNodes(member.value);
      return node;
    }
    node.module = Parse(member.value.text, member.value);
    if (node.module && node.module->kind != Expression::Kind::kCall) {
      context_.Add(code::kSchema, member.value, "a module is a call");
      node.module.reset();
    }
    return node;
  }

  YamlContext context_;
};

const EmbeddedFile* FindFile(std::string_view name) {
  for (const EmbeddedFile& file : EmbeddedFamilies()) {
    if (file.name.substr(0, file.name.size() - kEnding.size()) == name) {
      return &file;
    }
  }
  return nullptr;
}

bool ReadInto(Description& out, std::string_view name, int line,
              Findings& findings);

// Reads the family that the key `like` names, and the blocks of the families
// that the key `uses` names. Returns false if one of these families cannot be
// read. `line` is the number of `like` and `uses` keys that lead from the first
// family to this one.
bool ReadOthers(const Fields& fields, const YamlContext& context,
                Description& out, int line) {
  if (const YamlNode* like = fields.Find("like")) {
    if (!ReadInto(out, like->text, line + 1, context.findings)) return false;
  }
  const YamlNode* uses = fields.Find("uses");
  if (uses == nullptr) return true;
  for (const std::string& name : ReadTexts(context, *uses, "`uses`")
                                     .value_or(std::vector<std::string>{})) {
    Description other;
    if (!ReadInto(other, name, line + 1, context.findings)) return false;
    for (Block& block : other.blocks) {
      const std::string block_name = block.name;
      Put(out.blocks, std::move(block), block_name, BlockName);
    }
  }
  return true;
}

bool ReadInto(Description& out, std::string_view name, int line,
              Findings& findings) {
  const EmbeddedFile* const file = FindFile(name);
  if (file == nullptr || line > kLongestLine) return false;
  const auto document = YamlDocument::Parse(
      MakeSource("family:" + std::string(name), std::string(file->text)),
      findings);
  if (!document) return false;
  const YamlContext context{*document, findings};
  const auto fields = Fields::Read(context, document->root(), kTable);
  if (!fields) return false;
  CheckVersion(context, fields->Find("version"));
  if (!ReadOthers(*fields, context, out, line)) return false;
  FamilyReader(*document, findings).Read(*fields, out);
  return true;
}

}  // namespace

const Expression* Description::FindLet(std::string_view word) const {
  for (const auto& [known, value] : let) {
    if (known == word) return &value;
  }
  return nullptr;
}

const Block* Description::FindBlock(std::string_view word) const {
  for (const Block& block : blocks) {
    if (block.name == word) return &block;
  }
  return nullptr;
}

std::unique_ptr<const Description> LoadDescription(std::string_view name,
                                                   Findings& findings) {
  auto out = std::make_unique<Description>();
  out->name = name;
  const size_t before = findings.errors();
  if (!ReadInto(*out, name, 0, findings) || findings.errors() > before) {
    return nullptr;
  }
  return out;
}

std::vector<std::string_view> DescriptionNames() {
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : EmbeddedFamilies()) {
    names.push_back(file.name.substr(0, file.name.size() - kEnding.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace shardc::families
