// Reads files, but returns a given text instead of a file's content if there is
// one. Such a text is, for example, the unsaved buffer of an editor.
#ifndef SHARDC_SOURCE_FILE_TEXTS_H_
#define SHARDC_SOURCE_FILE_TEXTS_H_

#include <map>
#include <string>

#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// Maps the identity of a file (FileIdOf) to the text that replaces its content.
using FileTexts = std::map<FileId, std::string>;

// Reads a file as ReadSource of source/file.h does, but returns the replacement
// text if `texts` has one for this file. `texts` may be null.
SourceRef ReadSource(const std::string& path, const FileTexts* texts,
                     Findings& findings);

// Returns whether `path` exists or has a replacement text.
bool IsThere(const std::string& path, const FileTexts* texts);

}  // namespace shardc

#endif  // SHARDC_SOURCE_FILE_TEXTS_H_
