// Writes the result of a search as an HTML page.
#ifndef SHARDC_EMIT_REPORT_SEARCH_PAGE_H_
#define SHARDC_EMIT_REPORT_SEARCH_PAGE_H_

#include "emit/costs/search_report.h"
#include "source/sink.h"

namespace shardc::report {

// Writes the winner next to the runner-up, the Pareto front of time and memory
// as a drawing and a table, the ties, and the reason why each alternative
// loses. If no sharding fits, the page has the least memory that is needed.
void WriteSearchPage(const SearchReport& report, Sink& out);

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_SEARCH_PAGE_H_
