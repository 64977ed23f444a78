// Writes a separate HTML page for one result: the timeline of a schedule, or
// the result of a search. Such a page has no script.
#ifndef SHARDC_EMIT_REPORT_SHEET_H_
#define SHARDC_EMIT_REPORT_SHEET_H_

#include <functional>
#include <string>
#include <string_view>

#include "emit/report/html.h"
#include "source/sink.h"

namespace shardc::report {

// Returns the text of an embedded file, page.css or page.js.
std::string_view PageFile(std::string_view name);
// Returns `sha256-` and the digest of the text in base64. This is how a content
// security policy names an allowed source.
std::string PolicyHash(std::string_view text);
// Returns two SVG fill patterns: one for replicated parts in a treemap, and one
// for replicated arrays and for bubbles.
std::string_view FillPatterns();

// Writes the page; `body` writes its sections.
void WriteSheet(std::string_view title, std::string_view subtitle,
                const std::function<void(Html&)>& body, Sink& out);

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_SHEET_H_
