// Fuzz targets for readers of binary files, in which lengths and counts come
// from the file.
#include <array>
#include <set>
#include <string>
#include <vector>

#include "fuzz/reading.h"
#include "importers/manifest.h"
#include "importers/safetensors.h"
#include "source/file.h"
#include "source/utf8.h"
#include "stored/box.h"
#include "stored/dcp.h"
#include "stored/pickle.h"
#include "stored/torch_archive.h"

namespace shardc::fuzz {
namespace {

bool SameHeader(const SafetensorsHeader& a, const SafetensorsHeader& b) {
  return a.metadata == b.metadata && a.data_offset == b.data_offset &&
         a.entries == b.entries;
}

void Safetensors(std::string_view bytes) {
  for (const bool whole : {true, false}) {
    CheckReader(bytes, [&](const SourceRef& source, Findings& findings) {
      std::optional<int64_t> size;
      if (whole) size = static_cast<int64_t>(bytes.size());
      const auto header = ParseSafetensorsHeader(source, size, findings);
      Findings none;
      const auto full =
          ParseSafetensorsHeader(source, size, none, /*plain=*/false);
      Require(full.has_value() == header.has_value() &&
                  (!full || SameHeader(*full, *header)),
              "two readings of a header are one");
      if (!header) return false;
      for (const SafetensorsEntry& entry : header->entries) {
        Require(entry.begin <= entry.end, "a range");
        Require(!whole || header->data_offset + entry.end <=
                              static_cast<int64_t>(bytes.size()),
                "a range in the file");
      }
      return true;
    });
  }
}

void Gguf(std::string_view bytes) {
  for (const bool header_only : {false, true}) {
    CheckReader(bytes, [&](const SourceRef& source, Findings& findings) {
      return ParseGguf(source, header_only, findings).has_value();
    });
  }
}

void Gzip(std::string_view bytes) {
  constexpr int64_t kLimit = 1 << 20;
  std::string why;
  const auto text = Inflate(bytes, kLimit, &why);
  Require(text.has_value() == why.empty(), "a text or a reason");
  Require(!text || static_cast<int64_t>(text->size()) <= kLimit,
          "no more than asked for");
}

// Visits every value once, so the walk ends even if a value contains itself.
void VisitAll(const stored::PickleValue& root) {
  std::set<uint32_t> seen;
  std::vector<stored::PickleValue> left = {root};
  while (!left.empty()) {
    const stored::PickleValue value = left.back();
    left.pop_back();
    if (value.type() == stored::PickleValue::Type::kAbsent ||
        !seen.insert(value.id()).second) {
      continue;
    }
    Require(!value.Text() || IsUtf8(*value.Text()), "a text in UTF-8");
    const bool pairs = value.type() == stored::PickleValue::Type::kDictionary;
    for (size_t i = 0; i < value.size(); ++i) {
      left.push_back(pairs ? value.Key(i) : value[i]);
      if (pairs) left.push_back(value.Value(i));
    }
    left.push_back(value.Content());
  }
}

void Pickle(std::string_view bytes) {
  using Use = stored::PickleGlobal::Use;
  static constexpr stored::PickleGlobal kGlobals[] = {
      {"m", "c", Use::kConstant},    {"m", "r", Use::kRecord},
      {"m", "f", Use::kCall},        {"m", "d", Use::kDictionary},
      {"m", "e", Use::kEnumeration}, {"m", "g", Use::kMember}};
  std::string why;
  const auto pickle = stored::Pickle::Parse(
      bytes, {.globals = kGlobals, .persistent = true, .max_values = 1 << 20},
      &why);
  Require(pickle.has_value() == why.empty(), "a pickle or a reason");
  if (pickle) VisitAll(pickle->root());
}

// Reads the bytes as `.metadata` of PyTorch DCP, and as the pickle of a tensor.
void Dcp(std::string_view bytes) {
  std::string key;
  std::string why;
  const auto tensor = stored::ParseTorchTensor(bytes, &key, &why);
  Require(tensor.has_value() == why.empty(), "a tensor or a reason");
  CheckReader(bytes, [&](const SourceRef& source, Findings& findings) {
    const auto metadata = stored::ParseDcpMetadata(source, findings);
    if (!metadata) return false;
    for (const stored::DcpTensor& one : metadata->tensors) {
      std::vector<Box> boxes;
      for (const stored::DcpPiece& piece : one.pieces) {
        Require(piece.file < metadata->files.size() && piece.bytes >= 0,
                "a piece in a file");
        boxes.push_back({piece.box.offset, piece.box.shape});
      }
      stored::WhyNotCovered(one.shape, boxes);
    }
    return true;
  });
}

}  // namespace

std::span<const NamedTarget> BinaryTargets() {
  static constexpr std::array<NamedTarget, 5> kTargets = {{
      {"safetensors", Safetensors},
      {"pickle", Pickle},
      {"dcp", Dcp},
      {"gguf", Gguf},
      {"gzip", Gzip},
  }};
  return kTargets;
}

}  // namespace shardc::fuzz
