// The style sheet and the script of the report's page. They are files of this
// folder that are compiled into the program.
#ifndef SHARDC_EMIT_REPORT_EMBEDDED_H_
#define SHARDC_EMIT_REPORT_EMBEDDED_H_

#include <span>

#include "source/embedded_file.h"

namespace shardc::report {

// Returns page.css and page.js, which the build embeds.
std::span<const EmbeddedFile> EmbeddedPage();

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_EMBEDDED_H_
