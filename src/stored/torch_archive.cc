// Reads tensors that `torch.save` wrote. A tensor is a zip archive. Its member
// `data.pkl` is a pickled call that makes the tensor from a storage, and its
// member `data/0` is the storage:
//
//   _rebuild_tensor_v2(storage('0', FloatStorage, 6 elements),
//                      first 0, size (2, 3), stride (3, 1), ...)
//
// Any strides may occur. A transposed tensor has size (2, 3) and stride (1, 2),
// so its element [i, j] is element i + 2 j of the storage. Types without a
// storage class, such as float8, use _rebuild_tensor_v3. Its storage counts
// bytes, and its seventh argument is the data type.
#include "stored/torch_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/input_file.h"
#include "source/size.h"
#include "source/wording.h"
#include "stored/pickle.h"

namespace shardc::stored {
namespace {

using Type = PickleValue::Type;
using Use = PickleGlobal::Use;

// The limit on the bytes of a tensor's pickle. Such a pickle usually has a few
// hundred bytes.
constexpr int64_t kMaxPickleBytes = 1 << 16;

std::vector<PickleGlobal> TensorGlobals() {
  std::vector<PickleGlobal> out = {
      {"torch._utils", "_rebuild_tensor_v2", Use::kCall},
      {"torch._utils", "_rebuild_tensor_v3", Use::kCall},
      {"torch.storage", "UntypedStorage", Use::kConstant},
      {"torch", "Size", Use::kCall},
      {"collections", "OrderedDict", Use::kDictionary},
  };
  for (const TorchDtype& type : TorchDtypes()) {
    out.push_back({"torch", type.name, Use::kConstant});
    if (!type.storage.empty()) {
      out.push_back({"torch", type.storage, Use::kConstant});
    }
  }
  return out;
}

std::optional<Shape> ReadSizes(const PickleValue& value) {
  if (value.type() != Type::kTuple || value.size() > kMostTensorDims) {
    return std::nullopt;
  }
  Shape out(value.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const auto size = value[i].Int();
    if (!size || *size < 0) return std::nullopt;
    out[i] = *size;
  }
  return out;
}

Shape RowMajorStrides(const Shape& shape) {
  Shape out(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i > 0; --i) {
    out[i - 1] = step;
    step *= shape[i - 1];
  }
  return out;
}

// Returns the index of the last element of the storage that the tensor uses.
// Returns nullopt if the index does not fit in 64 bits. The tensor must have
// elements.
std::optional<int64_t> LastElement(const TorchTensor& tensor) {
  int64_t last = tensor.first;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const auto step = CheckedMul(tensor.shape[i] - 1, tensor.strides[i]);
    const auto sum = step ? CheckedAdd(last, *step) : std::nullopt;
    if (!sum) return std::nullopt;
    last = *sum;
  }
  return last;
}

// Returns the reason why a tensor is refused; nullopt if it is accepted. All
// its elements must be inside its storage. The tensor must not have more
// elements than the storage: with a stride of 0, a small file could describe a
// tensor of any size.
std::optional<std::string> WhyOutside(const TorchTensor& tensor) {
  const auto elements = CheckedProduct(tensor.shape);
  const int64_t stored = tensor.data_bytes / tensor.dtype->bytes;
  if (!elements || *elements > stored) {
    return "a tensor of shape " + ShapeText(tensor.shape) +
           " has a storage of " + Counted(stored, "element");
  }
  if (*elements == 0) return std::nullopt;
  const auto last = LastElement(tensor);
  if (last && *last < stored) return std::nullopt;
  return "a tensor of shape " + ShapeText(tensor.shape) +
         " ends outside its storage of " + Counted(stored, "element");
}

// The storage of a tensor. `key` is its name. `dtype` is its element type, or
// null for an UntypedStorage. `count` is the number of elements, or of bytes if
// it is untyped.
struct Storage {
  std::string key;
  const TorchDtype* dtype = nullptr;
  int64_t count = 0;
};

std::optional<Storage> ReadStorage(const PickleValue& value) {
  // `id` is the tuple ('storage', class, key, device, number of elements).
  const PickleValue id = value.Content();
  if (value.type() != Type::kPersistent || id.type() != Type::kTuple ||
      id.size() != 5 || id[0].Text() != "storage" ||
      id[1].type() != Type::kGlobal || !id[2].Text() || !id[4].Int() ||
      *id[4].Int() < 0) {
    return std::nullopt;
  }
  Storage out{std::string(*id[2].Text()),
              TorchDtypeByStorage(id[1].Global()->name), *id[4].Int()};
  if (out.dtype == nullptr && !id[1].Is("UntypedStorage")) return std::nullopt;
  return out;
}

const ZipMember* FindZipMember(const std::vector<ZipMember>& members,
                               std::string_view ending) {
  // The name of a member begins with the archive's name and a slash.
  for (const ZipMember& member : members) {
    const size_t slash = member.name.find('/');
    if (slash != std::string::npos &&
        std::string_view(member.name).substr(slash + 1) == ending) {
      return &member;
    }
  }
  return nullptr;
}

class ArchiveReader {
 public:
  ArchiveReader(const InputFile& file, int64_t offset, int64_t bytes,
                Findings& findings)
      : file_(file), offset_(offset), bytes_(bytes), findings_(findings) {}

