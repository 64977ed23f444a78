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

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "source/checked.h"
#include "source/index.h"
#include "source/wording.h"
#include "stored/pickle.h"
#include "stored/zip_directory.h"

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

const ZipMember* Find(const std::vector<ZipMember>& members,
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
    if (Find(members_, "byteorder") != nullptr && !Small("byteorder", &order)) {
      return std::nullopt;
    }
    if (order != "little") {
      return Refuse("its byte order is " + ShortQuote(order));
    }
    std::string key;
    std::string why;
    auto tensor = ParseTorchTensor(*pickle, &key, &why);
    if (!tensor) return Refuse(why);
    const ZipMember* data = Find(members_, "data/" + key);
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
    const ZipMember* member = Find(members_, name);
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

}  // namespace shardc::stored
