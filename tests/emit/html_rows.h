// Divides a page into lines for the tables of testdata/tables/emit_*.txt.
#ifndef SHARDC_TESTS_EMIT_HTML_ROWS_H_
#define SHARDC_TESTS_EMIT_HTML_ROWS_H_

#include <algorithm>
#include <string>
#include <string_view>

namespace shardc {

// Returns the page with each row, paragraph and drawn shape on a line of its
// own, so that it is compared line by line. Closing tags are left out if no
// text follows them. So are the style sheet and the script, which are files of
// their own.
inline std::string ByRow(std::string_view html) {
  constexpr std::string_view kInline[] = {"<a ",  "<b>",     "<code", "<span",
                                          "<td",  "<th ",    "<th>",  "<title",
                                          "<wbr", "<strong", "</",    "<dd"};
  std::string out;
  while (!html.empty()) {
    const bool embedded =
        html.starts_with("<style>") || html.starts_with("<script>");
    const size_t end =
        std::min(html.find(embedded ? "</" : "<", 1), html.size());
    std::string one(html.substr(0, embedded ? html.find('>') + 1 : end));
    html.remove_prefix(end);
    while (one.ends_with('\n')) one.pop_back();
    if (one.starts_with("</") && one.ends_with('>')) continue;
    std::replace(one.begin(), one.end(), '\n', ' ');
    const bool same_line = std::ranges::any_of(
        kInline, [&](std::string_view tag) { return one.starts_with(tag); });
    if (!same_line && !out.empty()) out += "\n";
    out += one;
  }
  return out + "\n";
}

}  // namespace shardc

#endif  // SHARDC_TESTS_EMIT_HTML_ROWS_H_
