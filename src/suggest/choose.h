// Specs for the kinds of a tree on a mesh.
#ifndef SHARDC_SUGGEST_CHOOSE_H_
#define SHARDC_SUGGEST_CHOOSE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/axis_rules.h"
#include "model/mesh.h"
#include "suggest/dims.h"
#include "suggest/kinds.h"

namespace shardc::suggest {

// Sizes of a mesh by what its axes are for; 1 where it has none.
struct MeshAxes {
  int64_t dp = 1, fsdp = 1, ep = 1, tp = 1, sp = 1;
  AxisRules renamed;                // where axes have other names
  std::vector<std::string> unused;  // of no known purpose
  int64_t devices() const { return dp * fsdp * ep * tp * sp; }
};
MeshAxes AxesOf(const Mesh& mesh);

struct Wishes {
  bool prefer_traffic = false;  // odd vocabularies stay whole
  bool place_experts = false;   // experts over fsdp, where there is no ep
};

// One axis in a spec, as it is written.
struct Cut {
  std::string token;
  int64_t size = 1;
};

// Why a spec is what it is, where that is not the role's first choice.
enum class Reason : uint8_t {
  kUsual,
  kSlices,        // tensor parallelism cannot cut inside: gathered before use
  kWholeKeys,     // few KV heads, and little of them: whole over tp
  kWholeExperts,  // experts whole on devices of tp
  kWholeTensor,   // tensor parallelism cuts nothing of it
  kBehindToken,   // data axes on the dimension that tp cuts
  kLessData       // some data axis cuts nothing of it
};

struct Choice {
  std::vector<std::vector<Cut>> spec;  // by dimension; empty: replicated
  std::string place_axis;              // of single experts; empty: none
  int64_t place_count = 0;
  int64_t place_size = 1;  // of that axis
  Reason reason = Reason::kUsual;
  bool inner_cut = false;  // by tensor parallelism
  bool width_slices = false;
  // What lints read as a projection into heads that splits what enters.
  bool ignore_reshard = false;

  bool replicated() const;
  int64_t Parts() const;
};

struct Choices {
  std::vector<Choice> kinds;  // as in the tree
  AxisRules axes;             // what the file has to say of axes
  bool heads_whole = false;   // no attention is split by heads
  bool kv_heads_whole = false;
  bool batch_over_experts = false;
};

Choices Choose(const Tree& tree, const Readings& readings, const MeshAxes& mesh,
               const Wishes& wishes);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_CHOOSE_H_
