// Prints the content of a stored tree as JSON: `read_tree FOLDER`. An array has
// its name, path, shape, dtype and the SHA-256 of its bytes in row-major order;
// any other leaf has its name. Exit status 1 after a finding.
//
// Every array is read once in full and once by boxes that do not follow its
// chunks, which must give the same bytes.
#include <algorithm>
#include <cstdio>
#include <string>

#include "source/digest.h"
#include "source/json_writer.h"
#include "source/sink.h"
#include "source/size.h"
#include "stored/tree.h"

namespace shardc::stored {
namespace {

std::optional<std::string> Bytes(const Tree& tree, size_t array, const Box& box,
                                 Findings& findings) {
  std::string out(AsIndex(box.Elements() * tree.arrays[array].element_bytes),
                  '\0');
  if (!ReadBox(tree, array, box, out.data(), findings)) return std::nullopt;
  return out;
}

// Reads the array in slices of its first dimension, of lengths 1, 2, 3 and so
// on.
std::optional<std::string> BytesBySlices(const Tree& tree, size_t array,
                                         Findings& findings) {
  const Shape& shape = tree.arrays[array].shape;
  if (shape.empty()) return Bytes(tree, array, FullBox(shape), findings);
  std::string out;
  int64_t rows = 1;
  for (int64_t row = 0; row < shape[0]; row += rows++) {
    Box box = FullBox(shape);
    box.offset[0] = row;
    box.shape[0] = std::min(rows, shape[0] - row);
    const auto part = Bytes(tree, array, box, findings);
    if (!part) return std::nullopt;
    out += *part;
  }
  return out;
}

void WriteArray(const Tree& tree, size_t i, JsonWriter& json,
                Findings& findings) {
  const Array& array = tree.arrays[i];
  json.BeginObject();
  json.Member("name", array.name);
  json.Key("path");
  json.BeginArray();
  for (const std::string& key : array.path) json.String(key);
  json.EndArray();
  json.Key("shape");
  json.Array(array.shape);
  json.Member("dtype", array.dtype ? DtypeName(*array.dtype) : "unknown");
  json.Member("chunks", array.Chunks());
  Findings found;
  const auto bytes = Bytes(tree, i, FullBox(array.shape), found);
  const auto slices = BytesBySlices(tree, i, found);
  if (!array.unreadable.empty()) {
    json.Member("unreadable", array.unreadable);
  } else {
    json.Member("sha256", bytes && bytes == slices ? Sha256(*bytes) : "");
    findings.Append(std::move(found));
  }
  json.EndObject();
}

bool Run(const std::string& path) {
  Findings findings;
  const auto tree = OpenTree(path, findings);
  if (tree) {
    const std::string text = TextOf([&](Sink& out) {
      JsonWriter json(out);
      json.BeginObject(JsonLayout::kLines);
      json.Member("form", tree->form);
      json.Key("arrays");
      json.BeginArray(JsonLayout::kLines);
      for (size_t i = 0; i < tree->arrays.size(); ++i) {
        WriteArray(*tree, i, json, findings);
      }
      json.EndArray();
      json.Key("leaves");
      json.BeginArray();
      for (const Leaf& leaf : tree->leaves) json.String(leaf.name);
      json.EndArray();
      json.EndObject();
    });
    std::printf("%s\n", text.c_str());
  }
  for (const Finding& finding : findings.all()) {
    std::fprintf(stderr, "%s: %s\n", finding.place.ToString().c_str(),
                 finding.message.c_str());
  }
  return !findings.HasErrors();
}

}  // namespace
}  // namespace shardc::stored

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: read_tree FOLDER\n");
    return 2;
  }
  return shardc::stored::Run(argv[1]) ? 0 : 1;
}
