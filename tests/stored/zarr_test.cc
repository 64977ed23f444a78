#include "stored/zarr.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "source/source.h"
#include "tables.h"

namespace shardc::stored {
namespace {

std::string TextOf(const Shape& shape) {
  std::string out = "[";
  for (const int64_t size : shape) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(size);
  }
  return out + "]";
}

std::string HexOf(const std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte / 16];
    out += kDigits[byte % 16];
  }
  return out;
}

std::string LinesOf(const ZarrArray& array) {
  std::string out = "shape " + TextOf(array.shape) + " outer " +
                    TextOf(array.outer) + " chunk " + TextOf(array.chunk) +
                    "\n";
  out += "dtype " +
         (array.dtype ? std::string(DtypeName(*array.dtype)) : "unknown") +
         " of " + std::to_string(array.element_bytes) + " bytes, fill `" +
         HexOf(array.fill) + "`\n";
  out += "keys " + array.KeyOf({}) + " " + array.KeyOf({3}) + " " +
         array.KeyOf({0, 12}) + "\n";
  if (array.indexed) {
    out += std::string("index at the ") +
           (array.index_at_start ? "start" : "end") +
           (array.index_has_checksum ? " with a checksum" : "") + "\n";
  }
  constexpr std::string_view kNames[] = {"zstd", "deflate", "blosc", "crc32c"};
  for (const Codec codec : array.codecs) {
    out += "codec " + std::string(kNames[static_cast<size_t>(codec)]) + "\n";
  }
  if (!array.unreadable.empty()) out += "it " + array.unreadable + "\n";
  return out;
}

TEST_CASE("zarr: metadata gives the array, or the reason why it cannot") {
  CheckTable("zarr.txt", [](const TableCase& given) {
    const SourceRef source =
        MakeSource("a/" + given.Text("file"), given.Text("text"));
    Findings findings;
    bool group = false;
    const auto array = ParseZarr(source, &group, findings);
    std::string out = group ? "a group\n" : "";
    if (array) out += LinesOf(*array);
    for (const Finding& one : findings.all()) {
      out += std::to_string(one.place.begin) + ": " + one.message + "\n";
    }
    return out;
  });
}

}  // namespace
}  // namespace shardc::stored
