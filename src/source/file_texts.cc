#include "source/file_texts.h"

#include <sys/stat.h>

#include "source/file.h"

namespace shardc {

SourceRef ReadSource(const std::string& path, const FileTexts* texts,
                     Findings& findings) {
  if (texts != nullptr && !texts->empty()) {
    const FileId file = FileIdOf(path);
    const auto text = texts->find(file);
    if (text != texts->end()) {
      findings.NoteRead(file);
      return MakeSource(path, text->second);
    }
  }
  return ReadSource(path, findings);
}

bool IsThere(const std::string& path, const FileTexts* texts) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) return true;
  return texts != nullptr && texts->contains(FileIdOf(path));
}

}  // namespace shardc
