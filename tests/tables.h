// Runs tests whose cases are listed in files of testdata/tables, where inputs
// and results are texts:
//
//   == a pattern of two names
//   -- format: flax
//   -- source
//   R = [("mlp", "a")]
//   -- result
//   rule ^w$ [a]
//
// A case has a title and parts. The text of a part follows its name on the same
// line or is on the lines below it. The part `result` is compared with the text
// that the test computes from the other parts. If SHARDC_WRITE_TABLES is set,
// the test writes the computed texts into the file instead; review them before
// they are committed.
#ifndef SHARDC_TESTS_TABLES_H_
#define SHARDC_TESTS_TABLES_H_

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardc {

class TableCase {
 public:
  std::string title;
  // A part's name and text. `inline_text` is set if both are on one line.
  struct Part {
    std::string name, text;
    bool inline_text = false;
  };
  std::vector<Part> parts;

  const Part* Find(std::string_view name) const {
    for (const Part& part : parts) {
      if (part.name == name) return &part;
    }
    return nullptr;
  }
  // Returns the text of a part; empty if the case has no such part.
  std::string Text(std::string_view name) const {
    const Part* part = Find(name);
    return part == nullptr ? std::string() : part->text;
  }
};

inline std::vector<TableCase> ReadTable(const std::string& path,
                                        std::string& head) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in.good(), path);
  std::vector<TableCase> out;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("== ")) {
      out.push_back({line.substr(3), {}});
    } else if (out.empty()) {
      head += line + "\n";
    } else if (line.starts_with("-- ")) {
      const size_t colon = line.find(": ");
      TableCase::Part part{line.substr(3), "", colon != std::string::npos};
      if (part.inline_text) {
        part.name = line.substr(3, colon - 3);
        part.text = line.substr(colon + 2);
      }
      out.back().parts.push_back(std::move(part));
    } else {
      REQUIRE_MESSAGE(!out.back().parts.empty(), line);
      out.back().parts.back().text += line + "\n";
    }
  }
  return out;
}

inline void WriteTable(const std::string& path, const std::string& head,
                       const std::vector<TableCase>& cases) {
  std::ofstream out(path, std::ios::binary);
  out << head;
  for (const TableCase& one : cases) {
    out << "== " << one.title << "\n";
    for (const TableCase::Part& part : one.parts) {
      out << "-- " << part.name;
      if (part.inline_text) {
        out << ": " << part.text << "\n";
      } else {
        out << "\n" << part.text;
      }
    }
  }
}

// Checks that two texts are equal. Only the first line that differs is
// reported.
inline void CheckSameLines(const std::string& found,
                           const std::string& expected) {
  size_t begin = 0;
  int line = 1;
  for (size_t i = 0; i < found.size() && i < expected.size(); ++i) {
    if (found[i] != expected[i]) break;
    if (found[i] != '\n') continue;
    begin = i + 1;
    ++line;
  }
  const auto line_of = [&](const std::string& text) {
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  if (found == expected) return;
  CAPTURE(line);
  CHECK(line_of(found) == line_of(expected));
}

// Checks every case of testdata/tables/`name`. `result` is a function that
// computes the result of a case, a text that ends with a line break. There must
// be a case for each of `titles`; when the table is written, those that have
// none are added.
template <class Result>
void CheckTable(const std::string& name, const Result& result,
                const std::vector<std::string>& titles = {}) {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  REQUIRE(root != nullptr);
  const std::string path = std::string(root) + "/testdata/tables/" + name;
  std::string head;
  std::vector<TableCase> cases = ReadTable(path, head);
  REQUIRE(!cases.empty());
  const bool write = std::getenv("SHARDC_WRITE_TABLES") != nullptr;
  for (const std::string& title : titles) {
    if (std::ranges::find(cases, title, &TableCase::title) != cases.end()) {
      continue;
    }
    CHECK_MESSAGE(write, name << " has no case `" << title << "`");
    if (write) cases.push_back({title, {}});
  }
  for (TableCase& one : cases) {
    CAPTURE(name);
    CAPTURE(one.title);
    const std::string found = result(std::as_const(one));
    if (!write) {
      CheckSameLines(found, one.Text("result"));
      continue;
    }
    if (one.Find("result") == nullptr)
      one.parts.push_back({"result", "", false});
    for (TableCase::Part& part : one.parts) {
      if (part.name == "result") part.text = found;
    }
  }
  if (write) WriteTable(path, head, cases);
}

}  // namespace shardc

#endif  // SHARDC_TESTS_TABLES_H_
