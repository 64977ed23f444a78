// Writes a checkpoint from a description: `write_tree orbax|dcp FILE FOLDER
// MEMORY-BYTES THREADS`. The file is JSON: arrays with path, in_sequence,
// shape, dtype, chunk, mesh ([[name, size], ...]) and spec, and leaves with
// name, kind (string, empty) and text. FILE.bytes holds the elements of all
// arrays in row-major order, one array after the other. Exit status 1 after a
// finding.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/file.h"
#include "source/input_file.h"
#include "source/json.h"
#include "source/size.h"
#include "stored/box.h"
#include "stored/write.h"

namespace shardc::stored {
namespace {

class FileSource : public BoxSource {
 public:
  FileSource(InputFile file, const std::vector<ArrayToWrite>& arrays)
      : file_(std::move(file)), arrays_(arrays) {
    for (const ArrayToWrite& array : arrays) {
      begins_.push_back(end_);
      end_ += FullBox(array.shape).Elements() * StoredBytes(array.dtype);
    }
  }

  bool Read(size_t array, const Box& box, char* out,
            Findings& findings) const override {
    const int64_t unit = StoredBytes(arrays_[array].dtype);
    const Shape& shape = arrays_[array].shape;
    const Region full{Shape(shape.size(), 0), shape};
    Region part{box.offset, box.offset};
    for (size_t i = 0; i < shape.size(); ++i) part.end[i] += box.shape[i];
    return ForEachRun(
        part, full, part, [&](int64_t from, int64_t to, int64_t units) {
          return file_.ReadAt(begins_[array] + from * unit, out + to * unit,
                              AsIndex(units * unit), findings);
        });
  }

 private:
  InputFile file_;
  const std::vector<ArrayToWrite>& arrays_;
  std::vector<int64_t> begins_;
  int64_t end_ = 0;
};

std::vector<JsonValue> Items(const JsonValue& object, std::string_view name) {
  std::vector<JsonValue> out;
  const auto member = object.Find(name);
  if (!member || !member->IsArray()) return out;
  for (const JsonValue& item : member->items()) out.push_back(item);
  return out;
}

Shape Sizes(const JsonValue& object, std::string_view name) {
  Shape out;
  for (const JsonValue& item : Items(object, name)) {
    out.push_back(item.integer());
  }
  return out;
}

std::string Text(const JsonValue& object, std::string_view name) {
  return std::string(object.Find(name)->string());
}

ArrayToWrite ReadArray(const JsonValue& value) {
  ArrayToWrite out;
  for (const JsonValue& key : Items(value, "path")) {
    out.path.emplace_back(key.string());
  }
  for (const JsonValue& in_sequence : Items(value, "in_sequence")) {
    out.in_sequence.push_back(in_sequence.boolean());
  }
  out.shape = Sizes(value, "shape");
  out.chunk = Sizes(value, "chunk");
  out.dtype = ParseDtype(Text(value, "dtype")).value();
  if (!value.Find("mesh")) return out;
  Sharding& sharding = out.sharding.emplace();
  for (const JsonValue& axis : Items(value, "mesh")) {
    const auto pair = axis.items();
    auto next = pair.begin();
    MeshAxis& added = sharding.mesh.axes.emplace_back();
    added.name = (*next).string();
    ++next;
    added.size = (*next).integer();
    sharding.mesh.devices *= added.size;
  }
  for (const JsonValue& group : Items(value, "spec")) {
    AxisGroup& axes = sharding.spec.emplace_back();
    for (const JsonValue& axis : group.items())
      axes.emplace_back(axis.string());
  }
  return out;
}

bool Run(std::string_view form, const std::string& file, WriteOptions options) {
  Findings findings;
  const SourceRef source = ReadSource(file, findings);
  const auto document =
      source == nullptr ? nullptr : JsonDocument::Parse(source, findings);
  auto bytes = InputFile::Open(file + ".bytes", findings);
  bool written = false;
  if (document != nullptr && bytes) {
    std::vector<ArrayToWrite> arrays;
    for (const JsonValue& array : Items(document->root(), "arrays")) {
      arrays.push_back(ReadArray(array));
    }
    std::vector<Leaf> leaves;
    for (const JsonValue& leaf : Items(document->root(), "leaves")) {
      leaves.push_back({Text(leaf, "name"),
                        Text(leaf, "kind") == "string" ? Leaf::Kind::kString
                                                       : Leaf::Kind::kEmpty,
                        Text(leaf, "text")});
    }
    const FileSource boxes(std::move(*bytes), arrays);
    const auto write = form == "dcp" ? WriteDcp : WriteOrbax;
    written = write(arrays, leaves, boxes, options, findings);
  }
  for (const Finding& finding : findings.all()) {
    std::fprintf(stderr, "%s: %s\n", finding.place.ToString().c_str(),
                 finding.message.c_str());
  }
  return written;
}

}  // namespace
}  // namespace shardc::stored

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr,
                 "usage: write_tree orbax|dcp FILE FOLDER MEMORY-BYTES "
                 "THREADS\n");
    return 2;
  }
  shardc::stored::WriteOptions options;
  options.folder = argv[3];
  options.memory_bytes = std::atoll(argv[4]);
  options.threads = std::atoi(argv[5]);
  return shardc::stored::Run(argv[1], argv[2], options) ? 0 : 1;
}
