// Writes archives as `torch.save` does; torch_archive.cc and zip_directory.cc
// read them. Members are stored uncompressed at multiples of 64 bytes. To align
// them, torch and shardc pad an extra field of the member's header:
//
//   archive/data.pkl    the call that makes the tensor from its storage
//   archive/byteorder   "little"
//   archive/data/0      the elements
//   archive/version     "3"
#include "stored/write_torch.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "stored/append_integer.h"
#include "stored/pickle_writer.h"
#include "stored/zip_directory.h"

namespace shardc::stored {
namespace {

constexpr size_t kAlignment = 64;
// The rough size of an archive without the elements of its tensor.
constexpr size_t kOthersBytes = 2048;
constexpr uint64_t kFirstDay = 0x21;  // the date of each member: 1 January 1980

class ZipWriter {
 public:
  explicit ZipWriter(size_t bytes) { out_.reserve(bytes + kOthersBytes); }

  void Add(std::string_view member, std::string_view bytes) {
    const std::string name = "archive/" + std::string(member);
    const size_t offset = out_.size();
    // The padding is in an extra field, whose own header has 4 bytes.
    const size_t before = offset + size_t{kZipLocalBytes} + name.size() + 4;
    const size_t padding = (kAlignment - before % kAlignment) % kAlignment;
    std::string head;
    AppendHead(head, ZipCrc(bytes), bytes.size(), name.size());
    out_ += "PK\3\4";
    out_ += head;
    AppendLittle(out_, padding + 4, 2);
    out_ += name;
    out_ += "FB";
    AppendLittle(out_, padding, 2);
    out_.append(padding, 'Z');
    out_ += bytes;

    directory_ += "PK\1\2";
    AppendLittle(directory_, 0, 2);  // version of the writing program
    directory_ += head;
    // The lengths of the extra field and of the comment, the disk number and
    // the attributes are all 0.
    directory_.append(12, '\0');
    AppendLittle(directory_, offset, 4);
    directory_ += name;
    ++count_;
  }

  std::string Take() {
    const size_t begin = out_.size();
    out_ += directory_;
    out_ += "PK\5\6";
    AppendLittle(out_, 0, 4);  // two disk numbers, both 0
    AppendLittle(out_, count_, 2);
    AppendLittle(out_, count_, 2);
    AppendLittle(out_, directory_.size(), 4);
    AppendLittle(out_, begin, 4);
    AppendLittle(out_, 0, 2);  // length of the comment, which is empty
    return std::move(out_);
  }

 private:
  // Appends the fields that are the same in a local header and in an entry of
  // the directory.
  static void AppendHead(std::string& out, uint32_t crc, size_t bytes,
                         size_t name) {
    AppendLittle(out, 20, 2);  // version of the format
    AppendLittle(out, 0, 6);   // flags, method (0: stored), time
    AppendLittle(out, kFirstDay, 2);
    AppendLittle(out, crc, 4);
    AppendLittle(out, bytes, 4);
    AppendLittle(out, bytes, 4);
    AppendLittle(out, name, 2);
  }

  std::string out_;
  std::string directory_;
  uint64_t count_ = 0;
};

std::string ArchiveOf(std::string_view pickle,
                      std::optional<std::string_view> elements) {
  ZipWriter zip(elements ? elements->size() : 0);
  zip.Add("data.pkl", pickle);
  zip.Add("byteorder", "little");
  if (elements) zip.Add("data/0", *elements);
  zip.Add("version", "3\n");
  return zip.Take();
}

std::string TensorPickle(const TorchDtype& dtype, const Shape& shape) {
  // Types without a storage class are stored as the bytes of an UntypedStorage.
  const bool typed = !dtype.storage.empty();
  int64_t stored = typed ? 1 : dtype.bytes;
  Shape strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i > 0; --i) {
    stored *= shape[i - 1];
    strides[i - 1] = step;
    step *= std::max<int64_t>(shape[i - 1], 1);
  }
  PickleWriter out;
  out.Global("torch._utils",
             typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  out.Op(pickle::kMark);
  out.Op(pickle::kMark);
  out.Text("storage");
  if (typed) {
    out.Global("torch", dtype.storage);
  } else {
    out.Global("torch.storage", "UntypedStorage");
  }
  out.Text("0");
  out.Text("cpu");
  out.Int(stored);
  out.Op(pickle::kTuple);
  out.Op(pickle::kBinPersId);
  out.Int(0);  // index of the first element
  out.Ints(shape);
  out.Ints(strides);
  out.Op(pickle::kNewFalse);  // requires_grad
  out.Global("collections", "OrderedDict");
  out.Op(pickle::kEmptyTuple);
  out.Op(pickle::kReduce);  // backward hooks, which are empty
  if (!typed) out.Global("torch", dtype.name);
  out.Op(pickle::kTuple);
  out.Op(pickle::kReduce);
  return out.Take();
}

}  // namespace

std::string TorchTensorArchive(const TorchDtype& dtype, const Shape& shape,
                               std::string_view elements) {
  return ArchiveOf(TensorPickle(dtype, shape), elements);
}

std::string TorchValueArchive(std::string_view pickle) {
  return ArchiveOf(pickle, std::nullopt);
}

}  // namespace shardc::stored