  std::optional<std::string> ReadPickle() {
    auto members = ReadZipDirectory(file_, offset_, bytes_, findings_);
    if (!members) return std::nullopt;
    members_ = std::move(*members);
    std::string pickle;
    if (!Small("data.pkl", &pickle)) return std::nullopt;
    return pickle;
  }

  std::optional<TorchTensor> Read() {
    const auto pickle = ReadPickle();
    if (!pickle) return std::nullopt;
    std::string order = "little";
    if (FindZipMember(members_, "byteorder") != nullptr &&
        !Small("byteorder", &order)) {
      return std::nullopt;
    }
    if (order != "little") {
      return Refuse("its byte order is " + ShortQuote(order));
    }
    std::string key;
    std::string why;
    auto tensor = ParseTorchTensor(*pickle, &key, &why);
    if (!tensor) return Refuse(why);
    const ZipMember* data = FindZipMember(members_, "data/" + key);
    if (data == nullptr) return Refuse("it has no member `data/" + key + "`");
    if (data->bytes != tensor->data_bytes) {
      return Refuse("its storage has " + CountText(data->bytes) +
                    " bytes and should have " + CountText(tensor->data_bytes));
    }
    const auto at = ZipDataOffset(file_, offset_, bytes_, *data, findings_);
    if (!at) return std::nullopt;
    tensor->data_offset = *at;
    tensor->crc = data->crc;
    return tensor;
  }

 private:
  std::nullopt_t Refuse(const std::string& what) {
    findings_.Add(
        code::kHeader, {MakeSource(file_.path(), {})},
        "the archive at byte " + std::to_string(offset_) + ": " + what,
        "copy the file again or save the checkpoint again");
    return std::nullopt;
  }

  // Reads the complete member `name`, which must be small, and checks its
  // CRC-32.
  bool Small(std::string_view name, std::string* out) {
    const ZipMember* member = FindZipMember(members_, name);
    if (member == nullptr || member->bytes > kMaxPickleBytes) {
      Refuse("it has no member `" + std::string(name) + "` of at most " +
             CountText(kMaxPickleBytes) + " bytes");
      return false;
    }
    const auto at = ZipDataOffset(file_, offset_, bytes_, *member, findings_);
    if (!at) return false;
    out->resize(AsIndex(member->bytes));
    if (!file_.ReadAt(*at, out->data(), out->size(), findings_)) return false;
    if (ZipCrc(*out) == member->crc) return true;
    Refuse("the bytes of `" + std::string(name) + "` do not have its CRC-32");
    return false;
  }

