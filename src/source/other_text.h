// Recognises files that hold something else than the text a reader expects.
#ifndef SHARDC_SOURCE_OTHER_TEXT_H_
#define SHARDC_SOURCE_OTHER_TEXT_H_

#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// For a text that a parser of JSON or YAML has refused. If the text has the
// markers of a merge conflict of Git, or is a Git LFS pointer, a web page, a
// zip archive, a pickle, or a file of numpy or HDF5, adds a finding with `code`
// that states this and returns true. Otherwise returns false.
bool ReportOtherText(const SourceRef& source, Findings& findings,
                     const Code& code = code::kJsonSyntax);

}  // namespace shardc

#endif  // SHARDC_SOURCE_OTHER_TEXT_H_
