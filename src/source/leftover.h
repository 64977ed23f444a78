// The name that a file has between the two steps in which it replaces another
// one (sink.h), and what a run leaves there that was killed in between.
#ifndef SHARDC_SOURCE_LEFTOVER_H_
#define SHARDC_SOURCE_LEFTOVER_H_

#include <string>

namespace shardc {

// Returns the name of a temporary file next to the target.
std::string TemporaryName(const std::string& path, const std::string& which);
// The last part of the name between the two steps.
inline constexpr const char* kNextFile = "new";

// Removes what a killed run has left next to a file. A run that is between the
// two steps detects it, and makes its file again. A later run that has nothing
// to write would not remove it otherwise.
void RemoveLeftover(const std::string& path);

}  // namespace shardc

#endif  // SHARDC_SOURCE_LEFTOVER_H_
