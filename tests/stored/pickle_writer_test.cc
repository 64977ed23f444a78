// Compares written pickles with the bytes in testdata/tables/pickles.txt. For a
// pickle of one integer, Python's `pickle.loads` returns the integer in its
// title.
#include "stored/pickle.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tables.h"

namespace shardc::stored {
namespace {

std::string Hex(const std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    out += i % 32 == 0 && i > 0 ? "\n" : "";
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out + "\n";
}

TEST_CASE("pickles have the bytes that Python reads") {
  CheckTable("pickles.txt", [](const TableCase& given) {
    PickleWriter out;
    std::istringstream lines(given.Text("values"));
    for (std::string line; std::getline(lines, line);) {
      const size_t space = std::min(line.find(' '), line.size());
      const std::string kind = line.substr(0, space);
      std::string rest = line.substr(std::min(space + 1, line.size())), word;
      std::istringstream words(rest);
      if (kind == "text") {
        out.Text(rest == "long" ? std::string(300, 'x') : rest);
      } else if (kind == "global") {
        words >> word >> rest;
        out.Global(word, rest);
      } else if (kind == "texts") {
        // Writes this many different texts, then the first and the last one
        // again.
        const int count = std::stoi(rest);
        for (int i = 0; i < count; ++i) out.Text(std::to_string(i));
        out.Text("0");
        out.Text(std::to_string(count - 1));
      } else {
        std::vector<int64_t> numbers;
        for (int64_t number = 0; words >> number;) numbers.push_back(number);
        if (kind == "int") out.Int(numbers.at(0));
        if (kind == "ints") out.Ints(numbers);
        if (kind == "sizes") out.Sizes(numbers);
      }
    }
    std::string bytes = out.Take();
    if (bytes.size() > 512) {
      bytes = bytes.substr(0, 32) + bytes.substr(bytes.size() - 64);
    }
    return Hex(bytes);
  });
}

}  // namespace
}  // namespace shardc::stored
