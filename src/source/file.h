// Files in, whole.
#ifndef SHARDC_SOURCE_FILE_H_
#define SHARDC_SOURCE_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "source/source.h"

struct stat;

namespace shardc {

inline constexpr int64_t kTextLimitBytes = int64_t{2} << 30;

// Reads a regular file (or standard input for "-"), inflating it when it is
// gzipped, up to `limit_bytes` of text. FIFOs, devices and directories are
// refused. Findings: missing, unreadable, not-regular, limit.
SourceRef ReadSource(const std::string& path, Findings& findings,
                     int64_t limit_bytes = kTextLimitBytes);

// Gzip (one or several members) to bytes; nothing on broken or oversized
// input, with the reason in `*why`.
std::optional<std::string> Inflate(std::string_view gzip, int64_t limit_bytes,
                                   std::string* why);
bool IsGzip(std::string_view bytes);

// One name for a file, however it is reached; where there is none, the path.
FileId FileIdOf(const std::string& path);
FileId FileIdOf(const struct stat& status);

// "a/b" for ("a/x.yaml", "b"); absolute paths stay. Lexical only.
std::string PathBeside(const std::string& file, const std::string& relative);

}  // namespace shardc

#endif  // SHARDC_SOURCE_FILE_H_
