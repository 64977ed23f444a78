#include "stored/pickle_bytes.h"

#include <cstring>

#include "stored/torch_archive.h"

namespace shardc::stored::test {
namespace {

constexpr std::string_view kModule = "torch.distributed.checkpoint.metadata";

std::string Little(uint64_t value, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) {
    out += i < 8 ? static_cast<char>(value >> (8 * i) & 0xFF) : '\0';
  }
  return out;
}

}  // namespace

std::string OfModule(std::string_view name) { return Global(kModule, name); }

std::string Int(int64_t value) {
  return "\x8a\x08" + Little(static_cast<uint64_t>(value), 8);
}

std::string Text(std::string_view text) {
  return "X" + Little(text.size(), 4) + std::string(text);
}

std::string Global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}

std::string List(const std::vector<std::string>& values) {
  std::string out = "](";
  for (const std::string& value : values) out += value;
  return out + "e";
}

std::string Tuple(const std::vector<std::string>& values) {
  std::string out = "(";
  for (const std::string& value : values) out += value;
  return out + "t";
}

std::string Dict(
    const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out = "}(";
  for (const auto& [key, value] : pairs) out += key + value;
  return out + "u";
}

std::string Record(const std::string& type, const std::string& state) {
  return type + ")\x81" + state + "b";
}

std::string Call(const std::string& function,
                 const std::vector<std::string>& arguments) {
  return function + Tuple(arguments) + "R";
}

std::string Sizes(const std::vector<int64_t>& sizes) {
  std::vector<std::string> values;
  for (const int64_t size : sizes) values.push_back(Int(size));
  return Call(Global("torch", "Size"), {Tuple(values)});
}

std::string PickleOf(const std::string& value) {
  return "\x80\x02" + value + ".";
}

std::string ZipOf(const Members& members) {
  std::string out;
  std::string directory;
  for (const auto& [name, bytes] : members) {
    const std::string sizes = Little(ZipCrc(bytes), 4) +
                              Little(bytes.size(), 4) +
                              Little(bytes.size(), 4) + Little(name.size(), 2);
    const size_t at = out.size();
    out += "PK\3\4" + Little(0, 10) + sizes + Little(0, 2) + name + bytes;
    directory +=
        "PK\1\2" + Little(0, 12) + sizes + Little(0, 12) + Little(at, 4) + name;
  }
  const size_t at = out.size();
  return out + directory + "PK\5\6" + Little(0, 4) + Little(members.size(), 2) +
         Little(members.size(), 2) + Little(directory.size(), 4) +
         Little(at, 4) + Little(0, 2);
}

std::string FloatArchive(const std::vector<int64_t>& shape,
                         const std::vector<int64_t>& strides, int64_t first,
                         int64_t stored) {
  const auto tuple = [](const std::vector<int64_t>& sizes) {
    std::vector<std::string> values;
    for (const int64_t size : sizes) values.push_back(Int(size));
    return Tuple(values);
  };
  const std::string storage =
      Tuple({Text("storage"), Global("torch", "FloatStorage"), Text("0"),
             Text("cpu"), Int(stored)}) +
      "Q";
  const std::string pickle =
      PickleOf(Call(Global("torch._utils", "_rebuild_tensor_v2"),
                    {storage, Int(first), tuple(shape), tuple(strides), "\x89",
                     Call(Global("collections", "OrderedDict"), {})}));
  std::string data;
  for (int64_t i = 0; i < stored; ++i) {
    const auto value = static_cast<float>(i);
    char bytes[4];
    std::memcpy(bytes, &value, 4);
    data.append(bytes, 4);
  }
  return ZipOf({{"archive/data.pkl", pickle},
                {"archive/byteorder", "little"},
                {"archive/data/0", data},
                {"archive/version", "3\n"}});
}

std::string MetadataOf(const std::vector<int64_t>& shape,
                       const std::vector<Piece>& pieces) {
  std::vector<std::string> chunks;
  std::vector<std::pair<std::string, std::string>> storage;
  for (const Piece& piece : pieces) {
    chunks.push_back(Record(OfModule("ChunkStorageMetadata"),
                            Dict({{Text("offsets"), Sizes(piece.offset)},
                                  {Text("sizes"), Sizes(piece.shape)}})));
    storage.emplace_back(
        Record(OfModule("MetadataIndex"),
               Dict({{Text("fqn"), Text("w")},
                     {Text("offset"), Sizes(piece.offset)},
                     {Text("index"), "N"}})),
        Record(
            Global("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
            Dict({{Text("relative_path"), Text(piece.file)},
                  {Text("offset"), Int(piece.at)},
                  {Text("length"), Int(piece.bytes)}})));
  }
  const std::string properties =
      Record(OfModule("TensorProperties"),
             Tuple({Global("torch", "float32"), "N", "\x89", "N", "\x89"}));
  const std::string tensor = Record(OfModule("TensorStorageMetadata"),
                                    Dict({{Text("properties"), properties},
                                          {Text("size"), Sizes(shape)},
                                          {Text("chunks"), List(chunks)}}));
  return PickleOf(Record(
      OfModule("Metadata"),
      Dict({{Text("state_dict_metadata"), Dict({{Text("w"), tensor}})},
            {Text("planner_data"), Dict({{Text("w"), Tuple({Text("w")})}})},
            {Text("storage_data"), Dict(storage)}})));
}

}  // namespace shardc::stored::test
