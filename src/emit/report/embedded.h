// The page's style sheet and script, which are files of this folder.
#ifndef SHARDC_EMIT_REPORT_EMBEDDED_H_
#define SHARDC_EMIT_REPORT_EMBEDDED_H_

#include <span>

#include "source/embedded_file.h"

namespace shardc::report {

// Returns page.css and page.js, which the build embeds.
std::span<const EmbeddedFile> EmbeddedPage();

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_EMBEDDED_H_
