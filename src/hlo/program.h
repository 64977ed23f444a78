// Reads the HLO text of a compiled program in one pass. The names of
// computations and the parts of instructions are views of this text.
#ifndef SHARDC_HLO_PROGRAM_H_
#define SHARDC_HLO_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hlo/frames.h"
#include "hlo/instruction.h"
#include "hlo/instructions.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc::hlo {

struct Computation {
  std::string_view name;
  // Indices into Program::instructions; `end` is exclusive. `root` is the
  // instruction that is marked ROOT, or the last one if none is marked.
  uint32_t begin = 0, end = 0;
  uint32_t root = 0;
  bool empty() const { return begin == end; }
};

struct Program {
  SourceRef source;       // owns the text to which the views refer
  std::string_view name;  // name of the module
  int64_t devices = 1;    // number of partitions times number of replicas
  Instructions instructions;
  std::vector<Computation> computations;
  uint32_t entry = 0;  // index of the ENTRY computation in `computations`
  Frames frames;
  // The index into `computations`, keyed by the name of the computation.
  std::unordered_map<std::string_view, uint32_t> by_name;

  Place PlaceOf(std::string_view part) const;
  // Returns whether the text was written after XLA optimised and scheduled the
  // program. Other texts are of an earlier stage, such as right after
  // partitioning.
  bool IsScheduled() const;
  // Returns whether the first line of the module has tiled layouts, as on TPUs.
  bool HasTiles() const;
};

// Reads a module as `compiled.as_text()` and `--xla_dump_to` write it. Opcodes
// are not checked, and lines that are not instructions are skipped. Returns
// nullopt after a finding:
// - empty: the text is blank
// - limit: the module does not run on 1 to kMostDevices devices
// - foreign-syntax: the text is not a module, has no ENTRY computation, defines
//   a computation twice, ends inside a computation, or has brackets that do not
//   match
std::optional<Program> ReadProgram(const SourceRef& source, Findings& findings);

}  // namespace shardc::hlo

#endif  // SHARDC_HLO_PROGRAM_H_
