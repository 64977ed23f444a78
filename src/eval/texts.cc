// Implements the functions of `shardc eval` that work on texts: hashes, names
// of dtypes, paths in trees, and names in specs. For example:
//
//   get_safe_hash_int {"text": "hello world"}
//     ->  {"decimal": "125893641179230474042701625388361764291"}
#include <algorithm>
#include <cmath>
#include <iterator>

#include "eval/call.h"
#include "model/dtype.h"
#include "source/digest.h"
#include "source/list.h"
#include "source/wording.h"

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

// Returns one value as Python's str() prints it: a string, a number, a boolean
// or null. Returns nullopt if JSON and Python may spell the value differently,
// as 1e3 and 1000.0.
std::optional<std::string> PythonText(JsonValue value) {
  if (value.IsString()) return std::string(value.string());
  if (value.IsNull()) return "None";
  if (value.kind() == JsonKind::kBool)
    return value.boolean() ? "True" : "False";
  if (value.kind() == JsonKind::kInteger) {
    return std::to_string(value.integer());
  }
  if (value.kind() != JsonKind::kReal) return std::nullopt;
  // With at most 15 digits and no exponent, both spell the same digits, unless
  // JSON has zeros at the end or Python needs an exponent.
  const Place place = value.place();
  const std::string text(
      place.source->text().substr(place.begin, place.end - place.begin));
  const bool shortest = text.back() != '0' || text.ends_with(".0");
  const bool plain = text.find_first_of("eE") == std::string::npos &&
                     (value.real() == 0 || std::fabs(value.real()) >= 1e-4);
  return shortest && plain && text.size() <= 16 ? std::optional(text)
                                                : std::nullopt;
}

// The names of hashlib's functions whose digests have a fixed length.
constexpr std::string_view kHashes[] = {
    "md5",      "sha1",     "sha224",   "sha256",   "sha384",  "sha512",
    "sha3_224", "sha3_256", "sha3_384", "sha3_512", "blake2b", "blake2s"};

bool SafeHashInt(Call& call, Reply& reply) {
  const auto given = call.Find("text");
  const std::string algorithm = call.TextOr("algorithm", "md5");
  const auto text = given ? PythonText(*given) : std::nullopt;
  if (!text) {
    call.Fail(
        "`text` is no string and no value of a spelling that Python shares");
  }
  // HexDigest() also reads other spellings, such as SHA-256, which hashlib does
  // not have.
  if (!IsAmong(algorithm, kHashes)) {
    call.Fail("there is no hash algorithm `" + algorithm + "`",
              DidYouMean(algorithm, kHashes,
                         "some are md5, sha1, sha256, sha3_256 and blake2b"));
  }
  if (!call.Finish()) return false;
  const auto hex = HexDigest(algorithm, *text);
  if (!hex) return false;
  reply.json().Member("decimal", DecimalOf(*hex));
  return true;
}

// What the arguments of JAX's result_type have in common so far. A number of
// Python is weak: it takes the dtype of the arrays, and decides only whether
// the result is an integer or a float.
class Promotion {
 public:
  // Adds an array of a dtype. As without `jax_enable_x64`, an array has at most
  // 32 bits.
  void Add(Dtype dtype) {
    any_ = true;
    switch (dtype) {
      case Dtype::kBool:
        break;
      case Dtype::kU8:
      case Dtype::kU16:
      case Dtype::kU32:
      case Dtype::kU64:
        unsigned_ = std::max(unsigned_, std::min(DtypeBits(dtype), 32));
        break;
      case Dtype::kI8:
      case Dtype::kI16:
      case Dtype::kI32:
      case Dtype::kI64:
        signed_ = std::max(signed_, std::min(DtypeBits(dtype), 32));
        break;
      default:
        if (dtype == Dtype::kF64) dtype = Dtype::kF32;
        others_.insert(dtype);
    }
  }
  void AddInteger() { any_ = weak_integer_ = true; }
  void AddReal() { any_ = weak_real_ = true; }
  bool empty() const { return !any_; }

  // Returns the dtype to which all arguments can be converted; nullopt if JAX
  // has no implicit conversion, as from float32 to float8.
  std::optional<Dtype> Result() const {
    const bool integers = unsigned_ > 0 || signed_ > 0;
    if (others_.empty()) {
      if (weak_real_) return Dtype::kF32;
      if (integers) return Integers();
      return weak_integer_ ? Dtype::kI32 : Dtype::kBool;
    }
    const bool alone = others_.size() == 1;
    for (const Dtype dtype : others_) {
      if (dtype == Dtype::kI4 || dtype == Dtype::kU4) {
        return alone && !integers && !weak_real_ ? std::optional(dtype)
                                                 : std::nullopt;
      }
      const bool converts = dtype == Dtype::kF16 || dtype == Dtype::kBF16 ||
                            dtype == Dtype::kF32 || dtype == Dtype::kC64;
      if (!converts && !alone) return std::nullopt;
    }
    if (alone) return *others_.begin();
    return others_.contains(Dtype::kC64) ? Dtype::kC64 : Dtype::kF32;
  }

