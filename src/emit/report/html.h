// HTML as it is written: what is ours as it stands, and texts from anywhere
// else escaped, in text and attributes alike.
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
  // What a reader could not see is told, as on a terminal (Printable).
  Html& Text(std::string_view text);
  // A name or a path: breaks behind its separators, cut where it is too long
  // to be read.
  Html& Name(std::string_view text);
  // With `code` for what stands in backticks.
  Html& Message(std::string_view text);
  Html& Bytes(int64_t bytes);
  Html& Bytes(const std::optional<int64_t>& bytes);  // or a dash
  Html& Count(int64_t count);
  Html& Number(int64_t number);
  Html& Fixed(double number);  // two decimals at most

 private:
  void Escape(std::string_view text, bool breaks);

  Sink& out_;
};

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_HTML_H_