  const InputFile& file_;
  int64_t offset_;
  int64_t bytes_;
  Findings& findings_;
  std::vector<ZipMember> members_;
};

// Copies the elements of a tensor to `out` in row-major order. The tensor may
// have any strides.
void Gather(const TorchTensor& tensor, const char* storage, char* out) {
  const size_t rank = tensor.shape.size();
  const auto bytes = AsIndex(tensor.dtype->bytes);
  // The inner loop runs over the last dimension.
  const int64_t row = rank == 0 ? 1 : tensor.shape[rank - 1];
  const int64_t step = rank == 0 ? 0 : tensor.strides[rank - 1];
  Shape at(rank, 0);
  int64_t from = tensor.first;
  for (;;) {
    for (int64_t i = 0; i < row; ++i) {
      std::memcpy(out, storage + AsIndex(from + i * step) * bytes, bytes);
      out += bytes;
    }
    size_t dim = rank == 0 ? 0 : rank - 1;
    for (; dim > 0; --dim) {
      from += tensor.strides[dim - 1];
      if (++at[dim - 1] < tensor.shape[dim - 1]) break;
      from -= tensor.strides[dim - 1] * tensor.shape[dim - 1];
      at[dim - 1] = 0;
    }
    if (dim == 0) return;
  }
}

}  // namespace

bool TorchTensor::IsPlain() const {
  const auto elements = CheckedProduct(shape);
  if (first != 0 || !elements || *elements * dtype->bytes != data_bytes) {
    return false;
  }
  const Shape plain = RowMajorStrides(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1 && strides[i] != plain[i]) return false;
  }
  return true;
}

std::optional<TorchTensor> ParseTorchTensor(std::string_view pickle,
                                            std::string* key,
                                            std::string* why) {
  static const std::vector<PickleGlobal> kGlobals = TensorGlobals();
  const auto parsed =
      Pickle::Parse(pickle, {.globals = kGlobals, .persistent = true}, why);
  if (!parsed) return std::nullopt;
  const PickleValue root = parsed->root();
  const bool typed = root.Is("_rebuild_tensor_v2");
  const PickleValue arguments = root.Content();
  const size_t needed = typed ? 6 : 7;
  *why = "its pickle is no plain tensor";
  if (root.type() != Type::kCall ||
      (!typed && !root.Is("_rebuild_tensor_v3")) || arguments.size() < needed ||
      arguments.size() > needed + 1) {
    return std::nullopt;
  }
  // If a further argument is not empty, the tensor is lazily conjugated or
  // negated. Its stored bytes are then not its values, so the tensor is
  // refused.
  if (arguments.size() > needed && arguments[needed].size() > 0) {
    return std::nullopt;
  }
  const auto storage = ReadStorage(arguments[0]);
  const auto first = arguments[1].Int();
  auto shape = ReadSizes(arguments[2]);
  auto strides = ReadSizes(arguments[3]);
  if (!storage || !first || *first < 0 || !shape || !strides ||
      shape->size() != strides->size()) {
    return std::nullopt;
  }
  TorchTensor out;
  out.dtype = storage->dtype;
  int64_t unit = 1;
  if (typed && out.dtype != nullptr) {
    unit = out.dtype->bytes;
  } else if (!typed && arguments[6].type() == Type::kGlobal) {
    out.dtype = TorchDtypeByName(arguments[6].Global()->name);
  }
  const auto bytes = CheckedMul(storage->count, unit);
  if (out.dtype == nullptr || !bytes) return std::nullopt;
  out.data_bytes = *bytes;
  out.shape = std::move(*shape);
  out.strides = std::move(*strides);
  out.first = *first;
  if (const auto outside = WhyOutside(out)) {
    *why = *outside;
    return std::nullopt;
  }
  *key = storage->key;
  why->clear();
  return out;
}

std::optional<TorchTensor> ReadTorchTensor(const InputFile& file,
                                           int64_t offset, int64_t bytes,
                                           Findings& findings) {
  return ArchiveReader(file, offset, bytes, findings).Read();
}

std::optional<std::string> ReadTorchPickle(const InputFile& file,
                                           int64_t offset, int64_t bytes,
                                           Findings& findings) {
  return ArchiveReader(file, offset, bytes, findings).ReadPickle();
}

