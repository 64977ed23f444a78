// Scans well-formed JSON into the nodes of a JsonDocument. Reports no errors.
#ifndef SHARDC_SOURCE_JSON_SCANNER_H_
#define SHARDC_SOURCE_JSON_SCANNER_H_

#include <string>
#include <string_view>
#include <vector>

#include "source/json.h"

namespace shardc {

class JsonScanner {
 public:
  // `text` is the document's text up to the end of the JSON value. It is read
  // from `begin` on, and is well-formed UTF-8 from there.
  JsonScanner(JsonDocument& document, std::string_view text, size_t begin,
              const JsonLimits& limits, size_t most_nodes);

  // Returns false at the first problem. The document's content is then
  // unusable, and the caller runs JsonReader, which reports the error.
  bool Scan();

 private:
  void SkipSpace();
  bool Take(char c);
  void Push(JsonKind kind);
  bool Value();
  bool Word(std::string_view word, JsonKind kind);
  bool Digits();
  bool Number();
  bool String();
  bool Unescape(size_t plain_end);
  bool Escape(std::string& out);
  bool CodeUnit(uint32_t& out);
  void Open(JsonKind kind);
  bool CloseHere();
  bool KeysDiffer(uint32_t object);

  JsonDocument& document_;
  std::string_view text_;
  size_t at_;
  size_t depth_;
  size_t most_nodes_;
  bool good_ = true;
  bool just_opened_ = false;
  std::vector<uint32_t> open_;  // nodes of containers that are not closed yet
  std::vector<std::string_view> keys_;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_JSON_SCANNER_H_
