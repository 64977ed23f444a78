// Reads plain values (numbers, strings and empty containers). DCP pickles every
// value that is not a tensor. If the value is plain, its pickle is read without
// running any code. In these examples, the bytes of a pickle are on the left:
//
//   80 02 4e 2e   None          ->  an empty node, `None`
//   80 02 4b 07 2e   7          ->  the number 7 with the dtype I64
//   80 02 7d 71 00 2e   {}      ->  an empty node, `Dict`
//   {'lr': 0.1, 'params': [0]}  ->  not plain: it stays a pickled value
#include "stored/plain_value.h"

#include <string>
#include <utility>

#include "source/input_file.h"
#include "stored/pickle.h"
#include "stored/torch_archive.h"

namespace shardc::stored {
namespace {

using Type = PickleValue::Type;

template <class T>
std::string BytesOf(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

// Returns the name that orbax gives to an empty node; null if the value is not
// an empty node.
const char* EmptyName(const PickleValue& value) {
  if (value.type() == Type::kNone) return "None";
  if (value.size() > 0) return nullptr;
  switch (value.type()) {
    case Type::kDictionary:
      return "Dict";
    case Type::kList:
      return "List";
    case Type::kTuple:
      return "Tuple";
    default:
      return nullptr;
  }
}

}  // namespace

std::optional<Leaf> PlainValueOf(const Leaf& leaf) {
  if (leaf.kind != Leaf::Kind::kOpaque || !leaf.place) return std::nullopt;
  Findings none;
  const auto file = InputFile::Open(leaf.place->file, none);
  const auto pickle =
      file ? ReadTorchPickle(*file, leaf.place->offset, leaf.place->bytes, none)
           : std::nullopt;
  std::string why;
  const auto parsed =
      pickle ? Pickle::Parse(*pickle, {}, &why) : std::optional<Pickle>();
  if (!parsed) return std::nullopt;
  const PickleValue value = parsed->root();
  Leaf out = leaf;
  out.place.reset();
  if (const auto text = value.Text()) {
    out.kind = Leaf::Kind::kString;
    out.text = *text;
  } else if (const char* name = EmptyName(value)) {
    out.kind = Leaf::Kind::kEmpty;
    out.text = name;
  } else {
    out.kind = Leaf::Kind::kNumber;
    if (const auto truth = value.Bool()) {
      out.dtype = Dtype::kBool;
      out.text = std::string(1, *truth ? '\1' : '\0');
    } else if (const auto integer = value.Int()) {
      out.dtype = Dtype::kI64;
      out.text = BytesOf(*integer);
    } else if (const auto real = value.Float()) {
      out.dtype = Dtype::kF64;
      out.text = BytesOf(*real);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace shardc::stored