std::optional<std::string> ReadTorchData(const InputFile& file,
                                         const TorchTensor& tensor,
                                         Findings& findings) {
  std::string storage(AsIndex(tensor.data_bytes), '\0');
  if (!file.ReadAt(tensor.data_offset, storage.data(), storage.size(),
                   findings)) {
    return std::nullopt;
  }
  if (ZipCrc(storage) != tensor.crc) {
    findings.Add(code::kHeader, {MakeSource(file.path(), {})},
                 "the " + Counted(tensor.data_bytes, "byte") + " at byte " +
                     std::to_string(tensor.data_offset) +
                     " do not have the CRC-32 of their archive",
                 "copy the file again or save the checkpoint again");
    return std::nullopt;
  }
  if (tensor.IsPlain()) return storage;
  const int64_t elements = CheckedProduct(tensor.shape).value_or(0);
  std::string out(AsIndex(elements * tensor.dtype->bytes), '\0');
  if (elements > 0) Gather(tensor, storage.data(), out.data());
  return out;
}

// The table of PyTorch's data types: `float32` is stored in a `FloatStorage` of
// 4 bytes per element and is F32 in safetensors. Types without a storage class
// are stored as bytes of an `UntypedStorage`.

namespace {

constexpr TorchDtype kTypes[] = {
    {"float32", "FloatStorage", 4, Dtype::kF32},
    {"float64", "DoubleStorage", 8, Dtype::kF64},
    {"float16", "HalfStorage", 2, Dtype::kF16},
    {"bfloat16", "BFloat16Storage", 2, Dtype::kBF16},
    {"int64", "LongStorage", 8, Dtype::kI64},
    {"int32", "IntStorage", 4, Dtype::kI32},
    {"int16", "ShortStorage", 2, Dtype::kI16},
    {"int8", "CharStorage", 1, Dtype::kI8},
    {"uint8", "ByteStorage", 1, Dtype::kU8},
    {"bool", "BoolStorage", 1, Dtype::kBool},
    {"complex64", "ComplexFloatStorage", 8, Dtype::kC64},
    {"complex128", "ComplexDoubleStorage", 16, std::nullopt},
    {"complex32", "", 4, std::nullopt},
    {"uint16", "", 2, Dtype::kU16},
    {"uint32", "", 4, Dtype::kU32},
    {"uint64", "", 8, Dtype::kU64},
    {"float8_e4m3fn", "", 1, Dtype::kF8E4M3},
    {"float8_e5m2", "", 1, Dtype::kF8E5M2},
    {"float8_e8m0fnu", "", 1, Dtype::kF8E8M0},
    {"float8_e4m3fnuz", "", 1, Dtype::kF8E4M3Fnuz},
    {"float8_e5m2fnuz", "", 1, Dtype::kF8E5M2Fnuz},
    // Each element of this type contains two numbers.
    {"float4_e2m1fn_x2", "", 1, std::nullopt},
    {"qint8", "QInt8Storage", 1, std::nullopt},
    {"quint8", "QUInt8Storage", 1, std::nullopt},
    {"qint32", "QInt32Storage", 4, std::nullopt},
};

const TorchDtype* FindTorchDtype(std::string_view TorchDtype::*field,
                                 std::string_view text) {
  const auto found =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const TorchDtype& type) { return type.*field == text; });
  return found == std::end(kTypes) || text.empty() ? nullptr : found;
}

}  // namespace

std::span<const TorchDtype> TorchDtypes() { return kTypes; }

const TorchDtype* TorchDtypeByName(std::string_view name) {
  return FindTorchDtype(&TorchDtype::name, name);
}

const TorchDtype* TorchDtypeByStorage(std::string_view storage) {
  return FindTorchDtype(&TorchDtype::storage, storage);
}

// Reads plain values (numbers, strings and empty containers). DCP pickles every
// value that is not a tensor. If the value is plain, its pickle is read without
// running any code. In these examples, the bytes of a pickle are on the left:
//
//   80 02 4e 2e   None          ->  an empty node, `None`
//   80 02 4b 07 2e   7          ->  the number 7 with the dtype I64
//   80 02 7d 71 00 2e   {}      ->  an empty node, `Dict`
//   {'lr': 0.1, 'params': [0]}  ->  not plain: it stays a pickled value

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

