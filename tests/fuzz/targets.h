// Fuzz targets: functions that take any bytes and abort if a check fails.
// libFuzzer runs one of them with bytes that it generates (entry.cc), and the
// ordinary tests run all of them over the kept corpus (replay.cc).
#ifndef SHARDC_TESTS_FUZZ_TARGETS_H_
#define SHARDC_TESTS_FUZZ_TARGETS_H_

#include <span>
#include <string_view>

namespace shardc::fuzz {

using Target = void (*)(std::string_view bytes);

struct NamedTarget {
  std::string_view name;  // of its folder in the corpus, too
  Target run;
};

// The targets by kind: readers of text, of JSON and of binary files, generated
// cases, input from an editor, and commands that read a config.json.
std::span<const NamedTarget> TextTargets();
std::span<const NamedTarget> JsonTargets();
std::span<const NamedTarget> BinaryTargets();
std::span<const NamedTarget> GeneratedTargets();
std::span<const NamedTarget> EditorTargets();
std::span<const NamedTarget> CommandTargets();
// Readers of the checkpoints of other systems.
std::span<const NamedTarget> StoredTargets();

// Returns the target of that name; null if there is none.
Target FindTarget(std::string_view name);

// Prints `what` and aborts unless `good`.
void Require(bool good, std::string_view what);

}  // namespace shardc::fuzz

#endif  // SHARDC_TESTS_FUZZ_TARGETS_H_
