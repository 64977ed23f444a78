// Writes DCP checkpoints. Each process writes a file with a torch archive for
// each of its chunks. The file of the first process also contains the archives
// of values that are not tensors. `.metadata` is written last, and lists the
// places of all archives:
//
//   __0_0.distcp   archive of w[0:2, :], archive of w[2:4, :], ...
//   .metadata      tensor `w` of shape [4, 2], chunks [0, 0] and [2, 0];
//                  ('w', [2, 0]) -> __0_0.distcp, offset 704, 704 bytes
//
// The properties of a tensor are written as a tuple of five values, which all
// versions of torch can read.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/manifest.h"
#include "source/input_file.h"
#include "source/size.h"
#include "source/wording.h"
#include "stored/pickle.h"
#include "stored/torch_archive.h"
#include "stored/write.h"
#include "stored/write_ocdbt.h"

namespace shardc::stored {
namespace {

// Writes archives as `torch.save` does; torch_archive.cc reads them. Members
// are stored uncompressed at multiples of 64 bytes. To align them, torch and
// shardc pad an extra field of the member's header:
//
//   archive/data.pkl    the call that makes the tensor from its storage
//   archive/byteorder   "little"
//   archive/data/0      the elements
//   archive/version     "3"

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

// Returns the archive of a tensor. `elements` has the tensor's elements in
// row-major order, and must be shorter than 2 GiB.
std::string TorchTensorArchive(const TorchDtype& dtype, const Shape& shape,
                               std::string_view elements) {
  return ArchiveOf(TensorPickle(dtype, shape), elements);
}

// Returns the archive of a value that is not a tensor. `pickle` is the value's
// pickle.
std::string TorchValueArchive(std::string_view pickle) {
  return ArchiveOf(pickle, std::nullopt);
}

constexpr std::string_view kModule = "torch.distributed.checkpoint.metadata";

const TorchDtype* TorchDtypeOf(Dtype dtype) {
  const auto types = TorchDtypes();
  const auto found =
      std::find_if(types.begin(), types.end(),
                   [&](const TorchDtype& type) { return type.dtype == dtype; });
  return found == types.end() ? nullptr : &*found;
}

// A piece of a tensor, or another value, and its place in the data files.
struct Piece {
  Shape offset;
  Shape shape;
  size_t file = 0;
  int64_t begin = 0;
  int64_t bytes = 0;
};

struct Tensor {
  const Array* array = nullptr;
  const TorchDtype* dtype = nullptr;
  std::vector<Piece> pieces;
};

struct SavedValue {
  std::vector<std::string> path;
  std::vector<bool> in_sequence;
  Piece piece;
};

// Writes the pickle `.metadata`.
class MetadataPickle {
 public:
  // `files` are the names of the data files, which the pickle refers to.
  explicit MetadataPickle(std::span<const std::string> files) : files_(files) {}

  std::string Of(std::span<const Tensor> tensors,
                 std::span<const SavedValue> values) {
    for (const Tensor& tensor : tensors) {
      lists_.Add(tensor.array->path, tensor.array->in_sequence);
    }
    for (const SavedValue& value : values) {
      lists_.Add(value.path, value.in_sequence);
    }
    Begin(kModule, "Metadata");
    Member("state_dict_metadata", [&] {
      Dictionary([&] {
        for (const Tensor& tensor : tensors) AddTensor(tensor);
        for (const SavedValue& value : values) {
          out_.Text(StorageName(value.path));
          NewRecord(kModule, "BytesStorageMetadata");
        }
      });
    });
    Member("planner_data", [&] {
      Dictionary([&] {
        for (const Tensor& tensor : tensors) {
          AddPath(tensor.array->path, tensor.array->in_sequence);
        }
        for (const SavedValue& value : values) {
          AddPath(value.path, value.in_sequence);
        }
      });
    });
    Member("storage_data", [&] {
      Dictionary([&] {
        for (const Tensor& tensor : tensors) {
          int64_t number = 0;
          for (const Piece& piece : tensor.pieces) {
            AddPlace(tensor.array->key, piece, number++);
          }
        }
        for (const SavedValue& value : values) {
          AddPlace(StorageName(value.path), value.piece, std::nullopt);
        }
      });
    });
    Member("storage_meta", [&] { out_.Op(pickle::kNone); });
    Member("version", [&] { out_.Text("1.0.0"); });
    End();
    return out_.Take();
  }

 private:
  // Pushes a new object of a class, whose fields are not set yet.
  void NewRecord(std::string_view module, std::string_view name) {
    out_.Global(module, name);
    out_.Op(pickle::kEmptyTuple);
    out_.Op(pickle::kNewObj);
  }

  // Begins a record of a class. The caller then adds the record's members and
  // calls End.
  void Begin(std::string_view module, std::string_view name) {
    NewRecord(module, name);
    out_.Op(pickle::kEmptyDict);
    out_.Op(pickle::kMark);
  }
  template <class Push>
  void Member(std::string_view name, const Push& push) {
    out_.Text(name);
    push();
  }
  void End() {
    out_.Op(pickle::kSetItems);
    out_.Op(pickle::kBuild);
  }

