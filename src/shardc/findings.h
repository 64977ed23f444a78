// What is wrong with an input, or what a check has found: a code, a level, a
// place, the observation with its numbers, and a way out.
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
  std::string file;  // as it was named; a flag's name, or empty
  // From 1; the column counts Unicode code points. 0: the file as a whole.
  int line = 0;
  int column = 0;
};

struct Finding {
  std::string code;  // "SHD101"; Explain (check.h) says what it means
  std::string name;  // "catch-all-replicates"
  Level level = Level::kError;
  std::string message;  // lower case, one line, no final period
  FoundAt place;
  std::string help;                 // empty: nothing more to say
  std::vector<std::string> params;  // parameters concerned
};

// Functions append to it, and return nothing where they add errors.
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

  // As `shardc check --format` prints them: text, concise, json, sarif,
  // github, junit or markdown. Nothing for another format.
  std::optional<std::string> Text(std::string_view format = "text") const;

  struct Inside;  // the library's own
  Inside& inside() { return *inside_; }
  const Inside& inside() const { return *inside_; }

 private:
  std::unique_ptr<Inside> inside_;
};

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_FINDINGS_H_