// Reads the directory of a zip archive. An archive is read from its end. The
// last 22 bytes state the place of the directory, and each entry of the
// directory states the place of a member. All integers are little-endian.
//
//   members   each: local header (30 bytes, name, padding), then the bytes
//   directory each: `PK\1\2`, flags, method, CRC-32, sizes, lengths, offset
//   (archives of 4 GiB or more: a second, wider end record and its locator)
//   end       `PK\5\6`, number of entries, size and offset of the directory
//
// A local header may omit sizes and CRC, as torch does, because the directory
// contains them. Only the lengths of the name and the padding are read from
// local headers.

namespace {

constexpr int64_t kEndBytes = 22;
constexpr int64_t kLocatorBytes = 20;
constexpr int64_t kWideEndBytes = 56;
constexpr size_t kDirectoryEntryBytes = 46;
// The limit on the bytes of the directory. An archive of one tensor has 7
// members with short names.
constexpr int64_t kMaxDirectoryBytes = 1 << 16;
constexpr uint64_t kSeeWide = 0xFFFFFFFF;

uint64_t Number(std::string_view bytes, size_t at, size_t count) {
  return LittleEndian(bytes.substr(at, count));
}

class ZipReader {
 public:
  ZipReader(const InputFile& file, int64_t offset, int64_t bytes,
            Findings& findings)
      : file_(file), offset_(offset), bytes_(bytes), findings_(findings) {}

  std::optional<std::vector<ZipMember>> Read() {
    std::string directory;
    uint64_t count = 0;
    if (!ReadEnd(&directory, &count)) return std::nullopt;
    std::vector<ZipMember> out;
    size_t at = 0;
    for (uint64_t i = 0; i < count; ++i) {
      ZipMember& member = out.emplace_back();
      if (!ReadEntry(directory, &at, member)) return std::nullopt;
    }
    return out;
  }

  std::optional<int64_t> DataOffset(const ZipMember& member) {
    std::string local;
    if (!Part(member.header_offset, kZipLocalBytes, &local))
      return std::nullopt;
    if (!local.starts_with("PK\3\4")) {
      Refuse("member " + member.name + " has no header");
      return std::nullopt;
    }
    const auto skipped =
        static_cast<int64_t>(Number(local, 26, 2) + Number(local, 28, 2));
    const int64_t begin = member.header_offset + kZipLocalBytes + skipped;
    if (begin > bytes_ || member.bytes > bytes_ - begin) {
      Refuse("member " + member.name + " ends outside the archive");
      return std::nullopt;
    }
    return offset_ + begin;
  }

 private:
  bool Refuse(const std::string& what) {
    findings_.Add(code::kHeader, {MakeSource(file_.path(), {})},
                  "the archive of " + std::to_string(bytes_) +
                      " bytes at byte " + std::to_string(offset_) + ": " + what,
                  "copy the file again or save the checkpoint again");
    return false;
  }

  bool Part(int64_t at, int64_t count, std::string* out) {
    if (at < 0 || at > bytes_ || count > bytes_ - at) {
      return Refuse("its directory points outside it");
    }
    out->resize(AsIndex(count));
    return file_.ReadAt(offset_ + at, out->data(), out->size(), findings_);
  }

  // Reads the end record. Sets `*directory` to the bytes of the directory, and
  // `*count` to the number of its entries.
  bool ReadEnd(std::string* directory, uint64_t* count) {
    std::string end;
    if (bytes_ < kEndBytes) return Refuse("it is too short for a zip archive");
    if (!Part(bytes_ - kEndBytes, kEndBytes, &end)) return false;
    if (!end.starts_with("PK\5\6")) {
      return Refuse("it does not end as a zip archive");
    }
    *count = Number(end, 10, 2);
    uint64_t size = Number(end, 12, 4);
    uint64_t begin = Number(end, 16, 4);
    if (*count == 0xFFFF || size == kSeeWide || begin == kSeeWide) {
      std::string wide;
      if (!ReadWideEnd(&wide)) return false;
      *count = Number(wide, 32, 8);
      size = Number(wide, 40, 8);
      begin = Number(wide, 48, 8);
    }
    if (size > kMaxDirectoryBytes || *count > size / kDirectoryEntryBytes ||
        begin > static_cast<uint64_t>(bytes_)) {
      return Refuse("its directory has " + std::to_string(*count) +
                    " entries in " + std::to_string(size) + " bytes");
    }
    return Part(static_cast<int64_t>(begin), static_cast<int64_t>(size),
                directory);
  }

