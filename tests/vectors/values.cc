#include "vectors.h"

namespace shardc::vectors {

using reference::Value;

Verdict Pass() { return {}; }
Verdict Fail(std::string why) { return {Outcome::kFailed, std::move(why)}; }
Verdict Differs(std::string_view quirk) {
  return {Outcome::kDiffers, std::string(quirk)};
}

JsonValue At(JsonValue object, std::string_view key) {
  auto found = object.IsObject() ? object.Find(key) : std::nullopt;
  if (!found) throw Malformed{"no member `" + std::string(key) + "`"};
  return *found;
}

std::string_view StringAt(JsonValue object, std::string_view key) {
  const JsonValue value = At(object, key);
  return value.IsString() ? value.string() : std::string_view();
}

Value ToValue(JsonValue json, bool lists) {
  if (json.IsString()) return Value::Name(json.string());
  if (!json.IsArray()) return Value::None();
  auto items = ToValues(json, lists);
  return lists ? Value::List(std::move(items)) : Value::Tuple(std::move(items));
}

std::vector<Value> ToValues(JsonValue json, bool lists) {
  std::vector<Value> out;
  if (!json.IsArray()) throw Malformed{"not an array: " + Text(json)};
  for (JsonValue item : json.items()) out.push_back(ToValue(item, lists));
  return out;
}

reference::PartitionAxis::Given ToGiven(JsonValue json, bool lists) {
  reference::PartitionAxis::Given given;
  for (JsonMember member : json.members()) {
    if (auto rule = reference::ParseFieldName(member.name())) {
      given[static_cast<size_t>(*rule)] = ToValue(member.value, lists);
    }
  }
  return given;
}

reference::PartitionAxis ToPartitionAxis(JsonValue input) {
  return reference::PartitionAxis(ToGiven(At(input, "partition_axis")));
}

namespace {

std::string PythonType(JsonValue value) {
  switch (value.kind()) {
    case JsonKind::kBool:
      return "bool";
    case JsonKind::kInteger:
    case JsonKind::kUnsigned:
      return "int";
    case JsonKind::kReal:
      return "float";
    case JsonKind::kString:
      return "str";
    default:
      return "NoneType";
  }
}

}  // namespace

reference::Tree ToTree(JsonValue json) {
  using Kind = reference::Tree::Kind;
  reference::Tree tree;
  if (json.IsArray()) {
    tree.kind = Kind::kBranch;
    tree.is_list = true;
    for (JsonValue item : json.items()) {
      tree.members.emplace_back(std::to_string(tree.members.size()),
                                ToTree(item));
    }
  } else if (json.IsObject()) {
    if (auto shape = json.Find("$shape")) {
      tree.kind = Kind::kArray;
      tree.shape = ToShape(*shape);
    } else if (auto value = json.Find("$value")) {
      tree.kind = Kind::kHost;
      tree.host_type = PythonType(*value);
      tree.host_text = Text(*value);
    } else {
      tree.kind = Kind::kBranch;
      for (JsonMember member : json.members()) {
        tree.members.emplace_back(std::string(member.name()),
                                  ToTree(member.value));
      }
    }
  }
  return tree;
}

Shape ToShape(JsonValue json) {
  Shape shape;
  if (!json.IsArray()) throw Malformed{"not a shape: " + Text(json)};
  for (JsonValue size : json.items()) {
    if (size.kind() != JsonKind::kInteger) {
      throw Malformed{"not a size: " + Text(size)};
    }
    shape.push_back(size.integer());
  }
  return shape;
}

Mesh ToMesh(JsonValue json) {
  Mesh mesh;
  for (JsonMember member : json.members()) {
    mesh.axes.push_back({std::string(member.name()), member.value.integer()});
    mesh.devices *= member.value.integer();
  }
  return mesh;
}

std::vector<std::string> ToStrings(JsonValue json) {
  std::vector<std::string> out;
  if (!json.IsArray()) throw Malformed{"not a list of names: " + Text(json)};
  for (JsonValue item : json.items()) {
    if (!item.IsString()) throw Malformed{"not a name: " + Text(item)};
    out.emplace_back(item.string());
  }
  return out;
}

std::string Text(JsonValue json) {
  const Place place = json.place();
  return std::string(
      place.source->text().substr(place.begin, place.end - place.begin));
}

std::string Text(const Value& value) {
  if (value.IsNone()) return "null";
  if (value.IsName()) return "\"" + value.name + "\"";
  return Text(value.items);
}

std::string Text(std::span<const Value> values) {
  std::string out = "[";
  for (const Value& value : values) {
    if (out.size() > 1) out += ", ";
    out += Text(value);
  }
  return out + "]";
}

bool Same(const Value& value, JsonValue json) {
  if (value.IsNone()) return json.IsNull();
  if (value.IsName()) return json.IsString() && json.string() == value.name;
  return json.IsArray() && Same(value.items, json);
}

bool Same(std::span<const Value> values, JsonValue json) {
  if (!json.IsArray() || json.size() != values.size()) return false;
  size_t i = 0;
  for (JsonValue item : json.items()) {
    if (!Same(values[i++], item)) return false;
  }
  return true;
}

Verdict CompareError(const reference::Error& error, JsonValue expected) {
  const std::string ours = error.type + "/" + error.kind + ": " + error.message;
  if (error.kind != At(expected, "kind").string() ||
      error.type != At(expected, "type").string() ||
      error.message.find(At(expected, "contains").string()) ==
          std::string::npos) {
    return Fail("error " + ours + ", expected " + Text(expected));
  }
  return Pass();
}

Verdict CompareValues(std::span<const Value> values, JsonValue expected,
                      std::string_view what) {
  if (Same(values, expected)) return Pass();
  return Fail(std::string(what) + " " + Text(values) + ", expected " +
              Text(expected));
}

}  // namespace shardc::vectors
