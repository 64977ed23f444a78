// Texts that stand in for files, such as an editor's unsaved buffers, or what
// a file would hold with a fix.
#ifndef SHARDC_SOURCE_FILE_TEXTS_H_
#define SHARDC_SOURCE_FILE_TEXTS_H_

#include <map>
#include <string>

#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// What files hold in place of what is on disk, by FileIdOf.
using FileTexts = std::map<FileId, std::string>;

// ReadSource (source/file.h), or the text that stands in for the file; `texts`
// may be null.
SourceRef ReadSource(const std::string& path, const FileTexts* texts,
                     Findings& findings);

// Whether there is such a file, or a text that stands in for one.
bool IsThere(const std::string& path, const FileTexts* texts);

}  // namespace shardc

#endif  // SHARDC_SOURCE_FILE_TEXTS_H_