  bool ReadWideEnd(std::string* wide) {
    std::string locator;
    const int64_t at = bytes_ - kEndBytes - kLocatorBytes;
    if (!Part(at, kLocatorBytes, &locator)) return false;
    const uint64_t begin = Number(locator, 8, 8);
    if (!locator.starts_with("PK\6\7") ||
        begin > static_cast<uint64_t>(bytes_)) {
      return Refuse("the end of its directory is not found");
    }
    if (!Part(static_cast<int64_t>(begin), kWideEndBytes, wide)) return false;
    return wide->starts_with("PK\6\6") ||
           Refuse("the end of its directory is not found");
  }

  bool ReadEntry(std::string_view directory, size_t* at, ZipMember& member) {
    const std::string_view entry = directory.substr(*at);
    if (entry.size() < kDirectoryEntryBytes || !entry.starts_with("PK\1\2")) {
      return Refuse("its directory is malformed");
    }
    const uint64_t flags = Number(entry, 8, 2);
    const uint64_t method = Number(entry, 10, 2);
    const size_t name = Number(entry, 28, 2);
    const size_t extra = Number(entry, 30, 2);
    const size_t comment = Number(entry, 32, 2);
    if (entry.size() < kDirectoryEntryBytes + name + extra + comment) {
      return Refuse("its directory is malformed");
    }
    member.name = entry.substr(kDirectoryEntryBytes, name);
    member.crc = static_cast<uint32_t>(Number(entry, 16, 4));
    uint64_t sizes[3] = {Number(entry, 24, 4), Number(entry, 20, 4),
                         Number(entry, 42, 4)};
    TakeWide(entry.substr(kDirectoryEntryBytes + name, extra), sizes);
    if ((flags & 1) != 0 || method != 0 || sizes[0] != sizes[1]) {
      return Refuse("a member is compressed or encrypted");
    }
    const auto limit = static_cast<uint64_t>(bytes_);
    if (sizes[0] > limit || sizes[2] > limit) {
      return Refuse("a member ends outside the archive");
    }
    member.bytes = static_cast<int64_t>(sizes[0]);
    member.header_offset = static_cast<int64_t>(sizes[2]);
    *at += kDirectoryEntryBytes + name + extra + comment;
    return true;
  }

  // Reads the 64-bit numbers in the extra field with id 1. They replace the
  // numbers in `sizes` that do not fit in 32 bits. The field contains only the
  // numbers that are replaced, in the order size, compressed size, offset.
  static void TakeWide(std::string_view extra, uint64_t (&sizes)[3]) {
    while (extra.size() >= 4) {
      const uint64_t id = Number(extra, 0, 2);
      const size_t length =
          std::min<size_t>(Number(extra, 2, 2), extra.size() - 4);
      std::string_view field = extra.substr(4, length);
      extra.remove_prefix(4 + length);
      if (id != 1) continue;
      for (uint64_t& size : sizes) {
        if (size != kSeeWide || field.size() < 8) continue;
        size = Number(field, 0, 8);
        field.remove_prefix(8);
      }
    }
  }

  const InputFile& file_;
  int64_t offset_;
  int64_t bytes_;
  Findings& findings_;
};

}  // namespace

std::optional<std::vector<ZipMember>> ReadZipDirectory(const InputFile& file,
                                                       int64_t offset,
                                                       int64_t bytes,
                                                       Findings& findings) {
  return ZipReader(file, offset, bytes, findings).Read();
}

std::optional<int64_t> ZipDataOffset(const InputFile& file, int64_t offset,
                                     int64_t bytes, const ZipMember& member,
                                     Findings& findings) {
  return ZipReader(file, offset, bytes, findings).DataOffset(member);
}

uint32_t ZipCrc(std::string_view bytes) {
  uLong crc = ::crc32(0, nullptr, 0);
  constexpr size_t kStep = std::numeric_limits<uInt>::max();
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kStep, bytes.size()))) {
    const auto count = static_cast<uInt>(std::min(kStep, bytes.size()));
    crc = ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), count);
  }
  return static_cast<uint32_t>(crc);
}

}  // namespace shardc::stored
