// Reads input files into memory.
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

// Reads a regular file (or standard input for "-") of at most `limit_bytes` of
// text; a gzipped file is inflated first. FIFOs, devices and directories are
// refused. Returns null after a finding: missing, unreadable, not-regular,
// limit.
SourceRef ReadSource(const std::string& path, Findings& findings,
                     int64_t limit_bytes = kTextLimitBytes);

// Inflates gzip data of one or several members. Returns nullopt if the data is
// broken or larger than the limit, with the reason in `*why`.
std::optional<std::string> Inflate(std::string_view gzip, int64_t limit_bytes,
                                   std::string* why);
bool IsGzip(std::string_view bytes);

// Returns an identity of the file that is the same for every path that leads to
// it. If there is no such file, returns the path.
FileId FileIdOf(const std::string& path);
FileId FileIdOf(const struct stat& status);

// Return when a file changed last, in nanoseconds since 1970: ModifiedNs its
// contents, ChangedNs its contents or any attribute.
int64_t ModifiedNs(const struct stat& status);
int64_t ChangedNs(const struct stat& status);

// Resolves `relative` against the folder of `file`: "a/b" for ("a/x.yaml",
// "b"). Absolute paths are returned unchanged. The file system is not read.
std::string PathNextTo(const std::string& file, const std::string& relative);

}  // namespace shardc

#endif  // SHARDC_SOURCE_FILE_H_
