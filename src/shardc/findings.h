// A finding: an error in an input or the result of a lint, with a code, a
// level, a place, a message and a remedy.
#ifndef SHARDC_SHARDC_FINDINGS_H_
#define SHARDC_SHARDC_FINDINGS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardc/version.h"

namespace shardc::SHARDC_V1 {

enum class Level { kError, kWarning, kNote };

struct FoundAt {
  std::string file;  // path as given, name of an option, or empty
  // The line and the column, both counted from 1. The column is counted in
  // Unicode code points. Both are 0 if the finding is about the entire file.
  int line = 0;
  int column = 0;
};

struct Finding {
  std::string code;  // "SHD101"; Explain (check.h) describes it
  std::string name;  // "catch-all-replicates"
  Level level = Level::kError;
  std::string message;  // one line without a final period
  FoundAt place;
  std::string help;                 // how to correct it; may be empty
  std::vector<std::string> params;  // names of the affected parameters
};

// A list of findings. A function that takes a Findings argument appends to it,
// and returns nullopt if one of the appended findings is an error.
class Findings {
 public:
  Findings();
  ~Findings();
  Findings(const Findings& other);
  Findings(Findings&& other) noexcept;
  Findings& operator=(const Findings& other);
  Findings& operator=(Findings&& other) noexcept;

  size_t size() const;
  bool empty() const { return size() == 0; }
  bool HasErrors() const;
  Finding at(size_t index) const;  // 0 <= index < size()

  // Returns the findings in a format of `shardc check --format`: text, concise,
  // json, sarif, github, junit or markdown. Returns nullopt for another name.
  std::optional<std::string> Text(std::string_view format = "text") const;

  struct Inside;  // private to the library
  Inside& inside() { return *inside_; }
  const Inside& inside() const { return *inside_; }

 private:
  std::unique_ptr<Inside> inside_;
};

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_FINDINGS_H_
