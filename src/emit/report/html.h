// Writes HTML. Only Raw() writes text unchanged; all other functions escape it,
// for text and for attributes.
#ifndef SHARDC_EMIT_REPORT_HTML_H_
#define SHARDC_EMIT_REPORT_HTML_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/sink.h"

namespace shardc::report {

class Html {
 public:
  explicit Html(Sink& out) : out_(out) {}

  Html& Raw(std::string_view markup);
  // Appends escaped text. Invisible characters are shown as escapes such as
  // `\u202e` (Printable).
  Html& Text(std::string_view text);
  // Appends a name or a path. The browser may break the line after separators,
  // and a very long name is shortened.
  Html& Name(std::string_view text);
  // Appends a message. Text between backticks becomes a `<code>` element.
  Html& Message(std::string_view text);
  Html& Bytes(int64_t bytes);
  Html& Bytes(const std::optional<int64_t>& bytes);  // nullopt: writes a dash
  Html& Count(int64_t count);
  Html& Number(int64_t number);
  Html& Fixed(double number);  // with at most two decimals

 private:
  void Escape(std::string_view text, bool breaks);

  Sink& out_;
};

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_HTML_H_
