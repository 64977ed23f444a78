// Readers of binary files, whose lengths and counts are the file's own.
#include <array>
#include <string>

#include "fuzz/reading.h"
#include "importers/gguf.h"
#include "importers/safetensors.h"
#include "source/file.h"

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

constexpr std::array<NamedTarget, 3> kTargets = {{
    {"safetensors", Safetensors},
    {"gguf", Gguf},
    {"gzip", Gzip},
}};

}  // namespace

std::span<const NamedTarget> BinaryTargets() { return kTargets; }

}  // namespace shardc::fuzz
