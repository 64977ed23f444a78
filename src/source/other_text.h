// Recognises files that are not the text that a reader expects, such as binary
// files.
#ifndef SHARDC_SOURCE_OTHER_TEXT_H_
#define SHARDC_SOURCE_OTHER_TEXT_H_

#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// Looks for the reason why a parser of JSON or YAML has rejected a text. The
// text may have the markers of a merge conflict of Git. It may also be a Git
// LFS pointer, a web page, a zip archive, a pickle, or a file of numpy or HDF5.
// In these cases, adds an error with `code` that names the reason, and returns
// true. Otherwise returns false.
bool ReportOtherText(const SourceRef& source, Findings& findings,
                     const Code& code = code::kJsonSyntax);

}  // namespace shardc

#endif  // SHARDC_SOURCE_OTHER_TEXT_H_
