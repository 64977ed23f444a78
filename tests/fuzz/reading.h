// Checks that hold for every reader and any bytes: there is a result or an
// error, but not both; places are inside the text; messages can be printed.
#ifndef SHARDC_TESTS_FUZZ_READING_H_
#define SHARDC_TESTS_FUZZ_READING_H_

#include <string>
#include <string_view>

#include "fuzz/targets.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::fuzz {

// Checks that places are inside the text, and that all findings can be printed
// as text and as JSON.
void CheckFindings(const Findings& findings);

// `read` must return a value that converts to true if the bytes were read.
template <class Read>
void CheckReader(std::string_view bytes, const Read& read) {
  const SourceRef source = MakeSource("fuzz", std::string(bytes));
  Findings findings;
  const bool good = read(source, findings);
  Require(good != findings.HasErrors(), "a result or an error");
  CheckFindings(findings);
}

// Checks a reader that takes a JSON document.
template <class Read>
void CheckJsonReader(std::string_view bytes, const Read& read) {
  CheckReader(bytes, [&](const SourceRef& source, Findings& findings) {
    const auto document = JsonDocument::Parse(source, findings);
    return document != nullptr && read(*document, findings);
  });
}

// A file in memory that holds the bytes, for readers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  std::string path_;
};

}  // namespace shardc::fuzz

#endif  // SHARDC_TESTS_FUZZ_READING_H_