  template <class Push>
  void Dictionary(const Push& push) {
    out_.Op(pickle::kEmptyDict);
    out_.Op(pickle::kMark);
    push();
    out_.Op(pickle::kSetItems);
  }

  void AddTensor(const Tensor& tensor) {
    out_.Text(tensor.array->key);
    Begin(kModule, "TensorStorageMetadata");
    Member("properties", [&] { AddProperties(*tensor.dtype); });
    Member("size", [&] { out_.Sizes(tensor.array->shape); });
    Member("chunks", [&] {
      out_.Op(pickle::kEmptyList);
      out_.Op(pickle::kMark);
      for (const Piece& piece : tensor.pieces) {
        Begin(kModule, "ChunkStorageMetadata");
        Member("offsets", [&] { out_.Sizes(piece.offset); });
        Member("sizes", [&] { out_.Sizes(piece.shape); });
        End();
      }
      out_.Op(pickle::kAppends);
    });
    End();
  }

  // Pushes the properties of a tensor: data type, layout, requires_grad, memory
  // format, pin_memory.
  void AddProperties(const TorchDtype& dtype) {
    NewRecord(kModule, "TensorProperties");
    out_.Op(pickle::kMark);
    out_.Global("torch", dtype.name);
    out_.Global("torch.serialization", "_get_layout");
    out_.Text("torch.strided");
    out_.Op(pickle::kTuple1);
    out_.Op(pickle::kReduce);
    out_.Op(pickle::kNewFalse);
    out_.Global(kModule, "_MEM_FORMAT_ENCODING");
    out_.Int(0);  // 0 is the code of torch.contiguous_format
    out_.Op(pickle::kTuple1);
    out_.Op(pickle::kReduce);
    out_.Op(pickle::kNewFalse);
    out_.Op(pickle::kTuple);
    out_.Op(pickle::kBuild);
  }

  // Adds an entry of `planner_data`: the name of a tensor or value, and the
  // keys of its path. A key that is the index of a list is written as an
  // integer, unless elements of the list are missing.
  void AddPath(const std::vector<std::string>& path,
               const std::vector<bool>& in_sequence) {
    out_.Text(StorageName(path));
    out_.Op(pickle::kMark);
    for (size_t i = 0; i < path.size(); ++i) {
      const auto number = NumberOf(path[i]);
      if (number && lists_.IsIndex(path, in_sequence, i)) {
        out_.Int(*number);
      } else {
        out_.Text(path[i]);
      }
    }
    out_.Op(pickle::kTuple);
  }

  // Adds the place of a piece. `number` is the index of the piece among the
  // pieces of its tensor, or nullopt for a value that is not a tensor.
  void AddPlace(const std::string& name, const Piece& piece,
                std::optional<int64_t> number) {
    Begin(kModule, "MetadataIndex");
    Member("fqn", [&] { out_.Text(name); });
    Member("offset", [&] {
      if (number) {
        out_.Sizes(piece.offset);
      } else {
        out_.Op(pickle::kNone);
      }
    });
    Member("index", [&] {
      if (number) {
        out_.Int(*number);
      } else {
        out_.Op(pickle::kNone);
      }
    });
    End();
    Begin("torch.distributed.checkpoint.filesystem", "_StorageInfo");
    Member("relative_path", [&] { out_.Text(files_[piece.file]); });
    Member("offset", [&] { out_.Int(piece.begin); });
    Member("length", [&] { out_.Int(piece.bytes); });
    End();
  }

  std::span<const std::string> files_;
  CompleteLists lists_;
  PickleWriter out_;
};

// Returns the pickle of a string or an empty node.
std::string PickleOf(const Leaf& leaf) {
  PickleWriter out;
  if (leaf.kind == Leaf::Kind::kString) {
    out.Text(leaf.text);
  } else if (leaf.text == "Dict") {
    out.Op(pickle::kEmptyDict);
  } else if (leaf.text == "List") {
    out.Op(pickle::kEmptyList);
  } else if (leaf.text == "Tuple") {
    out.Op(pickle::kEmptyTuple);
  } else {
    out.Op(pickle::kNone);
  }
  return out.Take();
}

// Completes a checkpoint after all chunks have been written.
class DcpWriter {
 public:
  DcpWriter(WrittenParts parts, Findings& findings)
      : files_(std::move(parts.files)),
        chunks_(std::move(parts.chunks)),
        file_(std::move(parts.first)),
        findings_(findings) {}

