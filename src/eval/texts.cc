// Implements the functions of `shardc eval` that work on texts: hashes, names
// of dtypes, paths in trees, and names in specs. For example:
//
//   get_safe_hash_int {"text": "hello world"}
//     ->  {"decimal": "125893641179230474042701625388361764291"}
#include <algorithm>

#include "eval/call.h"
#include "model/dtype.h"
#include "source/digest.h"

namespace shardc::eval {
namespace {

// Returns the decimal digits of a number whose hex digits are given.
std::string DecimalOf(std::string_view hex) {
  std::string digits = "0";  // the least significant digit first, as characters
  for (const char c : hex) {
    int carry = c >= 'a' ? c - 'a' + 10 : c - '0';
    for (char& digit : digits) {
      carry += (digit - '0') * 16;
      digit = static_cast<char>('0' + carry % 10);
      carry /= 10;
    }
    for (; carry > 0; carry /= 10) {
      digits += static_cast<char>('0' + carry % 10);
    }
  }
  return {digits.rbegin(), digits.rend()};
}

bool SafeHashInt(Call& call, Reply& reply) {
  const std::string text = call.Text("text");
  const std::string algorithm = call.TextOr("algorithm", "md5");
  if (!call.Finish()) return false;
  const auto hex = HexDigest(algorithm, text);
  if (!hex) {
    call.Fail("there is no hash algorithm `" + algorithm + "`",
              "some are md5, sha1, sha256, sha3_256 and blake2b");
    return false;
  }
  reply.json().Member("decimal", DecimalOf(*hex));
  return true;
}

bool CanonicalDtype(Call& call, Reply& reply) {
  const std::string text = call.Text("dtype");
  if (!call.Finish()) return false;
  const auto dtype = ParseDtype(text);
  if (!dtype) {
    call.Fail("there is no dtype `" + text + "`");
    return false;
  }
  reply.json().Member("dtype", DtypeName(*dtype));
  reply.json().Member("bits", int64_t{DtypeBits(*dtype)});
  return true;
}

// Returns one key of a tree's path as Python's str() prints it. A key is the
// key of a dictionary, the index of a list or the name of an attribute. A
// number is copied as the JSON text spells it.
std::string PathPart(JsonValue key) {
  if (key.IsString()) return std::string(key.string());
  if (key.IsNull()) return "None";
  if (key.kind() == JsonKind::kBool) return key.boolean() ? "True" : "False";
  const Place place = key.place();
  return std::string(
      place.source->text().substr(place.begin, place.end - place.begin));
}

bool TreePath(Call& call, Reply& reply) {
  const bool joined = call.Has("separator");
  const std::string separator = call.TextOr("separator", "");
  const auto keys = call.Find("keys");
  std::vector<std::string> parts;
  if (!keys || !keys->IsArray()) {
    call.Fail("`keys` is no list");
  } else {
    for (JsonValue key : keys->items()) parts.push_back(PathPart(key));
  }
  if (!call.Finish()) return false;
  if (!joined) {
    reply.json().Key("keys");
    reply.json().Array(parts);
    return true;
  }
  std::string path;
  for (size_t i = 0; i < parts.size(); ++i) {
    path += (i > 0 ? separator : "") + parts[i];
  }
  reply.json().Member("path", path);
  return true;
}

void GatherNames(JsonValue value, std::set<std::string>& names) {
  if (value.IsString()) names.emplace(value.string());
  if (value.IsArray()) {
    for (JsonValue item : value.items()) GatherNames(item, names);
  }
  if (value.IsObject()) {
    for (JsonMember member : value.members()) GatherNames(member.value, names);
  }
}

bool SpecNames(Call& call, Reply& reply) {
  const auto value = call.Find("value");
  if (!value) call.Fail("member `value` is missing");
  if (!call.Finish()) return false;
  std::set<std::string> names;
  GatherNames(*value, names);
  reply.json().Key("names");
  reply.json().Array(names);
  return true;
}

constexpr Function kOfTexts[] = {
    {"canonicalize_dtype", "the safetensors name of a dtype's spelling: dtype",
     CanonicalDtype},
    {"get_names_from_partition_spec",
     "the axis names in specs, however nested, sorted: value", SpecNames},
    {"get_safe_hash_int",
     "a digest as the decimal integer of its bytes: text, algorithm",
     SafeHashInt},
    {"tree_path_to_string",
     "a path's keys, joined where a separator is given: keys, separator",
     TreePath},
};

}  // namespace

std::span<const Function> TextFunctions() { return kOfTexts; }

}  // namespace shardc::eval