 private:
  Dtype Integers() const {
    // An integer with a sign needs one bit more than one without.
    const int with_sign = signed_ > unsigned_ ? signed_ : 2 * unsigned_;
    const int bits = signed_ > 0 ? std::min(with_sign, 32) : unsigned_;
    if (signed_ == 0) {
      return bits == 8 ? Dtype::kU8 : bits == 16 ? Dtype::kU16 : Dtype::kU32;
    }
    return bits == 8 ? Dtype::kI8 : bits == 16 ? Dtype::kI16 : Dtype::kI32;
  }

  bool any_ = false, weak_integer_ = false, weak_real_ = false;
  int unsigned_ = 0, signed_ = 0;  // the bits of the widest; 0 if there is none
  std::set<Dtype> others_;         // floats, complex numbers and small integers
};

bool IsInexact(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
    case Dtype::kU8:
    case Dtype::kI8:
    case Dtype::kI16:
    case Dtype::kU16:
    case Dtype::kI32:
    case Dtype::kU32:
    case Dtype::kI64:
    case Dtype::kU64:
    case Dtype::kI4:
    case Dtype::kU4:
      return false;
    default:
      return true;
  }
}

std::optional<Dtype> NamedDtype(Call& call, JsonValue name) {
  const auto dtype = name.IsString() ? ParseDtype(name.string()) : std::nullopt;
  if (!dtype) {
    call.FailAt(name.place(), name.IsString()
                                  ? "there is no dtype " +
                                        ShortQuote(std::string(name.string()))
                                  : "a dtype is a string");
  }
  return dtype;
}

// Adds an argument: a number or a boolean of Python, or an array, which is
// given as {"dtype": NAME}. A null is ignored.
void AddArgument(Call& call, JsonValue argument, Promotion& promotion) {
  const auto dtype =
      argument.IsObject() ? argument.Find("dtype") : std::nullopt;
  if (argument.IsNull()) return;
  if (argument.kind() == JsonKind::kBool) return promotion.Add(Dtype::kBool);
  if (argument.kind() == JsonKind::kReal) return promotion.AddReal();
  if (argument.kind() == JsonKind::kInteger &&
      static_cast<int32_t>(argument.integer()) == argument.integer()) {
    return promotion.AddInteger();
  }
  if (dtype && argument.size() == 1) {
    if (const auto known = NamedDtype(call, *dtype)) promotion.Add(*known);
    return;
  }
  call.FailAt(argument.place(),
              "an argument is no number of 32 bits and no array",
              "an array is `{\"dtype\": \"bfloat16\"}`");
}

// Returns the dtype in which a function computes: `dtype` if it is given, and
// otherwise the one to which JAX promotes the arguments. With `inexact`, it is
// a float or a complex number.
bool CanonicalDtype(Call& call, Reply& reply) {
  const bool inexact = call.Flag("inexact", true);
  std::optional<Dtype> dtype;
  Promotion promotion;
  const auto arguments = call.Find("args");
  if (call.Has("dtype")) {
    dtype = NamedDtype(call, *call.Find("dtype"));
  } else if (arguments && arguments->IsArray()) {
    for (JsonValue argument : arguments->items()) {
      AddArgument(call, argument, promotion);
    }
    if (promotion.empty()) call.Fail("there is no argument with a dtype");
  } else {
    call.Fail("there is no `dtype` and no list `args`");
  }
  if (!call.Finish()) return false;
  if (!dtype) {
    dtype = promotion.Result();
    if (dtype && inexact && !IsInexact(*dtype)) {
      promotion.Add(Dtype::kF32);
      dtype = promotion.Result();
    }
    if (!dtype) {
      call.Fail("the arguments have no dtype to which JAX promotes them all",
                "convert them to one dtype");
      return false;
    }
  }
  if (inexact && !IsInexact(*dtype)) {
    call.Fail("the dtype must be inexact: " + std::string(DtypeName(*dtype)),
              "give a float, or `\"inexact\": false`");
    return false;
  }
  reply.json().Member("dtype", DtypeName(*dtype));
  reply.json().Member("bits", int64_t{DtypeBits(*dtype)});
  return true;
}

bool TreePath(Call& call, Reply& reply) {
  const bool joined = call.Has("separator");
  const std::string separator = call.TextOr("separator", "");
  const auto keys = call.Find("keys");
  std::vector<std::string> parts;
  if (!keys || !keys->IsArray()) {
    call.Fail("`keys` is no list");
  } else {
    for (JsonValue key : keys->items()) {
      const auto part = PythonText(key);
      if (!part) {
        call.FailAt(
            key.place(),
            "a key is no string and no value of a spelling that Python shares");
        break;
      }
      parts.push_back(*part);
    }
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
    {"canonicalize_dtype",
     "the dtype of a result: dtype, or args (numbers, or arrays as "
     "{\"dtype\": NAME}); inexact",
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