  bool Write(std::span<const Array> arrays, std::span<const Leaf> leaves,
             const NewFolder& folder) {
    size_t next = 0;
    for (const Array& array : arrays) {
      Tensor& tensor = tensors_.emplace_back();
      tensor.array = &array;
      tensor.dtype = TorchDtypeOf(*array.dtype);
      for (int64_t chunk = 0; chunk < array.Chunks(); ++chunk) {
        const WrittenChunk& written = chunks_[next++];
        Box box = array.BoxOf(chunk);
        tensor.pieces.push_back({std::move(box.offset), std::move(box.shape),
                                 written.process, written.offset,
                                 written.bytes});
      }
      // An array without elements has no chunks, but torch saves an empty piece
      // for it, so an empty piece is written.
      if (array.Chunks() == 0 && !AddEmpty(tensor)) return false;
    }
    for (const Leaf& leaf : leaves) {
      if (IsWritten(leaf, WriteForm::kDcp) && !AddValue(leaf)) return false;
    }
    if (!file_.Close(findings_)) return false;
    auto metadata = NewFile::Create(folder.PathOf(".metadata"), findings_);
    return metadata &&
           metadata->Append(MetadataPickle(files_).Of(tensors_, values_),
                            findings_) &&
           metadata->Close(findings_);
  }

 private:
  bool AddEmpty(Tensor& tensor) {
    Box box = FullBox(tensor.array->shape);
    Piece& piece = tensor.pieces.emplace_back();
    piece.offset = std::move(box.offset);
    piece.shape = std::move(box.shape);
    return Append(TorchTensorArchive(*tensor.dtype, piece.shape, {}), piece);
  }

  bool AddValue(const Leaf& leaf) {
    SavedValue& value = values_.emplace_back();
    value.path = PathOf(leaf);
    value.in_sequence = leaf.in_sequence;
    return leaf.place ? Copy(*leaf.place, value.piece)
                      : Append(TorchValueArchive(PickleOf(leaf)), value.piece);
  }

  // Copies the archive of an opaque value, which is a value whose pickle shardc
  // does not interpret.
  bool Copy(const ChunkPlace& from, Piece& piece) {
    constexpr int64_t kStepBytes = 1 << 20;
    const auto file = InputFile::Open(from.file, findings_);
    if (!file) return false;
    piece.begin = file_.size();
    piece.bytes = from.bytes;
    std::string buffer;
    for (int64_t at = 0; at < from.bytes; at += kStepBytes) {
      buffer.resize(AsIndex(std::min(kStepBytes, from.bytes - at)));
      if (!file->ReadAt(from.offset + at, buffer.data(), buffer.size(),
                        findings_) ||
          !file_.Append(buffer, findings_)) {
        return false;
      }
    }
    return true;
  }

  bool Append(std::string_view archive, Piece& piece) {
    piece.begin = file_.size();
    piece.bytes = static_cast<int64_t>(archive.size());
    return file_.Append(archive, findings_);
  }

  std::vector<std::string> files_;
  std::vector<WrittenChunk> chunks_;
  NewFile file_;  // the open data file of the first process
  Findings& findings_;
  std::vector<Tensor> tensors_;
  std::vector<SavedValue> values_;
};

class DcpFormat : public PartsFormat {
 public:
  DcpFormat(std::span<const Array> arrays, std::span<const Leaf> leaves)
      : arrays_(arrays), leaves_(leaves) {}

  WriteForm form() const override { return WriteForm::kDcp; }
  std::string DataFile(int64_t process, int64_t) const override {
    return "__" + std::to_string(process) + "_0.distcp";
  }
  int64_t held_bytes() const override { return -1; }

  std::string Encode(const Array& array, const Box& box,
                     std::string elements) const override {
    return TorchTensorArchive(*TorchDtypeOf(*array.dtype), box.shape, elements);
  }

  bool Complete(WrittenParts parts, const NewFolder& folder,
                Findings& findings) override {
    return DcpWriter(std::move(parts), findings)
        .Write(arrays_, leaves_, folder);
  }

 private:
  std::span<const Array> arrays_;
  std::span<const Leaf> leaves_;
};

// Checks that DCP can store the names and data types of the arrays. Returns
// false after a finding.
bool CheckWritable(std::span<const Array> arrays, const WriteOptions& options,
                   Findings& findings) {
  for (const Array& array : arrays) {
    if (array.key.empty()) {
      findings.Add(code::kName, {MakeSource(options.folder, {})},
                   "an array has an empty name, which DCP cannot store",
                   "put it under a name");
    }
    if (TorchDtypeOf(*array.dtype) == nullptr) {
      findings.Add(code::kDtype, {MakeSource(options.folder, {})},
                   ShortQuote(array.name) + " has the data type " +
                       std::string(DtypeName(*array.dtype)) +
                       ", which torch does not have",
                   "write another format");
    }
  }
  return !findings.HasErrors();
}

}  // namespace

bool WriteDcp(std::span<const ArrayToWrite> arrays,
              std::span<const Leaf> leaves, const BoxSource& source,
              const WriteOptions& options, Findings& findings) {
  const auto divided =
      DivideArrays(arrays, leaves, WriteForm::kDcp, options, findings);
  if (!divided || !CheckWritable(*divided, options, findings)) return false;
  DcpFormat format(*divided, leaves);
  return WriteParts(*divided, source, options, format, findings);
}

}  // namespace shardc::stored
